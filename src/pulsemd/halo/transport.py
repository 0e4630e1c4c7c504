"""What a transport is, and the table of those that exist.

A new transport is one module, one row of `TRANSPORTS`, and passes `pulsemd.halo.conformance`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

from numpy.typing import DTypeLike, NDArray

from pulsemd.base.errors import ConfigError, TransportError
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
    """One field bound to one plan. All ranks make the same calls in the same order."""

    name: str
    plan: HaloPlan

    def rebind(self, plan: HaloPlan) -> None:
        """Use another plan from now on; collective. Ghost rows belong to the peers from here to the next forward."""

    def forward_begin(self) -> None:
        """Start copying owned rows into the ghost rows of other ranks; owned rows must stay until `forward_end`."""

    def forward_end(self) -> None:
        """Finish: all ghost rows here hold their owner's values."""

    def forward(self) -> None:
        """`forward_begin` and `forward_end`."""

    def release(self) -> None:
        """Say that the ghost rows have been read and may be overwritten; the next `forward_begin` implies it."""

    def reverse_begin(self) -> None:
        """Start adding ghost rows into their owners' rows."""

    def reverse_end(self) -> None:
        """Finish: owned rows hold the sums; ghost rows are unspecified."""

    def reverse(self) -> None:
        """`reverse_begin` and `reverse_end`."""


class Reduce(Protocol):
    """A small all-reduce."""

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of ``values`` (width,) over all ranks, added in rank order: the same bits on every rank."""


class Transport(Protocol):
    """One rank's access to the others. A context manager: leaving it closes it.

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
        """Give ``arrays[r]`` to rank r; the arrays from all ranks, in rank order, with dtype and shape kept."""

    def agree(self, error: BaseException | None) -> None:
        """Raise on every rank the error of the lowest rank that has one; its note names the rank."""

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> NDArray[Any]:
        """Zeroed (rows, width) array for channels; collective, with the same arguments on every rank.

        Allocating a name again frees the earlier array once its channels and its users are gone.

        Raises
        ------
        TransportError
            If ranks ask for different arrays, or the dtype is none of `FIELD_TYPES`.
        """

    def channel(self, plan: HaloPlan, array: NDArray[Any]) -> Channel:
        """Bind an array made by `allocate` to a plan; collective; verifies the plan."""

    def reduce(self, width: int, dtype: DTypeLike) -> Reduce:
        """All-reduce of ``width`` int64 or float64 values; collective."""

    def close(self) -> None:
        """Wait for all ranks and give the memory back; collective."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_transport(name: str, timeout: float | None = None, faults: str | None = None) -> Transport:
    """Join the ranks that `launch`, mpirun or srun started.

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
    if timeout is not None:
        return timeout
    text = os.environ.get("PULSEMD_TIMEOUT", "")
    try:
        limit = float(text) if text else DEFAULT_TIMEOUT
    except ValueError:
        limit = -1.0
    if not limit > 0.0:
        raise ConfigError(f"PULSEMD_TIMEOUT is {text!r}; give a number of seconds")
    return limit


def faults_text(faults: str | None) -> str:
    """The faults to inject: the argument, else PULSEMD_FAULTS, else none."""
    return os.environ.get("PULSEMD_FAULTS", "") if faults is None else faults


def check_field(name: str, rows: int, width: int, dtype: DTypeLike, asked: Sequence[tuple[Any, ...]]) -> None:
    """Raise TransportError unless every rank asked for the same array of a supported dtype."""
    if rows < 0 or width < 1 or str(dtype) not in FIELD_TYPES:
        raise TransportError(
            f"allocate {name!r}: ({rows}, {width}) {dtype}; needs width >= 1 and one of {', '.join(FIELD_TYPES)}"
        )
    for rank, other in enumerate(asked):
        if other != asked[0]:
            raise TransportError(
                f"allocate: rank {rank} asks for (name, rows, width, dtype) = {other}, rank 0 for {asked[0]}; "
                "allocation is collective and equal on all ranks"
            )
