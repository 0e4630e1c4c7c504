"""PME on several ranks on GPUs: runs against those of one rank."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.engine.gpu_control import ProcessControl
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import launch_gpus, open_transport
from pulsemd.halo.rungs.ladder import open_rung
from rungs import skipped_where_missing
from systems import bundled_system
from test_engine_ranks import on_one, on_ranks

pytestmark = pytest.mark.gpu

PME = {"coulombtype": "pme", "fourierspacing": 0.12, "nsttcouple": 5, "nstcomm": 10}
STEPS = 60


@pytest.mark.parametrize("name", ["water", "peptide"])
@pytest.mark.parametrize("n_ranks", [1, 2, 4, 8])
def test_the_trajectory_with_pme_on_ranks_has_the_hash_of_one(device, n_ranks, name):
    system = bundled_system(name, **PME)
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, n_ranks, "reproducible")
    for simulation in (alone, ranks):
        simulation.run(STEPS)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    expected, found = alone.evaluate(), ranks.evaluate()
    for term, value in expected.items():
        assert found[term] == pytest.approx(value, rel=1e-9, abs=1e-9), term


@pytest.mark.parametrize("n_ranks", [1, 4])
def test_energies_with_pme_on_ranks_equal_those_of_a_cpu(device, n_ranks):
    system = bundled_system("peptide", **PME)
    options = RunOptions(device="cpu", precision="reproducible")
    reference = Simulation(open_transport("loopback"), system, options).evaluate()
    mine = on_ranks(system, n_ranks, "fast").evaluate()
    for term in reference.keys() - {"pressure", "total", "conserved"}:
        assert mine[term] == pytest.approx(reference[term], rel=1e-5, abs=2e-2), term
    assert mine["pressure"] == pytest.approx(reference["pressure"], rel=1e-4, abs=2.0)


def test_energy_with_pme_is_conserved_on_ranks_in_fast_mode(device):
    ranks = on_ranks(bundled_system(**{**PME, "tcoupl": "no", "nsttcouple": 10}), 4, "fast")
    ranks.run(100)
    before = ranks.evaluate()["conserved"]
    ranks.run(1000)
    assert abs(ranks.evaluate()["conserved"] - before) < 20.0
    assert np.isfinite(before)


@pytest.mark.parametrize(
    ("rung", "per_gpu", "name"),
    [
        ("nvshmem-fused", 1, "water"),
        ("nvshmem-fused", 4, "peptide"),
        ("nvshmem-pulse", 2, "water"),
        ("nvshmem-stream", 1, "water"),
        ("nccl", 2, "water"),
        ("mpi", 1, "water"),
    ],
)
def test_the_trajectory_with_pme_on_two_gpus_has_the_hash_of_one(device, rung, per_gpu, name):
    if device.xp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    alone = on_one(bundled_system(name, **PME), "reproducible")
    alone.run(STEPS)
    target = f"{__name__}:hash_and_energies"
    with skipped_where_missing(rung):
        found = launch_gpus(2, target, (name, rung), None, ranks_per_gpu=per_gpu)
    assert found[0] == alone.trajectory_hash()
    for term, value in alone.evaluate().items():
        assert found[1][term] == pytest.approx(value, rel=1e-9, abs=1e-9), term


def hash_and_energies(world, asked):
    """Of a run of the ranks of all processes."""
    name, rung = asked
    with open_rung(world, rung) as transport:
        options = RunOptions(
            device="cuda", ranks=transport.size, ranks_per_gpu=transport.n_local, precision="reproducible"
        )
        simulation = Simulation(ProcessControl(transport), bundled_system(name, **PME), options)
        simulation.run(STEPS)
        return simulation.trajectory_hash(), simulation.evaluate()
