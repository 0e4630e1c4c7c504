"""Energy conservation with bonded terms, constraints and rigid water."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files


def run(name: str, dt: float, steps: int, precision: str = "fast") -> dict[str, np.ndarray]:
    """Energies every 20 fs of a run without thermostat from the same start."""
    files = system_files(name)
    settings = replace(
        read_settings(files.parameters)[0],
        dt=dt, tcoupl="no", nstlist=10, verlet_buffer_tolerance=1e-5, gen_seed=3, comm_mode="none",
    )  # fmt: skip
    topology, table, frame, settings = read_system(files.configuration, files.topology, settings)
    system = prepare_system(topology, table, settings, frame.positions, None, frame.box)
    rows: list[dict[str, float]] = []
    reporter = Reporter(round(0.02 / dt), energies=lambda step, time, energies: rows.append(energies))
    with open_transport("loopback") as transport:
        Simulation(transport, system, RunOptions(precision=precision), [reporter]).run(steps)
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


@pytest.mark.parametrize("name", ["peptide", "water-ethanol"])
def test_nve_of_molecules_total_energy_fluctuates_with_the_square_of_the_step(name):
    """Leap-frog conserves a total energy that differs from the printed one by O(dt^2): a wrong force would drift."""
    coarse, fine = run(name, 0.002, 160), run(name, 0.001, 320)
    assert coarse["total"].std() < 8.0
    assert fine["total"].std() < 0.45 * coarse["total"].std()
    assert np.ptp(coarse["potential"]) > 10 * np.ptp(coarse["total"])
    for table in (coarse, fine):
        assert np.all(np.abs(table["temperature"] - 300) < 15)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", ["peptide", "water-ethanol"])
def test_nve_of_molecules_20_ps_does_not_drift(name, precision):
    table = run(name, 0.002, 10_000, precision)
    time = 0.02 * np.arange(len(table["total"]))
    n_atoms = {"peptide": 5843, "water-ethanol": 3432}[name]
    slope = np.polyfit(time, table["total"], 1)[0] / n_atoms
    print(f"{name}, {precision}: {slope:.1e} kJ/mol/ps per atom")
    assert abs(slope) < 2e-4
