"""Sums of arrays of several processes on GPUs, by every way of moving bytes."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from pulsemd.base.errors import PeerError, TransportError
from pulsemd.halo import launch_gpus
from pulsemd.halo.device.array_sum import DeviceArraySum, open_array_sum
from pulsemd.halo.device.local import local_transports, on_every_seat
from pulsemd.halo.device.transport import ExchangeOptions
from pulsemd.halo.rungs.ladder import open_rung
from pulsemd.halo.rungs.mpi import MpiArraySum, MpiWire, waits_of_sum
from pulsemd.halo.rungs.nccl import NcclArraySum, NcclWire, find_nccl_problem
from rungs import skipped_where_missing

pytestmark = pytest.mark.gpu

TURNS = 5
SIZES = (4, 1000, 40_000)
KINDS = ("int64", "float32")
RUNGS = {"nccl": {}, "mpi": {}, "nvshmem-stream": {}, "nvshmem-fused": {"peer_pointers": False}}
"""Rungs of two GPUs, and how they are opened; the last one puts."""


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


def sums_of(n_processes, n, kind):
    """In the order of processes."""
    expected = np.zeros((TURNS, n), kind)
    for process in range(n_processes):
        expected += arrays_of(process, n, kind)
    return expected


def copy(device, source, target):
    target.data.copy_from_device_async(source.data, source.nbytes, device.stream)


def sums_on_device(transport, make, n, kind):
    """What a process finds."""
    device = transport.device
    total = device.full(n, 7, kind)
    given = device.to_device(arrays_of(transport.memory.process, n, kind))
    found = device.zeros((TURNS, n), kind)
    array_sum = make(transport, total, device.stream)
    transport.meet()
    for values, result in zip(given, found, strict=True):
        copy(device, values, array_sum.own)
        array_sum.sum()
        copy(device, total, result)
    transport.settle()
    transport.meet()
    assert not device.to_host(array_sum.own).any()
    return device.to_host(found)


@pytest.mark.parametrize("puts", [(), (1,)], ids=["stores", "puts"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_arrays_are_those_in_the_order_of_processes(ordinals, kind, n, puts):
    options = ExchangeOptions(put_ranks=puts)
    transports = local_transports("nvshmem-fused", 2 * len(ordinals), ordinals, 10.0, options=options)

    def run(transport):
        found = sums_on_device(transport, open_array_sum, n, kind)
        transport.check()
        return found

    expected = sums_of(len(ordinals), n, kind)
    for found in on_every_seat(transports, run):
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


def test_a_sum_of_an_array_that_is_no_whole_number_of_vectors_is_refused(device):
    (transport,) = local_transports("nvshmem-fused", 1)
    with pytest.raises(TransportError, match="a sum of 20 bytes; give a multiple of 16"):
        open_array_sum(transport, device.zeros(5, np.float32), device.stream)


class Letters:
    """Messages between threads, which stands for MPI; a message is there once it is sent."""

    BYTE = None

    def __init__(self):
        self.boxes = defaultdict(deque)
        self.Request = SimpleNamespace(Testall=lambda requests: False not in [done() for done in requests])

    def communicator(self, own):
        return SimpleNamespace(
            Isend=lambda buffer, peer, tag: self.send(buffer[0], (own, peer, tag)),
            Irecv=lambda buffer, peer, tag: self.receive(buffer[0], (peer, own, tag)),
        )

    def send(self, values, way):
        self.boxes[way].append(values.copy())
        return lambda: True

    def receive(self, place, way):
        done = []

        def arrived():
            if not done and self.boxes[way]:
                place[:] = self.boxes[way].popleft()
                done.append(True)
            return bool(done)

        return arrived


class LetterWire(MpiWire):
    """Through pinned memory, for threads have no MPI between them."""

    def __init__(self, letters, process):
        self.mpi, self.gpu_aware, self.timeout = letters, False, 10.0
        self.communicator = letters.communicator(process)


def threads_with_letters(device, n_processes):
    """As much of a transport as a sum by MPI needs, for each of several threads."""
    letters, barrier = Letters(), threading.Barrier(n_processes)
    return [
        SimpleNamespace(
            device=device,
            memory=SimpleNamespace(process=process, n_processes=n_processes),
            wire=LetterWire(letters, process),
            register=lambda user, stream: 0,
            timed=lambda what, call: call(),
            meet=barrier.wait,
            settle=device.synchronize,
            host_waits=0,
            host_waited=0.0,
        )
        for process in range(n_processes)
    ]


@pytest.mark.parametrize("n_processes", [2, 3, 5])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_by_mpi_of_any_number_of_processes_are_those_in_their_order(device, kind, n, n_processes):
    transports = threads_with_letters(device, n_processes)
    with ThreadPoolExecutor(n_processes) as threads:
        found = list(threads.map(lambda t: sums_on_device(t, MpiArraySum, n, kind), transports))
    expected = sums_of(n_processes, n, kind)
    for of_process in found:
        assert np.array_equal(of_process, expected)
    assert [transport.host_waits for transport in transports] == [
        waits_of_sum(n_processes) * TURNS
    ] * n_processes


@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_by_nccl_of_one_process_is_its_array(device, kind):
    if (problem := find_nccl_problem()) is not None:
        pytest.skip(problem)
    (transport,) = threads_with_letters(device, 1)
    transport.wire = NcclWire(device, 0, 1, lambda value: [value])
    assert np.array_equal(sums_on_device(transport, NcclArraySum, 1000, kind), sums_of(1, 1000, kind))


@pytest.mark.parametrize("rung", RUNGS)
def test_sums_of_two_gpus_have_the_same_bits_on_every_rung(device, rung):
    if device.xp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    with skipped_where_missing(rung):
        found = launch_gpus(2, f"{__name__}:wrong_sums_of_rung", rung, None, ranks_per_gpu=2)
    assert found == [[], []]


def wrong_sums_of_rung(world, rung):
    """Of each process the kinds and sizes of sums that were not as they should be."""
    wrong = []
    with open_rung(world, rung, **RUNGS[rung]) as transport:
        assert isinstance(open_sum(transport), DeviceArraySum) == rung.startswith("nvshmem")
        for kind in KINDS:
            for n in SIZES:
                found = sums_on_device(transport, open_array_sum, n, kind)
                if not np.array_equal(found, sums_of(2, n, kind)):
                    wrong.append((kind, n))
        transport.check()
    return world.gather(wrong)


def open_sum(transport):
    return open_array_sum(transport, transport.device.zeros(4, np.float32), transport.device.stream)
