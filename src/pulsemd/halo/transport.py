"""What a transport is, and the table of those that exist.

A new transport is one module, one row of `TRANSPORTS`, and passes `pulsemd.halo.conformance`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from numbers import Integral
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pulsemd.base.errors import ConfigError, PlanError, TransportError
from pulsemd.halo.plan import HaloPlan

FOR_GPUS: Final = "; those between GPUs are for launch_gpus"
"""Behind the names of `TRANSPORTS`, where another was asked for."""

TRANSPORTS: Final = {
    "loopback": "pulsemd.halo.transports.loopback",
    "shmem": "pulsemd.halo.transports.shmem",
    "mpi": "pulsemd.halo.transports.mpi",
}
"""Module of each transport; it has ``open_rank(timeout, faults) -> Transport``."""

FIELD_TYPES: Final = ("int32", "int64", "float32", "float64")
DEFAULT_TIMEOUT: Final = 30.0


class Channel(Protocol):
    """One field bound to one plan; made by `Transport.channel`. All ranks make the same calls in the same order.

    One exchange of a channel at a time: begin, end, begin, end. Those of different channels may be under way together.

    Attributes
    ----------
    name : str
        Name of the allocation.
    plan : HaloPlan

    Raises
    ------
    TransportError
        By every call out of this order.
    PeerError
        By every call that waits: if a rank has failed, or has not come within the time-out; names rank and pulse.
    """

    name: str
    plan: HaloPlan

    def rebind(self, plan: HaloPlan) -> None:
        """Use another plan from now on; collective.

        If a forward comes next, ghost rows belong to the peers from here on.

        Raises
        ------
        PlanError
            On every rank, if the plans of the ranks do not match, or one needs more rows than the array has.
        """

    def forward_begin(self) -> None:
        """Start copying owned rows into the ghost rows of other ranks.

        Until `forward_end` owned rows must not be changed, and ghost rows not be read.
        """

    def forward_end(self) -> None:
        """Finish: all ghost rows here hold their owner's values."""

    def forward(self) -> None:
        """`forward_begin` and `forward_end`."""

    def release(self) -> None:
        """Say that the ghost rows have been read and may be overwritten; the next `forward_begin` implies it."""

    def reverse_begin(self) -> None:
        """Start adding ghost rows into their owners' rows.

        Until `reverse_end` ghost rows must not be changed, and owned rows not be read; they may be added to.
        """

    def reverse_end(self) -> None:
        """Finish: owned rows hold the sums; ghost rows are unspecified."""

    def reverse(self) -> None:
        """`reverse_begin` and `reverse_end`."""


class Reduce(Protocol):
    """A small all-reduce; made by `Transport.reduce`."""

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of ``values`` over all ranks, added in rank order: the same bits on every rank; collective.

        Parameters
        ----------
        values : (width,) of the dtype of this reduction, or one that converts to it without loss of its kind

        Returns
        -------
        (width,) int64 or float64
            A new array.

        Raises
        ------
        TransportError
            For another shape, or fractions in a sum of whole numbers.
        PeerError
            As `Channel`.
        """


class Transport(Protocol):
    """One rank's access to the others; given to the function of a `launch`, or made by `open_transport`.

    A context manager: leaving it closes it; leaving it by an exception makes the waits of all other ranks end. One
    thread at a time uses it. All but the attributes is collective: every rank makes the same calls in the same order.
    Each call raises PeerError if a rank has failed, or has not come within the time-out, and TransportError, with both
    calls named, if ranks are in different calls.

    Attributes
    ----------
    name : str
        Row of `TRANSPORTS`.
    rank, size : int
    path : str
        What really moves the rows, for reports.
    """

    name: str
    rank: int
    size: int
    path: str

    def barrier(self, patient: bool = False) -> None:
        """Wait for all ranks; `patient`: without time-out, for one that reads or writes files. A rank that ends ends
        the wait."""

    def broadcast(self, obj: Any, root: int = 0) -> Any:
        """``obj`` of rank ``root``, on every rank (a copy)."""

    def allgather(self, obj: Any) -> list[Any]:
        """``obj`` of every rank, in rank order (copies)."""

    def alltoall(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Give ``arrays[r]`` to rank r; the arrays from all ranks, in rank order, with dtype and shape kept.

        Any shapes and dtypes, structured ones too, but no objects; for what changes its owner, such as particles.
        """

    def agree(self, error: BaseException | None) -> None:
        """Raise on every rank the error of the lowest rank that has one; its note names the rank."""

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> NDArray[Any]:
        """Zeroed (rows, width) array for channels, C-contiguous; collective, with the same arguments on every rank.

        Allocating a name again frees the earlier array once its channels and its users are gone.

        Raises
        ------
        TransportError
            If ranks ask for different arrays, or the dtype is none of `FIELD_TYPES`.
        """

    def channel(self, plan: HaloPlan, array: NDArray[Any]) -> Channel:
        """Bind an array made by `allocate` to a plan.

        Several channels may have one plan. They may have one array, too, say for halos of two widths; then all ranks
        meet whenever a forward follows one of another channel.

        Raises
        ------
        PlanError
            On every rank, if the plans of the ranks do not match, or one needs more rows than the array has; names
            rank, pulse and counts.
        TransportError
            If `allocate` did not make the array, or its name has been allocated again.
        """

    def reduce(self, width: int, dtype: DTypeLike) -> Reduce:
        """All-reduce of ``width`` int64 or float64 values; collective. To be made once and used often.

        Raises
        ------
        TransportError
            For another dtype, or if ranks ask for different sums.
        """

    def close(self) -> None:
        """Wait for all ranks and give the memory back; collective."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_transport(name: str, timeout: float | None = None, faults: str | None = None) -> Transport:
    """Join the ranks that mpirun or srun started. A function that `launch` calls is given its transport.

    Parameters
    ----------
    name : str
        Row of `TRANSPORTS`; ``loopback`` is a world of one rank.
    timeout : float, s, optional
        Bound of every wait; PULSEMD_TIMEOUT, else 30.
    faults : str, optional
        Faults to inject, see `pulsemd.halo.faults`; PULSEMD_FAULTS, else none.

    Raises
    ------
    ConfigError
        For a name that does not exist.
    TransportError
        If the transport cannot be used here; says why and what to do.
    """
    if name not in TRANSPORTS:
        raise ConfigError(f"transport: {name!r} does not exist; use one of {', '.join(TRANSPORTS)}{FOR_GPUS}")
    module = import_module(TRANSPORTS[name])
    return cast(Transport, module.open_rank(wait_limit(timeout), faults_text(faults)))


def wait_limit(timeout: float | None) -> float:
    """Bound of a wait in seconds: the argument, else PULSEMD_TIMEOUT, else 30."""
    given = os.environ.get("PULSEMD_TIMEOUT") or DEFAULT_TIMEOUT if timeout is None else timeout
    try:
        limit = float(given)
    except (TypeError, ValueError):
        limit = -1.0
    if not limit > 0.0:
        name = "PULSEMD_TIMEOUT" if timeout is None else "timeout"
        raise ConfigError(f"{name} is {given!r}; give a number of seconds")
    return limit


def faults_text(faults: str | None) -> str:
    """The faults to inject: the argument, else PULSEMD_FAULTS, else none."""
    return os.environ.get("PULSEMD_FAULTS", "") if faults is None else faults


def check_plan(name: str, plan: HaloPlan, transport: Transport, capacity: int) -> NDArray[np.int64]:
    """Tables of the plans of all ranks, see `HaloPlan.verify`; collective.

    Raises
    ------
    PlanError
        If they do not match, or a rank has more rows than there are in its array.
    """
    if not isinstance(plan, HaloPlan):
        raise PlanError(
            f"channel {name!r}: the plan is a {type(plan).__name__}; give a HaloPlan, the first of the two things that "
            "cartesian_plan and plan_from_ids return"
        )
    everyone, n_locals = plan.verify(transport)
    if max(n_locals) > capacity:
        raise PlanError(
            f"channel {name!r}: rank {int(np.argmax(n_locals))} has {max(n_locals)} local rows, capacity is "
            f"{capacity}; allocate more rows"
        )
    return everyone


def is_same_array(own: NDArray[Any], given: object) -> bool:
    """Whether the user gave this array, or a view of all of it."""
    if not isinstance(given, np.ndarray):
        return False
    kind, other_kind = (own.shape, own.dtype, own.strides), (given.shape, given.dtype, given.strides)
    return own.ctypes.data == given.ctypes.data and kind == other_kind


def check_field(name: str, rows: int, width: int, dtype: DTypeLike, asked: Sequence[tuple[Any, ...]]) -> None:
    """Raise TransportError unless every rank asked for the same array of a supported dtype."""
    whole = isinstance(rows, Integral) and isinstance(width, Integral)
    if not whole or rows < 0 or width < 1 or str(dtype) not in FIELD_TYPES:
        raise TransportError(
            f"allocate {name!r}: ({rows}, {width}) {dtype}; needs whole numbers, rows >= 0, width >= 1 and one of "
            f"{', '.join(FIELD_TYPES)}"
        )
    for rank, other in enumerate(asked):
        if other != asked[0]:
            raise TransportError(
                f"allocate: rank {rank} asks for (name, rows, width, dtype) = {other}, rank 0 for {asked[0]}; "
                "allocation is collective and equal on all ranks"
            )
