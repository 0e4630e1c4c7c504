"""Every wait of the protocol is needed: with the peer slowed down, leaving one out gives wrong rows."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from pulsemd.base.errors import PeerError
from pulsemd.halo import Transport, launch
from pulsemd.halo.conformance import ONE_PULSE, TWO_PULSES, ConformanceError, Field, run_conformance

NAP = 0.25  # a busy machine lets the other rank run meanwhile


def slow_reader(transport: Transport, payload: Any) -> None:
    """Rank 1 reads its ghost rows late; rank 0 is already in the next exchange."""
    plan, ids = TWO_PULSES.plan((2,), transport.rank)
    field = Field(transport, plan, ids, "float32", 3, "slow reader")
    for turn in range(3):
        field.set_owned(turn)
        field.channel.forward()
        if transport.rank == 1:
            time.sleep(NAP)
        field.expect_forward(turn)


def slow_owner(transport: Transport, payload: Any) -> None:
    """Rank 1 sends its ghost rows back early and adds what it gets late; rank 0 is already in the next exchange."""
    plan, ids = ONE_PULSE.plan((2,), transport.rank)
    field = Field(transport, plan, ids, "int64", 1, "slow owner")
    for turn in range(3):
        field.array[: plan.n_local] = field.values(turn)
        field.channel.reverse_begin()
        if transport.rank == 1:
            time.sleep(NAP)
        field.channel.reverse_end()
        field.expect_reverse(turn)


def one_sided(transport: Any, payload: str) -> None:
    """Rank 1 never takes part in an exchange; it waits for nobody until rank 0 has given up."""
    plan, ids = TWO_PULSES.plan((2,), transport.rank)
    field = Field(transport, plan, ids, "float32", 3, "one-sided")
    if transport.rank == 0:
        getattr(field.channel, payload)()
    while transport.control.origin() is None:
        time.sleep(NAP)


@pytest.mark.parametrize("target", ["slow_reader", "slow_owner"])
def test_slow_rank_with_all_waits_gets_right_rows(target: str) -> None:
    launch(2, f"{__name__}:{target}", transport="loopback", timeout=10)


@pytest.mark.parametrize(("target", "wait"), [("slow_reader", "credit"), ("slow_owner", "reverse_credit")])
def test_slow_rank_without_credits_gets_wrong_rows(target: str, wait: str) -> None:
    with pytest.raises(ConformanceError, match=r"holds .* expected"):
        launch(2, f"{__name__}:{target}", transport="loopback", timeout=10, faults=f"skip wait={wait}")


@pytest.mark.parametrize("wait", ["arrival", "forwarded", "reverse_arrival"])
def test_suite_without_a_wait_for_rows_fails(wait: str) -> None:
    faults = f"skip rank=0 wait={wait}; delay rank=1 us=20000; delay rank=2 us=20000"
    with pytest.raises(ConformanceError, match="conformance of loopback"):
        run_conformance(partial(launch, transport="loopback", timeout=10, faults=faults), [3])


@pytest.mark.parametrize(
    ("exchange", "report"),
    [
        ("forward", "pulse 0, epoch 1 of channel 'field', forward: rows"),
        ("reverse", "pulse 3, epoch 1 of channel 'field', reverse: rows"),
    ],
)
@pytest.mark.parametrize("transport", ["loopback", "shmem"])
def test_rows_that_never_arrive_end_the_wait_with_a_report(
    transport: str, exchange: str, report: str
) -> None:
    with pytest.raises(PeerError, match=f"rank 0 waited 1.5 s for rank 1: {report}"):
        launch(2, f"{__name__}:one_sided", exchange, transport=transport, timeout=1.5)
