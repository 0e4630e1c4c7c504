"""What ranks have to agree on: errors on their way between them, and what they ask a sum for."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsemd.base.errors import TransportError

CALLS: Final = ("barrier", "broadcast", "allgather", "alltoall", "close")
"""Collective calls of the control plane."""

_RAISED = "raised on rank"


def waiting_in(call: str, number: int) -> str:
    """What a rank says to wait for in one of `CALLS`."""
    return "close, as this rank is at its end" if call == "close" else f"{call}, collective call {number}"


def check_calls(transport: str, rank: int, number: int, calls: Sequence[int]) -> None:
    """Raise TransportError unless all ranks make the call that this one makes; ``calls``: of each rank, in `CALLS`."""
    for other, call in enumerate(calls):
        if call != calls[rank]:
            raise TransportError(
                f"{transport}: rank {rank} is in {CALLS[calls[rank]]} while rank {other} is in {CALLS[call]} "
                f"(collective call {number}); all ranks have to make the same calls"
            )


def sendable(error: BaseException | None) -> bytes | None:
    """A pickle of an error that is sure to be read again; what cannot be pickled becomes a TransportError."""
    if error is None:
        return None
    try:
        blob = pickle.dumps(error, 5)
        pickle.loads(blob)
    except Exception as reason:
        text = f"{type(error).__name__}: {error} (the error itself cannot be sent: {reason})"
        blob = pickle.dumps(TransportError(text), 5)
    return blob


def received(blob: bytes, rank: int) -> BaseException:
    """The error of a rank, with a note that names it, or the rank that it was raised on before."""
    error: BaseException = pickle.loads(blob)
    if not any(note.startswith(_RAISED) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{_RAISED} {rank}")
    return error


def raise_lowest(blobs: Sequence[bytes | None]) -> None:
    """Raise the error of the lowest rank that has one."""
    for rank, blob in enumerate(blobs):
        if blob is not None:
            raise received(blob, rank)


def check_reduce(gather: Callable[[Any], Sequence[Any]], width: int, dtype: np.dtype[Any]) -> None:
    """Raise TransportError on every rank unless all ask for the same sum of a supported kind; collective.

    Parameters
    ----------
    gather : function
        The values of all ranks, or of all processes, from that of each.
    width : int, numbers of one rank
    dtype : int64 or float64
    """
    if str(dtype) not in ("int64", "float64") or width < 1:
        raise TransportError(f"reduce: {width} values of {dtype}; use int64 or float64 and width >= 1")
    asked = gather((width, str(dtype)))
    if len(set(asked)) > 1:
        raise TransportError(f"reduce: ranks ask for different (width, dtype): {asked}")


def summands(values: ArrayLike, slots: NDArray[Any]) -> NDArray[Any]:
    """Numbers of one rank for a sum, in the dtype of its slots ``(..., width)``.

    Raises
    ------
    TransportError
        For another number of values, or fractions in a sum of whole numbers, which would be cut off.
    """
    given = np.asarray(values)
    if given.shape != slots.shape[-1:]:
        raise TransportError(f"reduce: values have shape {given.shape}, made for {slots.shape[-1:]}")
    if not np.can_cast(given.dtype, slots.dtype, "same_kind"):
        raise TransportError(
            f"reduce: values are {given.dtype}, made for {slots.dtype}; convert them or use float64"
        )
    return np.ascontiguousarray(given, slots.dtype)
