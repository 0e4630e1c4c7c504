"""CUDA programs of migration, ghosts and checks of searches."""

from __future__ import annotations

from typing import Final

from pulsemd.device.program import CudaProgram

THREADS: Final = 256
"""Threads of a block."""


def migrate_program() -> CudaProgram:
    """Owned atoms to the inboxes of their ranks."""
    return CudaProgram("pulsemd.domain", "migrate.cu", (("THREADS", THREADS),))


def ghosts_program() -> CudaProgram:
    """Ghosts to the inboxes of lower neighbours, and the emptying of inboxes."""
    return CudaProgram("pulsemd.domain", "ghosts.cu", (("THREADS", THREADS),))


def verdict_program() -> CudaProgram:
    """Checks of a search, and sums for all ranks."""
    return CudaProgram("pulsemd.domain", "verdict.cu", (("THREADS", THREADS),))


def programs() -> list[CudaProgram]:
    """All of them."""
    return [migrate_program(), ghosts_program(), verdict_program()]
