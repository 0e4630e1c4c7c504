"""CUDA programs of the PME mesh."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from pulsemd.device.cuda import SHARED_BYTES
from pulsemd.device.program import CudaProgram
from pulsemd.kernels.pme.mesh import ORDERS
from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER

THREADS = 128

LANES = 4
"""Threads of an atom."""

MOST_IN_REGISTERS = 16
"""Numbers of a line that a thread transforms at once."""

COLUMNS = 16
"""Lines along a of a block, neighbors in memory."""


def spread_threads(fixed: bool) -> int:
    """Threads of a block of spread.cu: of a supercluster where it sums in shared memory."""
    return THREADS if fixed else SUPERCLUSTER * LANES


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
    macros["THREADS"] = spread_threads(fixed) if file == "spread.cu" else THREADS
    macros |= {"LANES": LANES, "WHOLE": int(whole)}
    headers = ("pulsemd.kernels.bonded", "pulsemd.kernels.search")
    return CudaProgram("pulsemd.kernels.pme", file, tuple(macros.items()), exact=fixed, headers=headers)


def solve_program(fixed: bool, energies: bool) -> CudaProgram:
    """solve.cu, which does not depend on splines."""
    return pme_program("solve.cu", fixed, ORDERS[0], True, energies)


def two_factors(n: int) -> tuple[int, int] | None:
    """The most equal factors of n, none above `MOST_IN_REGISTERS`, the smaller first; None if there are none."""
    pairs = [(k, n // k) for k in range(1, math.isqrt(n) + 1) if n % k == 0]
    return pairs[-1] if pairs[-1][1] <= MOST_IN_REGISTERS else None


@dataclass(frozen=True)
class PlaneShape:
    """How transform.cu divides a mesh.

    Parameters
    ----------
    fixed : bool
    a, b, c : (int, int)
        Factors of the points along a and b, and of half of those along c.
    """

    fixed: bool
    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]

    @staticmethod
    def of(shape: tuple[int, ...], fixed: bool, most_shared: int) -> PlaneShape | None:
        """That of a mesh; None if it cannot be divided so, or if a plane does not fit into the shared memory, in bytes,
        that a block can have."""
        n_a, n_b, n_c = shape
        a, b, c = two_factors(n_a), two_factors(n_b), two_factors(n_c // 2)
        if n_c % 2 or a is None or b is None or c is None:
            return None
        found = PlaneShape(fixed, a, b, c)
        fits = found.plane_bytes <= most_shared and n_a * COLUMNS * found.number_bytes <= SHARED_BYTES
        return found if fits else None

    @property
    def n_a(self) -> int:
        """Planes."""
        return self.a[0] * self.a[1]

    @property
    def row(self) -> int:
        """Complex numbers of a row, a multiple of 2, so that rows begin at whole vectors of four."""
        half = self.c[0] * self.c[1] + 1
        return half + half % 2

    @property
    def plane_bytes(self) -> int:
        """Shared memory of a plane: its rows are an odd number of complex numbers apart."""
        return self.b[0] * self.b[1] * (self.c[0] * self.c[1] + 1 | 1) * self.number_bytes

    @property
    def number_bytes(self) -> int:
        """Of a complex number."""
        return 16 if self.fixed else 8

    @property
    def plane_threads(self) -> int:
        """Threads for a plane: for its most numerous work, but not so many that nothing else finds room."""
        n_b, half = self.b[0] * self.b[1], self.c[0] * self.c[1] + 1
        return min(512, 32 * -(-max(n_b * self.c[1], half * self.b[1]) // 32))

    @property
    def column_threads(self) -> int:
        """Threads for a block of lines along a."""
        return 32 * -(-COLUMNS * self.a[1] // 32)

    @property
    def column_blocks(self) -> int:
        """Blocks for all lines along a."""
        return -(-self.b[0] * self.b[1] * self.row // COLUMNS)

    def program(self, energies: bool) -> CudaProgram:
        """transform.cu for this shape."""
        macros = {f"{axis}{k}": n for axis in "ABC" for k, n in enumerate(getattr(self, axis.lower()), 1)}
        macros |= {"ROW": self.row, "COLUMNS": COLUMNS}
        macros |= {"PLANE_THREADS": self.plane_threads, "COLUMN_THREADS": self.column_threads}
        base = solve_program(self.fixed, energies)
        return replace(base, file="transform.cu", defines=(*base.defines, *macros.items()))


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
        for shape in ((52, 52, 52), (56, 56, 56), (100, 100, 100), (160, 168, 160)):
            divided = PlaneShape.of(shape, fixed, 2**18)
            assert divided is not None
            yield divided.program(energies)
    yield convert_program()
