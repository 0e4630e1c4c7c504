"""Sums of a tile loop: forces on its rows and lanes, energies and virial, in float32 or int64 fixed point."""

from __future__ import annotations

import struct

from llvmlite import ir
from numba.core import cgutils

from pulsemd.base.fixed_point import ENERGY_SCALE, FORCE_SCALE
from pulsemd.kernels.nonbonded.spec import LANES, ROWS
from pulsemd.kernels.nonbonded.trace.memory import (
    constant_vector,
    horizontal_sum,
    index,
    load_vector,
    store_vector,
)
from pulsemd.kernels.nonbonded.trace.vector import F32, F64, FAST, I64, Vector

VIRIAL = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Elements of the virial that are summed; it is symmetric because pair forces are central."""

TERMS = 2 + len(VIRIAL)


class FloatSums:
    """float32 sums per i-cluster; energies are then added to float64 totals."""

    kind, zero = F32, 0.0

    def __init__(self, builder: ir.IRBuilder, energies: bool) -> None:
        self.builder, self.energies = builder, energies
        self.rows = [[self._zero() for _ in range(3)] for _ in range(ROWS)]
        self.terms = [self._zero() for _ in range(TERMS)] if energies else []

    def _zero(self) -> ir.Value:
        return cgutils.alloca_once_value(self.builder, constant_vector(self.kind, self.zero, LANES))

    def begin_tile(self, forces: ir.Value, offset: ir.Value) -> None:
        """Load the forces on the lanes."""
        self.forces = forces
        self.at = [self.builder.add(offset, index(LANES * d)) for d in range(3)]
        self.lanes = [load_vector(self.builder, forces, self.at[d], LANES) for d in range(3)]

    def end_tile(self) -> None:
        """Store the forces on the lanes."""
        for d in range(3):
            store_vector(self.builder, self.lanes[d], self.forces, self.at[d])

    def add_rows(self, members: range, force: Vector, displacement: list[Vector]) -> None:
        """Add ``force * displacement`` to the rows and subtract it from the lanes."""
        for d in range(3):
            for k, row in enumerate(members):
                f, step = force.member(k), displacement[d].member(k)
                total = f.multiply_add(step, f.like([self.builder.load(self.rows[row][d])]))
                self.builder.store(total.values[0], self.rows[row][d])
        for k, _ in enumerate(members):
            minus = 0.0 - force.member(k)
            for d in range(3):
                step = displacement[d].member(k)
                self.lanes[d] = minus.multiply_add(step, minus.like([self.lanes[d]])).values[0]

    def add_energies(self, energies: list[Vector], force: Vector, displacement: list[Vector]) -> None:
        """Add Lennard-Jones and Coulomb energies and the virial of a group of rows."""
        terms = [*energies, *(force * displacement[a] * displacement[b] for a, b in VIRIAL)]
        for total, term in zip(self.terms, terms, strict=True):
            for value in term.values:
                self.builder.store(self._plus(self.builder.load(total), term.like([value])), total)

    def _plus(self, total: ir.Value, term: Vector) -> ir.Value:
        return (term.like([total]) + term).values[0]

    def end_rows(self, forces: ir.Value, offset: ir.Value, totals: ir.Value, n_tiles: ir.Value) -> None:
        """Add the sums of the rows to ``forces`` and those of the energies to ``totals``."""
        builder = self.builder
        for row in range(ROWS):
            for d in range(3):
                pointer = builder.gep(forces, [builder.add(offset, index(row + LANES * d))])
                value = self._reduce(self.rows[row][d], n_tiles, 1)
                builder.store(self._add(builder.load(pointer), value), pointer)
        for term, total in enumerate(self.terms):
            value = self._total(total, n_tiles)
            for element in _elements(term):
                pointer = builder.gep(totals, [index(element)])
                builder.store(self._add(builder.load(pointer), value), pointer)

    def _reduce(self, total: ir.Value, n_tiles: ir.Value, terms_per_tile: int) -> ir.Value:
        return horizontal_sum(self.builder, self.builder.load(total), FAST.flags)

    def _total(self, total: ir.Value, n_tiles: ir.Value) -> ir.Value:
        return self.builder.fpext(self._reduce(total, n_tiles, ROWS), F64)

    def _add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b)


class FixedPointSums(FloatSums):
    """int64 sums, exact and so independent of order and of the arrangement of pairs in tiles.

    A float32 term is widened to float64 and ``1.5 * 2^52 / scale`` is added: that rounds it to a multiple of
    1/scale, and the bits of the sum are those of the magic number plus the term in units of 1/scale. The magic
    numbers are taken out once per sum, modulo 2^64. Terms must be below 2^51 / scale.
    """

    kind, zero = I64, 0

    def begin_tile(self, forces: ir.Value, offset: ir.Value) -> None:
        super().begin_tile(forces, offset)
        correction = constant_vector(I64, ROWS * _magic_bits(FORCE_SCALE) % 2**64, LANES)
        self.lanes = [self.builder.add(lane, correction) for lane in self.lanes]

    def add_rows(self, members: range, force: Vector, displacement: list[Vector]) -> None:
        for d in range(3):
            component = force * displacement[d]
            for k, row in enumerate(members):
                bits = self._fixed(component.values[k], FORCE_SCALE)
                total = self.rows[row][d]
                self.builder.store(self.builder.add(self.builder.load(total), bits), total)
                self.lanes[d] = self.builder.sub(self.lanes[d], bits)

    def _fixed(self, value: ir.Value, scale: float) -> ir.Value:
        wide = self.builder.fpext(value, ir.VectorType(F64, LANES))
        shifted = self.builder.fadd(wide, constant_vector(F64, _magic(scale), LANES))
        return self.builder.bitcast(shifted, ir.VectorType(I64, LANES))

    def _plus(self, total: ir.Value, term: Vector) -> ir.Value:
        return self.builder.add(total, self._fixed(term.values[0], ENERGY_SCALE))

    def _reduce(self, total: ir.Value, n_tiles: ir.Value, terms_per_tile: int) -> ir.Value:
        scale = FORCE_SCALE if terms_per_tile == 1 else ENERGY_SCALE
        magic = index(terms_per_tile * LANES * _magic_bits(scale) % 2**64)
        total = horizontal_sum(self.builder, self.builder.load(total))
        return self.builder.sub(total, self.builder.mul(n_tiles, magic))

    def _total(self, total: ir.Value, n_tiles: ir.Value) -> ir.Value:
        return self._reduce(total, n_tiles, ROWS)

    def _add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.add(a, b)


def _elements(term: int) -> list[int]:
    """Elements of the totals [lj, coulomb, W(9)] that a term is added to."""
    if term < 2:
        return [term]
    a, b = VIRIAL[term - 2]
    return sorted({2 + 3 * a + b, 2 + 3 * b + a})


def _magic(scale: float) -> float:
    return 1.5 * 2.0**52 / scale


def _magic_bits(scale: float) -> int:
    return struct.unpack("<q", struct.pack("<d", _magic(scale)))[0]
