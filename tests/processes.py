"""Processes that a test has started."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def children() -> set[int]:
    """Processes that this one has started and that are still there; those that end meanwhile do not count."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = status.read_bytes().rpartition(b")")[2].split()[1]  # names may hold any byte
            found |= {int(status.parent.name)} if int(parent) == os.getpid() else set()
    return found
