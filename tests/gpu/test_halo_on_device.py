"""Exchanges started by the GPU: the conformance suite on plan-ranks of one GPU, of two, and what must fail."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pulsemd.base.errors import PeerError
from pulsemd.halo.conformance import GRID_CASES, ONE_PULSE, TWO_PULSES, ConformanceError, conform
from pulsemd.halo.device.local import local_transports, on_every_seat
from pulsemd.halo.device.ranks import run_ranks
from pulsemd.halo.device.transport import ExchangeOptions
from pulsemd.halo.rungs.conformance import storm

pytestmark = pytest.mark.gpu

TIMEOUT = 2.0
MD_ROWS = [("int32", 4), ("int64", 4), ("float32", 4)]
DIRECT = GRID_CASES[6]
SLOW = "delay rank=1 us=3000; delay rank=2 us=3000"


def suite(n_ranks, ordinals=(0,), name="nvshmem-fused", faults="", **options):
    """The suite on plan-ranks dealt to seats; the number of cases."""
    transports = local_transports(name, n_ranks, ordinals, TIMEOUT, faults, ExchangeOptions(**options))
    return on_every_seat(transports, lambda transport: run_ranks([transport], conform, {"thorough": False}))[
        0
    ]


@pytest.mark.parametrize("name", ["nvshmem-fused", "nvshmem-pulse"])
def test_suite_on_eight_plan_ranks_of_one_gpu_passes(device, name):
    assert suite(8, name=name) >= 60


@pytest.mark.parametrize(
    "options",
    [
        {"put_ranks": range(8)},
        {"put_ranks": (1, 2), "blocks": 3},
        {"way": "pull"},
        {"way": "push"},
        {"blocks": 7, "faults": "delay pulse=1 us=100; delay rank=2 us=50"},
    ],
    ids=["puts", "stores and puts", "pull", "push", "delays"],
)
def test_suite_on_four_plan_ranks_with_options_passes(device, options):
    assert suite(4, **options) >= 50


@pytest.mark.parametrize("wait", ["forwarded", "reverse_arrival"])
def test_suite_without_a_wait_for_rows_fails(device, wait):
    with pytest.raises(ConformanceError, match="conformance of nvshmem-fused"):
        suite(3, faults=f"skip rank=0 wait={wait}; {SLOW}")


@pytest.mark.parametrize("kind", MD_ROWS, ids=["positions", "fixed-point forces", "float forces"])
@pytest.mark.parametrize("options", [{}, {"put_ranks": (0, 3, 5)}, {"way": "pull"}, {"way": "push"}])
def test_rows_of_molecular_dynamics_in_scattered_slots_arrive(device, kind, options):
    (transport,) = local_transports("nvshmem-fused", 8, (0,), TIMEOUT, options=ExchangeOptions(**options))
    for case in (ONE_PULSE, TWO_PULSES, DIRECT):
        pairs = [case.plan((2, 2, 2), rank) for rank in transport.ranks]
        storm(transport, pairs, kind, True, case.name)


def bound(transport, case=ONE_PULSE, grid=(2,), room_for=None, **options):
    """A channel of positions on a grid, with its array (with room for another case) and plans."""
    plans = [case.plan(grid, rank)[0] for rank in transport.ranks]
    n_rows = max((room_for or case).plan(grid, rank)[0].n_local for rank in range(transport.size))
    array = transport.allocate("rows", n_rows, 4, np.int32)
    return transport.channel(plans, array, **options), array, plans


@pytest.mark.parametrize("name", ["nvshmem-fused", "nvshmem-pulse"])
@pytest.mark.parametrize(
    "options", [{}, {"put_ranks": (1,)}, {"way": "pull"}], ids=["stores", "puts", "pull"]
)
def test_captured_exchange_replayed_over_a_rebind_brings_new_rows(device, name, options):
    """There and back, over plans with fewer rows and pulses, with more again, with and without forwarding."""
    (transport,) = local_transports(name, 4, (0,), TIMEOUT, options=ExchangeOptions(**options))
    cases = [ONE_PULSE, TWO_PULSES, DIRECT, TWO_PULSES]
    channel, array, _ = bound(transport, TWO_PULSES, (2, 2))
    for case in cases:  # then there is room for the tables of each
        channel.rebind([case.plan((2, 2), rank)[0] for rank in transport.ranks])
    assert channel.capturable
    there, back = (transport.device.capture(work) for work in (channel.forward, channel.reverse))
    generation = channel.generation
    for turn, case in enumerate(cases * 5):
        plans, ids = zip(*(case.plan((2, 2), rank) for rank in transport.ranks), strict=True)
        channel.rebind(plans)
        wanted = [np.tile(8 * own[:, None] + 4096 * turn, 4).astype(np.int32) for own in ids]
        set_rows(transport, array, [rows[: plan.n_owned] for rows, plan in zip(wanted, plans, strict=True)])
        there()
        transport.check()
        found = transport.device.to_host(array)
        assert all((found[k, : len(rows)] == rows).all() for k, rows in enumerate(wanted)), case.name
        back()
        transport.check()
        found = transport.device.to_host(array)
        ghosts = np.concatenate([own[plan.n_owned :] for own, plan in zip(ids, plans, strict=True)])
        for k, plan in enumerate(plans):
            times = 1 + (ids[k][: plan.n_owned, None] == ghosts).sum(1, keepdims=True)
            assert (found[k, : plan.n_owned] == wanted[k][: plan.n_owned] * times).all(), case.name
    assert channel.generation == generation


def set_rows(transport, array, rows):
    """Write the first rows of each plan-rank, in the stream of its exchanges."""
    with transport.device.current():
        for k, own in enumerate(rows):
            array[k, : len(own)] = transport.device.to_device(own)


def test_rebind_to_more_pulses_makes_captured_exchanges_invalid(device):
    (transport,) = local_transports("nvshmem-fused", 4, (0,), TIMEOUT)
    channel, _, plans = bound(transport, ONE_PULSE, (2, 2), room_for=TWO_PULSES)
    generation = channel.generation
    channel.rebind(plans)
    assert channel.generation == generation
    channel.rebind([TWO_PULSES.plan((2, 2), rank)[0] for rank in transport.ranks])
    assert channel.generation > generation


@pytest.mark.parametrize("pulse", [0, 1])
def test_rows_that_never_arrive_end_the_wait_with_a_report(device, pulse):
    """Of the only pulse that waits: of several the first whose wait expires is reported."""
    others = f"skip pulse={1 - pulse} wait=arrival"
    transports = local_transports("nvshmem-fused", 2, (0, 0), 0.3, others, ExchangeOptions(share=0.25))

    def run(transport):
        channel, _, _ = bound(transport)
        transport.meet()
        if transport.ranks.start == 0:
            channel.forward()
        transport.settle()
        transport.meet()
        try:
            transport.check()
        except PeerError as error:
            return str(error)
        return ""

    started = time.monotonic()
    reports = on_every_seat(transports, run)
    awaited = f"rank 0 waited 0.3 s for rank 1: pulse {pulse}, epoch 1 of channel 'rows', forward: rows"
    assert awaited in reports[0]
    assert "a wait of another process expired" in reports[1]
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(("dtype", "width"), [("int64", 3), ("float64", 8), ("float64", 700)])
def test_sum_over_ranks_has_the_bits_of_the_sum_in_rank_order(device, dtype, width):
    (transport,) = local_transports("nvshmem-fused", 5, (0,), TIMEOUT)
    reduce = transport.reduce(width, dtype)
    values = np.random.default_rng(1).normal(0.0, 1e6, (5, width)).astype(dtype)
    expected = np.zeros(width, dtype)
    for row in values:
        expected += row
    for _ in range(3):
        totals = transport.device.to_host(reduce.sum(transport.device.to_device(values)))
        assert all((row == expected).all() for row in totals)
    transport.check()


@pytest.fixture
def two_gpus(device):
    if device.xp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    return (0, 1)


@pytest.mark.parametrize("name", ["nvshmem-fused", "nvshmem-pulse"])
def test_suite_on_eight_plan_ranks_of_two_gpus_passes(two_gpus, name):
    assert suite(8, two_gpus, name) >= 60


@pytest.mark.parametrize("wait", ["arrival", "forwarded", "reverse_arrival"])
def test_suite_on_two_gpus_without_a_wait_for_rows_fails(two_gpus, wait):
    with pytest.raises(ConformanceError, match="conformance of nvshmem-fused"):
        suite(4, two_gpus, faults=f"skip rank=0 wait={wait}; {SLOW}")


def slow_reader(ordinals, faults):
    """Rank 1's GPU reads its ghost rows late, by a copy in stream order; rank 0's is already in the next exchange."""
    transports = local_transports("nvshmem-fused", 2, ordinals, TIMEOUT, faults)

    def run(transport):
        device, turns = transport.device, 6
        channel, array, plans = bound(transport)
        ghosts = slice(plans[0].n_owned, plans[0].n_local)
        seen = device.zeros((turns, plans[0].n_local, 4), np.int32)
        busy = device.zeros(1 << 22, np.float32)
        for turn in range(-1, turns):
            array[0, : plans[0].n_owned] = turn
            channel.forward()
            if transport.ranks.start == 1:
                for _ in range(20):
                    busy += 1.0
            seen[max(turn, 0)] = array[0, : plans[0].n_local]
        transport.check()
        return device.to_host(seen)[:, ghosts, 0]

    return on_every_seat(transports, run)[1]


def test_slow_reader_with_credits_gets_the_rows_of_its_turn(two_gpus):
    seen = slow_reader(two_gpus, "")
    assert (seen == np.arange(len(seen))[:, None]).all()


def test_slow_reader_without_credits_gets_later_rows(two_gpus):
    seen = slow_reader(two_gpus, "skip wait=credit")
    assert (seen > np.arange(len(seen))[:, None]).any()
