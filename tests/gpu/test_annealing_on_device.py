"""Temperatures that follow points in time on a GPU are those of a CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from step_by_step import BAROSTAT, states
from systems import mixed_system

pytestmark = pytest.mark.gpu

POINTS = {
    "annealing_npoints": (3,),
    "annealing_time": (0.0, 0.004, 0.009),
    "annealing_temp": (300.0, 700.0, 50.0),
}
OFTEN = BAROSTAT | {"nstpcouple": 2}
CASES = {
    "v-rescale": {"nsttcouple": 2, "tau_t": 0.02},
    "weak coupling and a barostat": {"tcoupl": "berendsen", "nsttcouple": 1, "tau_t": 0.02} | OFTEN,
    "md-vv": {"integrator": "md-vv", "nsttcouple": 2, "tau_t": 0.02} | OFTEN,
    "sd": {"integrator": "sd", "tcoupl": "no", "tau_t": 0.02} | OFTEN,
}


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
