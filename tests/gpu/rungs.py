"""Rungs that a machine may lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pulsemd.base.errors import PeerError, TransportError


@contextmanager
def skipped_where_missing(rung: str) -> Iterator[None]:
    """Skip the test, with the reason, if what is started here finds that the rung cannot be used on this machine."""
    try:
        yield
    except TransportError as error:
        if isinstance(error, PeerError) or f"--transport {rung}" not in str(error):
            raise
        pytest.skip(str(error))
