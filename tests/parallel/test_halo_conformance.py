"""The conformance suite on every transport that runs on a CPU."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError, PlanError, TransportError
from pulsemd.halo import Transport, cartesian_plan, launch, plan_from_ids
from pulsemd.halo.conformance import ONE_PULSE, RANKS, Field, run_conformance
from pulsemd.halo.transports import mpi

HAS_MPI = find_spec("mpi4py") is not None and (
    shutil.which("mpirun") or shutil.which("mpiexec") or (Path(sys.executable).parent / "mpirun").exists()
)
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py and mpirun or mpiexec")


@pytest.mark.parametrize("n_ranks", RANKS)
def test_conformance_of_loopback_passes(n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport="loopback"), [n_ranks]) >= 36


@pytest.mark.parametrize("n_ranks", [2, 8])
def test_conformance_of_shmem_passes(n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport="shmem"), [n_ranks]) >= 36


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_conformance_of_mpi_passes(n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport="mpi"), [n_ranks]) >= 36


@pytest.mark.slow
@pytest.mark.parametrize("n_ranks", RANKS)
@pytest.mark.parametrize(
    "transport", ["loopback", "shmem", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_conformance_passes_thoroughly(transport: str, n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport=transport), [n_ranks], thorough=True) > 360


@pytest.mark.parametrize(
    "faults",
    [
        "delay rank=0 us=300",
        "delay pulse=1 us=300; duplicate",
        "reorder rank=1",
        "reorder; duplicate rank=2; delay rank=2 pulse=0 us=200",
    ],
)
def test_conformance_with_delays_reorderings_and_duplicates_passes(faults: str) -> None:
    world = partial(launch, transport="loopback", faults=faults)
    assert run_conformance(world, [3]) >= 36


def two_begins(transport: Transport, call: str) -> None:
    """Start an exchange, then do what is only allowed after its end."""
    plan, ids = ONE_PULSE.plan((transport.size,), transport.rank)
    channel = Field(transport, plan, ids, "int32", 1, "two begins").channel
    channel.forward_begin()
    getattr(channel, call)()


@pytest.mark.parametrize("call", ["forward_begin", "release", "reverse_begin", "reverse_end"])
def test_channel_with_an_exchange_under_way_refuses_another(call: str) -> None:
    with pytest.raises(TransportError, match=r"channel 'field', rank \d: \w+ while forward is"):
        launch(2, f"{__name__}:two_begins", call, transport="loopback")


def mismatched_plan(transport: Transport, what: str) -> None:
    """Rank 1 makes a plan that the others do not expect."""
    here = transport.rank == 1
    plan, _ = cartesian_plan((9, 4), (3, 1), transport.rank, 2 if here and what == "width" else 1)
    if here and what == "start":
        pulses = [replace(pulse, remote_start=pulse.remote_start + 1) for pulse in plan.pulses]
        plan = replace(plan, pulses=tuple(pulses))
    transport.channel(plan, transport.allocate("x", 100, 1, "int32"))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("width", r"pulse \d: rank \d sends \d+ rows to rank \d, which expects \d+"),
        ("start", r"at row .* expects them"),
    ],
)
def test_plans_that_do_not_match_are_refused_with_rank_and_pulse(what: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        launch(3, f"{__name__}:mismatched_plan", what, transport="loopback")


def too_few_rows(transport: Transport, payload: None) -> None:
    """The capacity is one row short."""
    plan, _ = cartesian_plan((9,), (transport.size,), transport.rank, 1)
    transport.channel(plan, transport.allocate("x", plan.n_local - 1, 1, "int32"))


def test_channel_beyond_its_capacity_is_refused_with_both_numbers() -> None:
    with pytest.raises(PlanError, match="has 5 local rows, capacity is 4"):
        launch(3, f"{__name__}:too_few_rows", transport="loopback")


def fractions(transport: Transport, where: str) -> object:
    """Rank 1 gives numbers that would be cut off."""
    odd = 0.5 if transport.rank == 1 else 0
    if where == "ids":
        return plan_from_ids(transport, np.array([transport.rank]) + odd, np.empty(0))
    return transport.reduce(2, "int64").sum(np.array([1, 2]) + odd)


@pytest.mark.parametrize("transport", ["loopback", "shmem", pytest.param("mpi", marks=needs_mpi)])
def test_fractions_where_whole_numbers_are_wanted_are_refused_on_every_rank(transport: str) -> None:
    with pytest.raises(PlanError, match="owned ids of rank 1 are float64; give whole numbers"):
        launch(2, f"{__name__}:fractions", "ids", transport=transport)
    with pytest.raises(TransportError, match="values are float64, made for int64"):
        launch(2, f"{__name__}:fractions", "sum", transport=transport)


def returns_a_function(transport: Transport, payload: None) -> object:
    """No pickle holds it."""
    return lambda: None


def test_result_that_cannot_be_sent_is_refused_with_the_function_that_returned_it() -> None:
    with pytest.raises(
        ConfigError, match="returns_a_function returned what cannot be sent between processes"
    ):
        launch(2, f"{__name__}:returns_a_function", transport="shmem")


def messages_in_parts(transport: Transport, payload: None) -> tuple[bool, bool]:
    """Whether large messages arrive whole where MPI counts to few bytes."""
    mpi._MOST_BYTES = 1000
    sent = list(range(5000))
    given = transport.broadcast(sent if transport.rank == 1 else None, root=1)
    rows = np.arange(7000).reshape(-1, 7)
    return given == sent, all(np.array_equal(found, rows) for found in transport.alltoall([rows, rows]))


@pytest.mark.mpi
@needs_mpi
def test_messages_of_more_bytes_than_mpi_counts_arrive_whole() -> None:
    assert launch(2, f"{__name__}:messages_in_parts", transport="mpi") == (True, True)
