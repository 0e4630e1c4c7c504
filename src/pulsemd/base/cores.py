"""Cores of this machine that a process may use."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Cores this process may use, by affinity and by the quota of its control group."""
    cores = len(os.sched_getaffinity(0))
    if _QUOTA.exists():
        quota, period = _QUOTA.read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    return cores
