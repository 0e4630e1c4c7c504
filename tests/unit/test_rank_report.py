"""What a rank says of itself at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pulsemd.report.summary import rank_report
from pulsemd.schedule.phase import PhaseTimer


@pytest.mark.parametrize(
    ("forces", "row"),
    [
        (np.zeros((9, 3), np.float32), 12 + 12),
        (np.zeros((9, 3), np.int64), 12 + 24),
        (np.zeros((2, 64, 4), np.float32), 16 + 16),
        (np.zeros((2, 64, 4), np.int64), 16 + 32),
    ],
    ids=["cpu fast", "cpu reproducible", "gpu fast", "gpu reproducible"],
)
def test_bytes_of_a_rank_are_those_of_its_ghosts_both_ways(forces, row) -> None:
    domain = SimpleNamespace(n_owned=5, n_local=9)
    rank = SimpleNamespace(domain=domain, f=forces, host_waited=0.0, device_bytes=0)
    report = rank_report(SimpleNamespace(rank=rank, timer=PhaseTimer()))
    assert (report["owned"], report["ghosts"]) == (5, 4)
    assert report["bytes_per_step"] == 4 * row
