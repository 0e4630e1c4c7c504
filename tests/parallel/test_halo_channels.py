"""Channels as programs use them: in flight together, on one array, out of order, with what is not a plan or a field."""

from __future__ import annotations

import gc
import time
import weakref
from importlib.util import find_spec

import numpy as np
import pytest

from pulsemd.base.errors import PeerError, PlanError, TransportError
from pulsemd.halo import Channel, HaloPlan, Transport, cartesian_plan, launch

needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpirun or mpiexec")
MPI = pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])
ALL = pytest.mark.parametrize("transport", ["loopback", "shmem", MPI])


def plate(transport: Transport, name: str, value: float) -> tuple[HaloPlan, np.ndarray, Channel]:
    """A channel on an array of one value; its ghosts come straight from their owners."""
    plan, _ = cartesian_plan((8, 8), (transport.size, 1), transport.rank, 1, kind="direct")
    array = transport.allocate(name, plan.n_local, 1, "float64")
    array[: plan.n_owned] = value
    return plan, array, transport.channel(plan, array)


def call_by_call(transport: Transport, calls: list[str]) -> None:
    """Calls of one channel in an order that a user may have got wrong."""
    _, _, channel = plate(transport, "field", 1.0)
    for call in calls:
        getattr(channel, call)()


@ALL
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["forward_begin", "forward_begin"], "forward_begin while forward is under way"),
        (["forward_end"], "forward_end while nothing is under way"),
        (["forward_begin", "forward_end", "reverse_begin", "release"], "release while reverse is under way"),
        (["forward", "release", "reverse_begin", "release"], "release while reverse is under way"),
        (["reverse_begin", "forward_end"], "forward_end while reverse is under way"),
    ],
)
def test_channel_called_out_of_order_is_refused(transport: str, calls: list[str], message: str) -> None:
    with pytest.raises(TransportError, match=rf"channel 'field', rank \d: .*{message}; call begin, end"):
        launch(2, f"{__name__}:call_by_call", calls, transport)


def ends_in_another_order(transport: Transport, payload: None) -> bool:
    """Two exchanges under way; rank 1 ends them in the other order."""
    _, x, of_x = plate(transport, "x", 1.0)
    _, y, of_y = plate(transport, "y", 2.0)
    of_x.forward_begin()
    of_y.forward_begin()
    for channel in (of_x, of_y) if transport.rank else (of_y, of_x):
        channel.forward_end()
    good = bool((x == 1.0).all() and (y == 2.0).all())
    return all(transport.allgather(good))


@ALL
def test_two_exchanges_under_way_may_end_in_any_order(transport: str) -> None:
    assert launch(2, f"{__name__}:ends_in_another_order", None, transport)


def exchanges_in_another_order(transport: Transport, payload: None) -> None:
    """Rank 1 exchanges the second field first, as a loop over a set of names may do."""
    channels = [plate(transport, name, 1.0)[2] for name in ("x", "y")]
    for channel in channels if transport.rank else channels[::-1]:
        channel.forward()


@ALL
def test_fields_exchanged_in_another_order_are_never_taken_for_each_other(transport: str) -> None:
    with pytest.raises(PeerError, match=r"of channel '[xy]', forward"):
        launch(2, f"{__name__}:exchanges_in_another_order", None, transport, timeout=2.0)


def two_widths(transport: Transport, payload: None) -> bool:
    """Two channels on one array; rank 1 is slow to read what the first has brought."""
    plan, array, narrow = plate(transport, "field", 1.0)
    wide = transport.channel(plan, array)
    good = True
    for turn in range(1, 4):
        for channel in (narrow, wide):
            array[: plan.n_owned] = turn
            channel.forward()
            if transport.rank == 1:
                time.sleep(0.1)
            good &= bool((array == turn).all())
            array[: plan.n_owned] = -1.0
            channel.forward()
    return all(transport.allgather(good))


@ALL
def test_ghosts_of_one_channel_stay_until_read_when_another_has_the_same_array(transport: str) -> None:
    assert launch(2, f"{__name__}:two_widths", None, transport)


def allocate_again(transport: Transport, payload: None) -> bool:
    """Whether the memory of an array is free once its name is allocated again and its channel is gone."""
    gc.disable()
    _, array, channel = plate(transport, "field", 1.0)
    while isinstance(array.base, np.ndarray):
        array = array.base
    memory = weakref.ref(array)
    channel.reverse()
    _, array, channel = plate(transport, "field", 2.0)
    return memory() is None


@pytest.mark.parametrize("transport", ["shmem", MPI])
def test_memory_of_an_array_is_free_when_its_name_is_allocated_again(transport: str) -> None:
    assert launch(2, f"{__name__}:allocate_again", None, transport)


def odd_arguments(transport: Transport, what: str) -> bool:
    """A channel of a view, or of what is no plan or no field; an array of a fraction of a row."""
    plan, array, _ = plate(transport, "field", 1.0)
    if what == "rows":
        transport.allocate("more", 10.0, 1, "float64")  # type: ignore[arg-type]
    given = {"view": (plan, array[:]), "pair": ((plan, None), array), "swapped": (array, plan)}
    transport.channel(*given[what]).forward()  # type: ignore[arg-type]
    return bool((array == 1.0).all())


@ALL
def test_channel_of_a_view_of_the_whole_array_is_that_of_the_array(transport: str) -> None:
    assert launch(2, f"{__name__}:odd_arguments", "view", transport)


@ALL
@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        ("pair", PlanError, "the plan is a tuple; give a HaloPlan"),
        ("swapped", TransportError, r"gave an array that allocate\(\) did not make"),
        ("rows", TransportError, r"allocate 'more': \(10.0, 1\) float64; needs whole numbers"),
    ],
)
def test_what_is_no_plan_field_or_count_is_refused_by_name(
    transport: str, what: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        launch(2, f"{__name__}:odd_arguments", what, transport)
