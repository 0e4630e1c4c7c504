"""What part of the host's time the launches of steps are."""

from __future__ import annotations

import pytest

from pulsemd.report.summary import launch_share


def report(waited: float, **seconds: float) -> dict[str, object]:
    return {"seconds": seconds, "waited": waited}


def test_launch_share_leaves_out_searches_and_waits() -> None:
    ranks = [
        report(1.0, search=2.0, nonlocal_forces=3.0, update=1.0, wait=4.0),
        report(0.0, search=2.0, nonlocal_forces=3.0, update=1.0, wait=3.0, output=0.5, checkpoint=0.5),
    ]
    assert launch_share(ranks) == pytest.approx((3.0 + 4.0) / 20.0)


def test_launch_share_of_nothing_is_nothing() -> None:
    assert launch_share([report(0.0)]) == 0.0
