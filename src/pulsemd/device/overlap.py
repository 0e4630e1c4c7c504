"""Kernels that begin while the one ahead of them in a stream still runs; see overlap.cuh."""

from __future__ import annotations

from enum import IntEnum


class Wait(IntEnum):
    """Where such a kernel waits for the one ahead of it.

    FIRST: before it reads anything. LATER: once it has read what steps do not change. LAST: it needs nothing of the
    kernel ahead, which itself waited for all before it, and runs beside it; what follows waits for both.
    """

    FIRST = 0
    LATER = 1
    LAST = 2
