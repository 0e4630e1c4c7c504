"""Runs of bonded terms, constraints, free atoms and rigid water together on a device, against the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.kernels.constraints import gpu_sites
from pulsemd.kernels.update import cuda_programs
from pulsemd.kernels.update import gpu as gpu_update
from systems import MIXED_TOP, SITES_TOP, mixed_system

pytestmark = pytest.mark.gpu
BOTH = pytest.mark.parametrize("top", [MIXED_TOP, SITES_TOP], ids=["atoms", "sites"])


def simulate(system, precision, device):
    return Simulation(open_transport("loopback"), system, RunOptions(precision=precision, device=device))


@BOTH
@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_energies_of_a_mixture_on_device_equal_cpu(device, tmp_path, precision, top):
    system = mixed_system(tmp_path, top=top)
    reference = simulate(system, "reproducible", "cpu")
    reference.run(200)  # away from the ideal geometry of the start
    frame = reference.gather()
    system.x[:], system.v[:] = frame.x, frame.v
    expected = simulate(system, "reproducible", "cpu").evaluate()
    mine = simulate(system, precision, "cuda").evaluate()
    assert mine.keys() == expected.keys()
    for name in (
        "bond",
        "angle",
        "ryckaert_bellemans",
        "lj14",
        "coulomb14",
        "lj",
        "coulomb",
        "potential",
        "kinetic",
    ):
        assert mine[name] == pytest.approx(expected[name], rel=1e-5, abs=2e-3), name
    assert mine["pressure"] == pytest.approx(expected["pressure"], rel=1e-4, abs=0.1)


@BOTH
def test_a_mixture_on_device_follows_the_cpu_for_a_while(device, tmp_path, top):
    system = mixed_system(tmp_path, top=top, nsttcouple=5, nstcomm=10)
    ends = []
    for where in ("cpu", "cuda"):
        simulation = simulate(system, "reproducible", where)
        simulation.run(25)
        ends.append(simulation.gather())
    r = (ends[0].x - ends[1].x).astype(np.float64) / 2**32 @ system.box
    assert np.abs(r).max() < 2e-6
    np.testing.assert_allclose(ends[0].v, ends[1].v, atol=2e-3)


@BOTH
def test_constraints_of_a_mixture_hold_on_device(device, tmp_path, top):
    system = mixed_system(tmp_path, top=top)
    simulation = simulate(system, "fast", "cuda")
    simulation.run(300)
    x = simulation.gather().x
    terms = system.topology.terms["constraint"]
    r = (x[terms.atoms[:, 0]] - x[terms.atoms[:, 1]]).astype(np.float64) / 2**32 @ system.box
    np.testing.assert_allclose(np.linalg.norm(r, axis=1), terms.parameters[terms.index, 0], atol=5e-8)


@BOTH
def test_reproducible_runs_of_a_mixture_give_one_hash_for_any_launch_shape(
    device, tmp_path, monkeypatch, top
):
    system = mixed_system(tmp_path, top=top)
    hashes = set()
    for threads in (64, 64, 128):
        for module in (cuda_programs, gpu_update):
            monkeypatch.setattr(module, "MOVE_THREADS", threads)
        monkeypatch.setattr(cuda_programs, "GROUP_THREADS", threads)
        for module in (gpu_update, gpu_sites):
            monkeypatch.setattr(module, "GROUP_THREADS", threads)
        simulation = simulate(system, "reproducible", "cuda")
        simulation.run(200)
        hashes.add(simulation.trajectory_hash())
    assert len(hashes) == 1


def test_steps_of_a_mixture_with_sites_as_graphs_have_the_hash_of_steps_one_by_one(device, tmp_path):
    system = mixed_system(tmp_path, top=SITES_TOP, nstcomm=10)
    hashes = set()
    for graph in (True, False):
        options = RunOptions(precision="reproducible", device="cuda", graph=graph)
        simulation = Simulation(open_transport("loopback"), system, options)
        simulation.warm_up()
        simulation.run(100)
        hashes.add(simulation.trajectory_hash())
        assert isinstance(simulation.rank.graph_report(), dict) == graph
    assert len(hashes) == 1
