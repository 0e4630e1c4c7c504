"""CUDA programs of the PME mesh."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pulsemd.device.program import CudaProgram
from pulsemd.kernels.pme.mesh import ORDERS
from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER

THREADS = 128


def lanes_of(order: int) -> int:
    """Threads of an atom, a power of 2: one for each plane of the mesh that it touches."""
    return 4 if order <= 4 else 8


def spread_threads(fixed: bool, order: int) -> int:
    """Threads of a block of spread.cu: of a supercluster where it sums in shared memory."""
    return THREADS if fixed else SUPERCLUSTER * lanes_of(order)


def pme_program(file: str, fixed: bool, order: int, whole: bool, energies: bool = False) -> CudaProgram:
    """One of the files here.

    Parameters
    ----------
    fixed : bool
        int64 charges and float64, without contraction (reproducible mode).
    order : int
    whole : bool
        Rows of the mesh are a multiple of 4 points.
    energies : bool
        Energy and virial too; for solve.cu.
    """
    macros = {"FIXED": int(fixed), "ENERGIES": int(energies), "ORDER": order}
    macros["THREADS"] = spread_threads(fixed, order) if file == "spread.cu" else THREADS
    macros |= {"LANES": lanes_of(order), "WHOLE": int(whole)}
    headers = ("pulsemd.kernels.bonded", "pulsemd.kernels.search")
    return CudaProgram("pulsemd.kernels.pme", file, tuple(macros.items()), exact=fixed, headers=headers)


def solve_program(fixed: bool, energies: bool) -> CudaProgram:
    """solve.cu, which does not depend on splines."""
    return pme_program("solve.cu", fixed, ORDERS[0], True, energies)


def convert_program() -> CudaProgram:
    """convert.cu, which does not depend on splines either."""
    return pme_program("convert.cu", True, ORDERS[0], True)


def programs() -> Iterator[CudaProgram]:
    """Every variant that a run can ask for."""
    booleans = False, True
    for fixed, order, whole in product(booleans, ORDERS, booleans):
        for file in ("spread.cu", "gather.cu"):
            yield pme_program(file, fixed, order, whole)
    for fixed, energies in product(booleans, booleans):
        yield solve_program(fixed, energies)
    yield convert_program()
