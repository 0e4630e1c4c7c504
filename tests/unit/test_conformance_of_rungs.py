"""Suites of several rungs in one start of the processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pulsemd.base.errors import PeerError, TransportError
from pulsemd.halo.rungs import conformance


class Opened:
    path = "stores"

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _run(monkeypatch: pytest.MonkeyPatch, problem: TransportError) -> dict[str, tuple[int, str]]:
    def open_rung(world: Any, name: str, **options: Any) -> Any:
        if name == "mpi":
            raise problem
        return Opened()

    monkeypatch.setattr(conformance, "open_rung", open_rung)
    monkeypatch.setattr(conformance, "conform_on_gpu", lambda transport, options: options["cases"])
    suites = {"a": ("nccl", {}), "b": ("mpi", {}), "c": ("nvshmem-fused", {"peer_pointers": False})}
    world: Any = SimpleNamespace(process=0)
    return conformance.conform_on_rungs(world, {"suites": suites, "cases": 66})


def test_a_rung_that_cannot_be_used_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _run(monkeypatch, TransportError("--transport mpi: no"))
    assert found["b"] == (0, "failed: --transport mpi: no")
    assert found["a"][0] == found["c"][0] == 66


def test_a_death_stops_all_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PeerError):
        _run(monkeypatch, PeerError("rank 1 died"))
