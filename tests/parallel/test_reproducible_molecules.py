"""Reproducible mode of systems with bonded terms and constraints: one trajectory hash for every number of ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from molecules import molecule_files
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.halo import Transport, launch
from pulsemd.io.gromacs import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

SYSTEMS = ("peptide", "water-ethanol", "opls")
"""The last with water of four sites."""
START = {"opls": 260}
"""Temperature [K] after a few steps where the start is a minimum of the energy."""


def run_hash(transport: Transport, payload: tuple[str, int, str]) -> tuple[str, float]:
    """Trajectory hash and temperature after some steps with thermostat and searches."""
    name, steps, plan = payload
    settings = read_settings(system_files("peptide" if name == "opls" else name).parameters)[0]
    settings = replace(settings, nstlist=10, nsteps=steps, gen_seed=5, ld_seed=6)
    with TemporaryDirectory() as folder:
        files = molecule_files(name, Path(folder))
        topology, table, frame, settings = read_system(files.configuration, files.topology, settings)
    system = prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)
    options = RunOptions(transport.size, None, "loopback", plan, "reproducible")
    simulation = Simulation(transport, system, options)
    simulation.run(steps)
    digest = transport.broadcast(simulation.trajectory_hash())
    return digest, simulation.evaluate()["temperature"]


def hashes(name: str, steps: int) -> set[tuple[str, float]]:
    plans = {1: "staged", 2: "staged", 4: "direct", 5: "staged", 7: "direct"}
    return {
        launch(ranks, "test_reproducible_molecules:run_hash", (name, steps, plan), "loopback", timeout=120)
        for ranks, plan in plans.items()
    }


@pytest.mark.parametrize("name", SYSTEMS)
def test_hash_of_molecules_few_steps_is_the_same_on_1_2_4_5_7_ranks(name):
    (found,) = hashes(name, 22)
    assert found[1] == pytest.approx(START.get(name, 300), abs=15)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SYSTEMS)
def test_hash_of_molecules_500_steps_is_the_same_on_1_2_4_5_7_ranks(name):
    (found,) = hashes(name, 500)
    assert found[1] == pytest.approx(300, abs=15)
