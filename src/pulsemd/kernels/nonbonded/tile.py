"""The loop of one i-cluster over its j-clusters, written as LLVM vector code around the traced formulas.

A tile is 4 atoms (rows) x 8 atoms (lanes of a vector). Rows are processed in groups of two, so that two
dependency chains overlap. The loop is one Numba intrinsic: Numba types only its arguments, so compiling costs
LLVM's time only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pulsemd.kernels.nonbonded.accumulate import FixedPointSums, FloatSums
from pulsemd.kernels.nonbonded.formula import COMBINATIONS, LENNARD_JONES, electrostatics, where
from pulsemd.kernels.nonbonded.spec import (
    BLOCK,
    CAPPED_DISTANCE,
    CAPPED_ENERGY,
    CAPPED_FORCE,
    CONSTANTS,
    LANES,
    ROWS,
    TOUCHING2,
    KernelSpec,
)
from pulsemd.kernels.nonbonded.trace.displacement import lattice_difference, to_cartesian
from pulsemd.kernels.nonbonded.trace.memory import (
    any_lane,
    array_pointer,
    constant_vector,
    index,
    load,
    load_vector,
    splat,
)
from pulsemd.kernels.nonbonded.trace.vector import F32, FAST, I32, I64, REPRODUCIBLE, Mask, Vector, group

GROUP = 2


@dataclass(frozen=True)
class Pointers:
    """First elements of the arrays a tile loop works on; see `make_tile_loop` for their shapes."""

    x: ir.Value
    parameters: ir.Value
    type_index: ir.Value
    forces: ir.Value
    j_cluster: ir.Value
    pair_mask: ir.Value
    constants: ir.Value
    table: ir.Value
    totals: ir.Value


@dataclass(frozen=True)
class Atoms:
    """Positions and parameters of rows (broadcast) or lanes; ``x`` is int32 or, if relative, Cartesian."""

    x: list[Any]
    charge: Vector
    parameters: list[Vector]


class ForceLimit:
    """Watches the forces of pairs. Reproducible: each of them. Fast: the sum of (force over r)^2 of each lane.

    The sum costs one instruction for a vector of pairs, a comparison of every pair four.
    """

    def __init__(self, builder, limit2: Vector, summed: bool) -> None:
        self.builder, self.limit2, self.summed = builder, limit2, summed
        kind, start = (F32, 0.0) if summed else (ir.IntType(1), 1)
        self._state = [
            cgutils.alloca_once_value(builder, constant_vector(kind, start, LANES)) for _ in range(GROUP)
        ]

    def add(self, force: Vector, r2: Vector) -> None:
        """Take in a group of rows."""
        if self.summed:
            old = force.like([self.builder.load(state) for state in self._state])
            new = force.multiply_add(force, old).values
        else:
            good = (force * force * r2 < self.limit2).values
            new = [self.builder.and_(self.builder.load(s), g) for s, g in zip(self._state, good, strict=True)]
        for state, value in zip(self._state, new, strict=True):
            self.builder.store(value, state)

    def exceeded(self) -> ir.Value:
        """i64, 1 if a force was beyond the limit or not a number."""
        builder = self.builder
        good = [builder.load(state) for state in self._state]
        if self.summed:
            good = (self.limit2.like(good) < self.limit2).values
        return builder.zext(any_lane(builder, builder.not_(builder.and_(*good))), I64)


class TileLoop:
    """Writes the code of one i-cluster against j-clusters ``first`` to ``last`` of its list.

    Parameters
    ----------
    builder : llvmlite IRBuilder
    spec : KernelSpec
    masked : bool
        Whether tiles carry a bitmask of pairs, bit 8 * row + lane.
    lj_rows : {0, 2, 4}
        Only the first rows of the i-cluster have Lennard-Jones parameters.
    pointers : Pointers
    n_types : i64
        Row length of the table of pairs of types.
    """

    def __init__(self, builder, spec: KernelSpec, masked: bool, lj_rows: int, pointers: Pointers, n_types):
        self.builder, self.spec, self.masked, self.lj_rows = builder, spec, masked, lj_rows
        self.pointers, self.n_types = pointers, n_types
        self.numerics = FAST if spec.precision == "fast" else REPRODUCIBLE
        self.sums = (FloatSums if spec.precision == "fast" else FixedPointSums)(builder, spec.energies)
        values = [self._broadcast(pointers.constants, index(k)) for k in range(len(CONSTANTS) + 9)]
        self.constants = dict(zip(CONSTANTS, values, strict=False))
        self.scale = [values[len(CONSTANTS) + 3 * row :][:3] for row in range(3)]

    def write(self, i_cluster: ir.Value, first: ir.Value, last: ir.Value) -> ir.Value:
        """Emit the loop; returns i64, 1 if a pair force was beyond the limit or not a number."""
        builder = self.builder
        offset, type_offset = self._row_offsets(i_cluster)
        self.reference = [
            splat(builder, load(builder, self.pointers.x, builder.add(offset, index(LANES * d))), LANES)
            for d in range(3)
        ]
        rows = [self._load_row(builder.add(offset, index(row))) for row in range(ROWS)]
        row_types = self._load_row_types(type_offset)
        limit = ForceLimit(builder, self.constants["limit2"], self.spec.precision == "fast")
        with cgutils.for_range_slice(builder, first, last, index(1)) as (k, _):
            j_cluster = builder.sext(load(builder, self.pointers.j_cluster, k), I64)
            lanes = self._load_lanes(builder.mul(j_cluster, index(BLOCK)))
            lane_types = self._load_lane_types(builder.mul(j_cluster, index(LANES)))
            bits = splat(builder, load(builder, self.pointers.pair_mask, k), LANES) if self.masked else None
            self.sums.begin_tile(self.pointers.forces, builder.mul(j_cluster, index(BLOCK)))
            for start in range(0, ROWS, GROUP):
                members = range(start, start + GROUP)
                limit.add(*self._pair_rows(members, rows, lanes, row_types, lane_types, bits))
            self.sums.end_tile()
        self.sums.end_rows(self.pointers.forces, offset, self.pointers.totals, builder.sub(last, first))
        return limit.exceeded()

    def _broadcast(self, pointer: ir.Value, offset: ir.Value) -> Vector:
        return Vector(
            self.builder, [splat(self.builder, load(self.builder, pointer, offset), LANES)], self.numerics
        )

    def _row_offsets(self, i_cluster: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Offsets of the first atom of an i-cluster in arrays of three components and of one."""
        builder = self.builder
        block, half = builder.lshr(i_cluster, index(1)), builder.and_(i_cluster, index(1))
        half = builder.mul(half, index(ROWS))
        return (
            builder.add(builder.mul(block, index(BLOCK)), half),
            builder.add(builder.mul(block, index(LANES)), half),
        )

    def _load_row(self, offset: ir.Value) -> Atoms:
        builder = self.builder
        at = [builder.add(offset, index(LANES * d)) for d in range(3)]
        x = [splat(builder, load(builder, self.pointers.x, at[d]), LANES) for d in range(3)]
        charge, *parameters = [self._broadcast(self.pointers.parameters, at[d]) for d in range(3)]
        return Atoms(self._maybe_relative(x), charge, parameters)

    def _load_lanes(self, offset: ir.Value) -> Atoms:
        builder = self.builder
        at = [builder.add(offset, index(LANES * d)) for d in range(3)]
        x = [load_vector(builder, self.pointers.x, at[d], LANES) for d in range(3)]
        charge, *parameters = [
            Vector(builder, [load_vector(builder, self.pointers.parameters, at[d], LANES)], self.numerics)
            for d in range(3)
        ]
        return Atoms(self._maybe_relative(x), charge, parameters)

    def _maybe_relative(self, x: list[ir.Value]) -> list[Any]:
        if self.spec.displacement == "pairwise":
            return x
        fraction = lattice_difference(self.builder, x, self.reference, self.numerics)
        return to_cartesian(fraction, self.scale, self.spec.orthorhombic)

    def _load_row_types(self, offset: ir.Value) -> list[ir.Value]:
        """Offset in the table of the row of each i-atom's type."""
        if self.spec.combination != "table":
            return []
        builder = self.builder
        types_ = [load(builder, self.pointers.type_index, builder.add(offset, index(r))) for r in range(ROWS)]
        return [builder.mul(builder.sext(kind, I64), self.n_types) for kind in types_]

    def _load_lane_types(self, offset: ir.Value) -> list[ir.Value]:
        if self.spec.combination != "table" or not self.lj_rows:
            return []
        builder = self.builder
        loaded = [
            load(builder, self.pointers.type_index, builder.add(offset, index(t))) for t in range(LANES)
        ]
        return [builder.sext(kind, I64) for kind in loaded]

    def _pair_rows(
        self, members: range, rows, lanes: Atoms, row_types, lane_types, bits
    ) -> tuple[Vector, Vector]:
        """Emit the pairs of a group of rows; returns force over r, and r^2."""
        displacement = self._displacement([rows[row].x for row in members], lanes.x)
        r2 = (
            displacement[0] * displacement[0]
            + displacement[1] * displacement[1]
            + displacement[2] * displacement[2]
        )
        inside = r2 < self.constants["cutoff2"]
        if bits is not None:
            inside = inside & self._mask_rows(bits, members)
        there, r2 = r2, where(r2 > self.constants["minimum2"], r2, self.constants["minimum2"])
        qq = group([rows[row].charge for row in members]) * lanes.charge
        coulomb = [self.constants[f"coulomb_{name}"] for name in "ab"]
        energy_coulomb, force = electrostatics(r2, qq, *coulomb, self.spec.ewald)
        energy_lj = None
        if members[0] < self.lj_rows:
            coefficients = self._coefficients(members, rows, lanes, row_types, lane_types)
            energy_lj, force_lj = self._van_der_waals(r2, coefficients)
            force = force + force_lj
        if energy_lj is not None:  # below the smallest distance force over r is constant
            energy_lj = energy_lj + force * (0.5 * (r2 - there))
        if self.spec.capped:
            force, energy_lj, r2 = self._capped(force, energy_lj, r2, there)
        force = where(inside, force, 0.0)
        self.sums.add_rows(members, force, displacement)
        if self.spec.energies:
            energies = [where(inside, energy, 0.0) for energy in (energy_lj, energy_coulomb)]
            self.sums.add_energies(energies, force, displacement)
        return force, r2

    def _capped(self, force: Vector, energy_lj: Vector | None, r2: Vector, there: Vector):
        """Force over r and energy of which neither is too large; the energy still falls with the distance.

        `there` is r^2 as it is, `r2` at least the smallest that enters a formula.
        """
        weak = abs(force) * r2.sqrt() < CAPPED_FORCE
        r2 = where(there > TOUCHING2, there, TOUCHING2)
        r = r2.sqrt()
        strong = where(force < 0.0, force.constant(-CAPPED_FORCE), CAPPED_FORCE)
        if energy_lj is not None:
            bounded = where(energy_lj < CAPPED_ENERGY, energy_lj, CAPPED_ENERGY)
            wall = where(r < CAPPED_DISTANCE, strong * (CAPPED_DISTANCE - r), 0.0)
            energy_lj = where(weak, energy_lj, bounded + wall)
        return where(weak, force, strong / r), energy_lj, r2

    def _van_der_waals(self, r2: Vector, coefficients: list[Vector]) -> tuple[Vector, Vector]:
        """Energy and force over r of Lennard-Jones or of the formula in its place."""
        formula = self.spec.formula
        if formula is None:
            function, names = LENNARD_JONES[self.spec.ending]
            return function(r2, *coefficients, *(self.constants[name] for name in names))
        energy, force = (r2.constant(value) for value in formula(r2, *coefficients))
        if self.spec.energies and self.spec.shifted:
            energy = energy - formula(self.constants["cutoff2"], *coefficients)[0]
        return energy, force

    def _displacement(self, rows: list[list[Any]], lanes: list[Any]) -> list[Vector]:
        if self.spec.displacement == "relative":
            return [group([row[d] for row in rows]) - lanes[d] for d in range(3)]
        differences = [lattice_difference(self.builder, row, lanes, self.numerics) for row in rows]
        fraction = [group([difference[d] for difference in differences]) for d in range(3)]
        return to_cartesian(fraction, self.scale, self.spec.orthorhombic)

    def _mask_rows(self, bits: ir.Value, members: range) -> Mask:
        builder, kind = self.builder, ir.VectorType(I32, LANES)
        zero = constant_vector(I32, 0, LANES)
        select = [ir.Constant(kind, [1 << (LANES * row + t) for t in range(LANES)]) for row in members]
        set_ = [builder.icmp_unsigned("!=", builder.and_(bits, lanes), zero) for lanes in select]
        return Mask(builder, set_, self.numerics)

    def _coefficients(self, members: range, rows, lanes: Atoms, row_types, lane_types) -> list[Vector]:
        """c6 and c12 of a group of rows, or the arguments of the formula: by the rule or from the table."""
        n = self.spec.n_parameters
        if self.spec.combination == "types":
            arguments = self.spec.formula.arguments
            bases = list(dict.fromkeys(name[:-2] for name in arguments))
            own = [group([rows[row].parameters[p] for row in members]) for p in range(2)]
            sides = {"i": own, "j": lanes.parameters}
            return [sides[name[-1]][bases.index(name[:-2])] for name in arguments]
        if self.spec.combination != "table":
            own = [group([rows[row].parameters[p] for row in members]) for p in range(2)]
            return list(COMBINATIONS[self.spec.combination](*own, *lanes.parameters))[:n]
        columns = [self._table_row(row_types[row], lane_types) for row in members]
        return [group([column[p] for column in columns]) for p in range(n)]

    def _table_row(self, row_offset: ir.Value, lane_types: list[ir.Value]) -> list[Vector]:
        builder = self.builder
        n = self.spec.n_parameters
        pair = [builder.mul(builder.add(row_offset, kind), index(n)) for kind in lane_types]
        result = []
        for p in range(n):
            value = constant_vector(self.pointers.table.type.pointee, 0.0, LANES)
            for lane, offset in enumerate(pair):
                element = load(builder, self.pointers.table, builder.add(offset, index(p)))
                value = builder.insert_element(value, element, ir.Constant(I32, lane))
            result.append(Vector(builder, [value], self.numerics))
        return result


def make_tile_loop(spec: KernelSpec, masked: bool, lj_rows: int):
    """A Numba intrinsic that adds the forces between one i-cluster and a range of its j-clusters.

    Its arguments are flat arrays: ``x`` int32 and ``parameters`` float32 in blocks of 3 x 8 (parameters: charge
    times the square root of the Coulomb factor, and the two numbers of the combination rule), ``type_index``
    int32 in blocks of 8, ``forces`` float32 or int64 in blocks of 3 x 8 (OUTPUT, added to), ``j_cluster`` int32
    and ``pair_mask`` uint32 of all tiles, ``constants`` float32, ``table`` float32 (c6, c12 of every pair of
    types), ``totals`` float64 or int64 (11,) (OUTPUT, added to if the spec has energies); then the integers
    ``n_types``, ``i_cluster``, ``first``, ``last``. It returns int64, 1 if a pair force was beyond the limit.
    """

    @intrinsic
    def tile_loop(
        typing_context,
        x,
        parameters,
        type_index,
        forces,
        j_cluster,
        pair_mask,
        constants,
        table,
        totals,
        n_types,
        i_cluster,
        first,
        last,
    ):
        def emit(context, builder, signature, arguments):
            # Vector registers spilled on a stack of 16-byte alignment cross cache lines: bimodal speed.
            builder.function.attributes.alignstack = 64
            builder.function.attributes.add("noinline")
            pointers = Pointers(
                *(array_pointer(context, builder, signature.args[k], arguments[k]) for k in range(9))
            )
            sizes = [
                context.cast(builder, arguments[k], signature.args[k], types.int64) for k in range(9, 13)
            ]
            loop = TileLoop(builder, spec, masked, lj_rows, pointers, sizes[0])
            return loop.write(*sizes[1:])

        arrays = (x, parameters, type_index, forces, j_cluster, pair_mask, constants, table, totals)
        return types.int64(*arrays, n_types, i_cluster, first, last), emit

    return tile_loop
