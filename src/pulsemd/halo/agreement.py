"""Errors on their way between ranks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from pulsemd.base.errors import TransportError


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
    """The error of a rank, with a note that names it."""
    error: BaseException = pickle.loads(blob)
    error.add_note(f"raised on rank {rank}")
    return error


def raise_lowest(blobs: Sequence[bytes | None]) -> None:
    """Raise the error of the lowest rank that has one."""
    for rank, blob in enumerate(blobs):
        if blob is not None:
            raise received(blob, rank)
