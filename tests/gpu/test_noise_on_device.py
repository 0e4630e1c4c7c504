"""Stochastic dynamics on a GPU follows that on a CPU, and ranks the one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.freeze import freeze_atoms
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from systems import MIXED_TOP, SITES_TOP, bundled_system, mixed_system
from test_engine_ranks import on_one, on_ranks

pytestmark = pytest.mark.gpu

BATH = {"integrator": "sd", "tcoupl": "no", "tau_t": 0.1}


def last_frame(system, device, precision, steps):
    """The last frame, and the energies of its positions."""
    options = RunOptions(precision=precision, device=device, raise_nstlist=False)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, options)
        simulation.run(steps)
        return simulation.gather(), simulation.evaluate()


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("top", [MIXED_TOP, SITES_TOP], ids=["mixed", "sites"])
def test_noise_on_device_follows_cpu(device, tmp_path, top, precision):
    system = mixed_system(tmp_path, top=top, nstlist=5, **BATH)
    (cpu, before), (gpu, after) = (last_frame(system, place, precision, 12) for place in ("cpu", "cuda"))
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    moved = (gpu.x - cpu.x).astype(np.float64) / 2**32 @ system.box
    assert np.abs(moved).max() < 2e-5
    assert np.abs(cpu.v - system.v).max() > 1.0
    for name in ("potential", "kinetic", "pressure"):
        assert after[name] == pytest.approx(before[name], rel=1e-3, abs=1.0), name


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_frozen_atoms_on_device_stay_and_the_others_follow_cpu(device, tmp_path, precision):
    system = mixed_system(tmp_path, nstlist=5)
    still = system.topology.molecule % 5 == 0
    frozen = np.flatnonzero(still).astype(np.int32)
    system = replace(system, topology=freeze_atoms(system.topology, frozen))
    (cpu, before), (gpu, after) = (last_frame(system, place, precision, 12) for place in ("cpu", "cuda"))
    for end in (cpu, gpu):
        assert (end.x[still] == system.x[still]).all()
        assert not end.v[still].any()
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    assert after["potential"] == pytest.approx(before["potential"], rel=1e-3, abs=1.0)


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_noise_on_ranks_gives_the_hash_of_one(device, n_ranks):
    system = bundled_system(nstcomm=10, nstlist=8, **BATH)
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, n_ranks, "reproducible")
    for simulation in (alone, ranks):
        simulation.run(30)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
