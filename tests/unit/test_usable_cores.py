"""How many cores a process may use."""

from __future__ import annotations

import pytest

from pulsemd.base import cores


@pytest.mark.parametrize(
    ("quota", "expected"),
    [(None, 3), ("max 100000", 3), ("250000 100000", 2), ("50000 100000", 1), ("800000 100000", 3)],
)
def test_cores_are_those_of_the_affinity_as_far_as_the_quota_lets_use_them(
    tmp_path, monkeypatch, quota, expected
) -> None:
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota)
    monkeypatch.setattr(cores, "_QUOTA", file)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert cores.usable_cores() == expected
