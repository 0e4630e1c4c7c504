"""The conformance suite on every transport that runs on a CPU."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from pulsemd.halo import launch
from pulsemd.halo.conformance import RANKS, run_conformance

HAS_MPI = find_spec("mpi4py") is not None and (
    shutil.which("mpirun") or shutil.which("mpiexec") or (Path(sys.executable).parent / "mpirun").exists()
)
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py and mpirun or mpiexec")


@pytest.mark.parametrize("n_ranks", RANKS)
def test_conformance_of_loopback_passes(n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport="loopback"), [n_ranks]) >= 36


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 8])
def test_conformance_of_shmem_passes(n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport="shmem"), [n_ranks]) >= 36


@pytest.mark.mpi
@needs_mpi
@pytest.mark.parametrize("n_ranks", [1, 2, 5])
def test_conformance_of_mpi_passes(n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport="mpi"), [n_ranks]) >= 36


@pytest.mark.slow
@pytest.mark.parametrize("n_ranks", RANKS)
@pytest.mark.parametrize(
    "transport", ["loopback", "shmem", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_conformance_passes_thoroughly(transport: str, n_ranks: int) -> None:
    assert run_conformance(partial(launch, transport=transport), [n_ranks], thorough=True) > 360


@pytest.mark.parametrize(
    "faults",
    [
        "delay rank=0 us=300",
        "delay pulse=1 us=300; duplicate",
        "reorder rank=1",
        "reorder; duplicate rank=2; delay rank=2 pulse=0 us=200",
    ],
)
def test_conformance_with_delays_reorderings_and_duplicates_passes(faults: str) -> None:
    world = partial(launch, transport="loopback", faults=faults)
    assert run_conformance(world, [3]) >= 36
