"""The CUDA programs of a search."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import product

from pulsemd.device.program import CudaProgram

_PACKAGE = "pulsemd.kernels.search"

LIST_THREADS = 256
"""Threads of a block of ``list_clusters``."""

CHUNKS = (8, 16, 24)
"""Groups of a full entry: few give a small system enough blocks, many need fewer sums over the i-clusters."""

_FROM = (500, 1900)
"""Superclusters from which on the second and the third of `CHUNKS` are used."""


def chunk_for(n_superclusters: int) -> int:
    """The measured choice of `CHUNKS` for a number of superclusters."""
    return CHUNKS[bisect_right(_FROM, n_superclusters)]


def search_program(file: str, **defines: int | str) -> CudaProgram:
    """The program of one file; its kernel has the file's name."""
    return CudaProgram(_PACKAGE, file, tuple(defines.items()), exact=True)


def bin_program(ghosts: bool) -> CudaProgram:
    """``bin_atoms``; with ``ghosts`` some rows may be ghosts."""
    return search_program("bin_atoms.cu", GHOSTS=int(ghosts))


def arrange_program(filler: int, ghosts: bool) -> CudaProgram:
    """``arrange_clusters``; ``filler`` is the integer whose bits are the first parameter of an empty slot."""
    return search_program("arrange_clusters.cu", FILLER=filler, GHOSTS=int(ghosts))


def list_program(chunk: int, exact: bool, orthorhombic: bool, nonlocal_: bool = False) -> CudaProgram:
    """``list_clusters``; ``exact`` gives every half group a bitmask of the pairs within the radius."""
    return search_program(
        "list_clusters.cu",
        THREADS=LIST_THREADS,
        CHUNK=chunk,
        EXACT=str(exact).lower(),
        ORTHORHOMBIC=str(orthorhombic).lower(),
        NONLOCAL=str(nonlocal_).lower(),
    )


def programs() -> Iterator[CudaProgram]:
    """Every variant that a run can ask for."""
    booleans = (False, True)
    for file in ("scan_bins.cu", "fill_bins.cu", "sort_columns.cu"):
        yield search_program(file)
    for ghosts in booleans:
        yield bin_program(ghosts)
        yield arrange_program(0, ghosts)
    for chunk, exact, orthorhombic, nonlocal_ in product(CHUNKS, booleans, booleans, booleans):
        yield list_program(chunk, exact, orthorhombic, nonlocal_)
