"""PME on several ranks on GPUs: sums of arrays of processes, and runs against those of one rank."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import PeerError
from pulsemd.engine.gpu_control import ProcessControl
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import launch_gpus, open_transport
from pulsemd.halo.device.array_sum import open_array_sum
from pulsemd.halo.device.local import local_transports, on_every_seat
from pulsemd.halo.device.transport import ExchangeOptions
from pulsemd.halo.rungs.ladder import open_rung
from rungs import skipped_where_missing
from systems import bundled_system

pytestmark = pytest.mark.gpu

PME = {"coulombtype": "pme", "fourierspacing": 0.12, "nsttcouple": 5, "nstcomm": 10}
STEPS = 60
TURNS = 5


@pytest.fixture(params=[(0,), (0, 1)], ids=["one", "two_gpus"])
def ordinals(request, device):
    """GPUs of the seats. Not one for two: there the kernel of the second seat did not begin while that of the first
    waited for it, probably because a kernel is loaded at its first launch, and loading waits for the context."""
    if device.xp.cuda.runtime.getDeviceCount() <= max(request.param):
        pytest.skip("needs two GPUs")
    return request.param


def arrays_of(process, n, kind):
    """What a process adds at each turn: numbers in some places, zeros elsewhere."""
    rng = np.random.default_rng(process)
    values = rng.normal(0.0, 1e3, (TURNS, n)).astype(kind)
    start = process * n // 4
    values[:, :start] = values[:, start + n // 3 :] = 0
    values[rng.random((TURNS, n)) < 0.1] = 0
    return values


def copy(device, source, target):
    target.data.copy_from_device_async(source.data, source.nbytes, device.stream)


@pytest.mark.parametrize("puts", [(), (1,)], ids=["stores", "reduced"])
@pytest.mark.parametrize("n", [4, 1000, 40_000])
@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_sums_of_arrays_are_those_in_the_order_of_processes(ordinals, kind, n, puts):
    options = ExchangeOptions(put_ranks=puts)
    transports = local_transports("nvshmem-fused", 2 * len(ordinals), ordinals, 10.0, options=options)

    def run(transport):
        device, total = transport.device, transport.device.full(n, 7, kind)
        given = device.to_device(arrays_of(transport.memory.process, n, kind))
        found = device.zeros((TURNS, n), kind)
        array_sum = open_array_sum(transport, total, device.stream)
        transport.meet()
        for values, result in zip(given, found, strict=True):
            copy(device, values, array_sum.own)
            array_sum.sum()
            copy(device, total, result)
        transport.settle()
        transport.meet()
        transport.check()
        assert not device.to_host(array_sum.own).any()
        return device.to_host(found)

    expected = np.zeros((TURNS, n), kind)
    for process in range(len(ordinals)):
        expected += arrays_of(process, n, kind)
    for found in on_every_seat(transports, run):
        if puts and kind == "float32":  # summed in float64
            assert np.allclose(found, expected, rtol=1e-6, atol=1e-3)
        else:
            assert np.array_equal(found, expected)


def test_a_sum_of_arrays_that_a_process_does_not_join_is_reported(device):
    transports = local_transports("nvshmem-fused", 2, (0, 0), 0.3)

    def run(transport):
        total = transport.device.zeros(1000, np.float32)
        array_sum = open_array_sum(transport, total, transport.device.stream)
        if transport.ranks.start == 0:
            array_sum.sum()
        transport.settle()
        transport.meet()
        with pytest.raises(PeerError) as caught:
            transport.check()
        return str(caught.value)

    reports = on_every_seat(transports, run)
    assert "rank 0 waited 0.3 s for rank 1" in reports[0]
    assert "a sum of 1000 float32" in reports[0]
    assert "a wait of another process expired" in reports[1]


def on_ranks(system, n_ranks, precision, **options):
    """A simulation of several plan-ranks in this process."""
    (transport,) = local_transports("nvshmem-fused", n_ranks)
    chosen = RunOptions(device="cuda", ranks=n_ranks, precision=precision, **options)
    return Simulation(ProcessControl(transport), system, chosen)


def on_one(system, precision):
    options = RunOptions(device="cuda", precision=precision)
    return Simulation(open_transport("loopback"), system, options)


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
