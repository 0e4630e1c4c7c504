"""Temperatures that follow points in time on a GPU are those of a CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from systems import mixed_system

pytestmark = pytest.mark.gpu

POINTS = {
    "annealing_npoints": (3,),
    "annealing_time": (0.0, 0.004, 0.009),
    "annealing_temp": (300.0, 700.0, 50.0),
}
BAROSTAT = {
    "pcoupl": "c-rescale",
    "tau_p": 0.5,
    "compressibility": (4.5e-5,),
    "ref_p": (500.0,),
    "nstpcouple": 2,
}
CASES = {
    "v-rescale": {"nsttcouple": 2, "tau_t": 0.02},
    "weak coupling and a barostat": {"tcoupl": "berendsen", "nsttcouple": 1, "tau_t": 0.02} | BAROSTAT,
    "md-vv": {"integrator": "md-vv", "nsttcouple": 2, "tau_t": 0.02} | BAROSTAT,
    "sd": {"integrator": "sd", "tcoupl": "no", "tau_t": 0.02} | BAROSTAT,
}


def states(system, device, precision, steps):
    """Energies in every step, the last frame, and the work of thermostat and barostat."""
    records = []
    options = RunOptions(precision=precision, device=device, raise_nstlist=False)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, options)
        for _ in range(steps):
            simulation.run(1)
            records.append(simulation.evaluate())
        return records, simulation.gather(), simulation.rank.read_work()


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("kind", ["single", "periodic"])
@pytest.mark.parametrize("case", CASES)
def test_annealed_temperatures_on_device_follow_cpu(device, tmp_path, case, kind, precision):
    system = mixed_system(tmp_path, nstlist=4, annealing=(kind,), **POINTS | CASES[case])
    (expected, cpu, work), (found, gpu, device_work) = (
        states(system, place, precision, 9) for place in ("cpu", "cuda")
    )
    temperatures = [[record["temperature"] for record in records] for records in (expected, found)]
    assert max(temperatures[0]) - min(temperatures[0]) > 20.0
    np.testing.assert_allclose(temperatures[1], temperatures[0], rtol=2e-4)
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    np.testing.assert_allclose(gpu.cell.box, cpu.cell.box, rtol=0, atol=2e-6)
    np.testing.assert_allclose(device_work, work, atol=5e-2, rtol=2e-4)


def test_annealed_groups_on_device_follow_cpu(device, tmp_path):
    system = mixed_system(
        tmp_path,
        tc_grps=("First", "Rest"),
        nsttcouple=1,
        tau_t=0.02,
        annealing=("no", "periodic"),
        annealing_npoints=(0, 2),
        annealing_time=(0.0, 0.006),
        annealing_temp=(300.0, 700.0),
    )
    system = replace(system, group_of_atom=(np.arange(system.topology.n_atoms) > 200).astype(np.int32))
    expected, found = (states(system, place, "reproducible", 6)[0] for place in ("cpu", "cuda"))
    for name in ("temperature_First", "temperature_Rest"):
        old, new = ([record[name] for record in records] for records in (expected, found))
        np.testing.assert_allclose(new, old, rtol=2e-4)
