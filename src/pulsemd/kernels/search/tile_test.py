"""Which pairs of a tile are within the list radius, and which belong to this rank, as 32-bit masks.

Bit 8 * row + lane stands for atom ``row`` of the i-cluster and atom ``lane`` of the j-cluster.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pulsemd.kernels.nonbonded.formula import where
from pulsemd.kernels.nonbonded.spec import BLOCK, LANES, ROWS
from pulsemd.kernels.nonbonded.trace.displacement import lattice_difference, to_cartesian
from pulsemd.kernels.nonbonded.trace.memory import (
    array_pointer,
    constant_vector,
    index,
    load,
    load_vector,
    splat,
)
from pulsemd.kernels.nonbonded.trace.vector import F32, FAST, I8, I32, I64, REPRODUCIBLE, Vector


def _row_offset(builder, i_cluster, block: int):
    half = builder.mul(builder.and_(i_cluster, index(1)), index(ROWS))
    return builder.add(builder.mul(builder.lshr(i_cluster, index(1)), index(block)), half)


def _pack(builder, rows: list[ir.Value]) -> ir.Value:
    """One 32-bit mask of four vectors of i1."""
    bits = ir.Constant(I32, 0)
    for row, mask in enumerate(rows):
        lanes = builder.zext(builder.bitcast(mask, I8), I32)
        bits = builder.or_(bits, builder.shl(lanes, ir.Constant(I32, LANES * row)))
    return bits


def _broadcast_rows(builder, x, scale, i_cluster) -> tuple[list, list]:
    """Positions of the four rows and the box over 2^32, each in every lane."""
    first = _row_offset(builder, i_cluster, BLOCK)
    rows = [
        [
            splat(builder, load(builder, x, builder.add(first, index(row + LANES * d))), LANES)
            for d in range(3)
        ]
        for row in range(ROWS)
    ]
    matrix = [
        [
            Vector(builder, [splat(builder, load(builder, scale, index(3 * a + b)), LANES)], REPRODUCIBLE)
            for b in range(3)
        ]
        for a in range(3)
    ]
    return rows, matrix


def _within(builder, x, rows, matrix, limit: Vector, j_cluster, diagonal: bool) -> ir.Value:
    """Mask of the pairs of four rows and a j-cluster with r^2 at most the limit.

    IEEE float32 operations on integer differences: the same bits for (i, j) and (j, i), and for a diagonal box
    whether or not ``diagonal`` says so.
    """
    start = builder.mul(j_cluster, index(BLOCK))
    lanes = [load_vector(builder, x, builder.add(start, index(LANES * d)), LANES) for d in range(3)]
    masks = []
    for row in rows:
        d = to_cartesian(lattice_difference(builder, row, lanes, REPRODUCIBLE), matrix, diagonal)
        masks.append((d[0] * d[0] + d[1] * d[1] + d[2] * d[2] <= limit).values[0])
    return _pack(builder, masks)


@intrinsic
def within_radius(typing_context, x, scale, orthorhombic, radius2, i_cluster, j_cluster):
    """Mask of the pairs of a tile with r^2 <= radius2.

    Parameters
    ----------
    x : (n_blocks * 24,) int32, lattice positions in blocks of 3 x 8
    scale : (9,) float32, box over 2^32, nm
    orthorhombic : bool
    radius2 : float32, nm^2
    i_cluster, j_cluster : int
    """

    def emit(context, builder, signature, arguments):
        pointers = [array_pointer(context, builder, signature.args[k], arguments[k]) for k in range(2)]
        i, j = [context.cast(builder, arguments[k], signature.args[k], types.int64) for k in (4, 5)]
        limit = Vector(builder, [splat(builder, arguments[3], LANES)], REPRODUCIBLE)
        rows, matrix = _broadcast_rows(builder, *pointers, i)
        result = cgutils.alloca_once(builder, I32)
        with builder.if_else(arguments[2]) as (yes, no):
            for branch, diagonal in ((yes, True), (no, False)):
                with branch:
                    builder.store(_within(builder, pointers[0], rows, matrix, limit, j, diagonal), result)
        return builder.load(result)

    return types.uint32(x, scale, types.boolean, types.float32, i_cluster, j_cluster), emit


@intrinsic
def within_radius_of_all(typing_context, x, scale, orthorhombic, radius2, i_cluster, j_clusters, masks):
    """`within_radius` for one i-cluster and a list of j-clusters, whose rows stay in registers.

    Parameters
    ----------
    j_clusters : (n,) int32
    masks : (n,) uint32
        OUTPUT
    """

    def emit(context, builder, signature, arguments):
        x, scale, clusters, results = [
            array_pointer(context, builder, signature.args[k], arguments[k]) for k in (0, 1, 5, 6)
        ]
        i = context.cast(builder, arguments[4], signature.args[4], types.int64)
        n = builder.extract_value(
            context.make_array(signature.args[5])(context, builder, arguments[5]).shape, 0
        )
        limit = Vector(builder, [splat(builder, arguments[3], LANES)], REPRODUCIBLE)
        rows, matrix = _broadcast_rows(builder, x, scale, i)
        with builder.if_else(arguments[2]) as (yes, no):
            for branch, diagonal in ((yes, True), (no, False)):
                with branch, cgutils.for_range(builder, n, intp=I64) as loop:
                    j = builder.sext(load(builder, clusters, loop.index), I64)
                    mask = _within(builder, x, rows, matrix, limit, j, diagonal)
                    builder.store(mask, builder.gep(results, [loop.index]))
        return context.get_dummy_value()

    arguments = (x, scale, types.boolean, types.float32, i_cluster, j_clusters, masks)
    return types.none(*arguments), emit


@intrinsic
def owned_here(typing_context, leader_x, home, required, i_cluster, j_cluster):
    """Mask of the pairs of a tile that belong to this rank.

    In each decomposed dimension the leader that is lower (by the wrapped difference; ties share a cell) must be in
    this rank's cell, which bit d of its ``home`` tells.

    Parameters
    ----------
    leader_x : (n_blocks * 24,) int32, lattice positions of the atoms' leaders in blocks of 3 x 8
    home : (n_blocks * 8,) int32
    required : int
        Bits of the decomposed dimensions.
    """

    def emit(context, builder, signature, arguments):
        leaders, bits = [array_pointer(context, builder, signature.args[k], arguments[k]) for k in range(2)]
        required, i, j = [
            context.cast(builder, arguments[k], signature.args[k], types.int64) for k in (2, 3, 4)
        ]
        first, home_first = _row_offset(builder, i, BLOCK), _row_offset(builder, i, LANES)
        start = builder.mul(j, index(BLOCK))
        lane_home = load_vector(builder, bits, builder.mul(j, index(LANES)), LANES)
        row_home = [
            splat(builder, load(builder, bits, builder.add(home_first, index(row))), LANES)
            for row in range(ROWS)
        ]
        zero = constant_vector(I32, 0, LANES)
        result = cgutils.alloca_once_value(builder, ir.Constant(I32, 0xFFFFFFFF))
        for d in range(3):
            decomposed = builder.icmp_signed("!=", builder.and_(required, index(1 << d)), index(0))
            with builder.if_then(decomposed):
                bit, at = constant_vector(I32, 1 << d, LANES), index(LANES * d)
                lanes = load_vector(builder, leaders, builder.add(start, at), LANES)
                masks = []
                for row in range(ROWS):
                    leader = load(builder, leaders, builder.add(first, index(row + LANES * d)))
                    delta = builder.sub(lanes, splat(builder, leader, LANES))
                    lower_is_lane = builder.icmp_signed("<", delta, zero)
                    lower = builder.select(lower_is_lane, lane_home, row_home[row])
                    masks.append(builder.icmp_signed("!=", builder.and_(lower, bit), zero))
                builder.store(builder.and_(builder.load(result), _pack(builder, masks)), result)
        return builder.load(result)

    return types.uint32(leader_x, home, required, i_cluster, j_cluster), emit


@intrinsic
def near_boxes(
    typing_context, i_center, i_half, j_center, j_half, scale, orthorhombic, limit, block, j_cluster
):
    """Which of eight consecutive j-clusters have a box near those of the two i-clusters of a block.

    Parameters
    ----------
    i_center, j_center : (3, n) int32, lattice units
    i_half, j_half : (3, n) float32, nm
        Centres and Cartesian half extents; eight elements from ``j_cluster`` on are read.
    scale : (9,) float32, box over 2^32, nm
    orthorhombic : bool
    limit : float32, nm^2
        Largest squared distance between the boxes.
    block, j_cluster : int

    Returns
    -------
    int64
        Bits 0-7 for the first i-cluster, 8-15 for the second.
    """

    def emit(context, builder, signature, arguments):
        arrays = [context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(5)]
        block, j = [context.cast(builder, arguments[k], signature.args[k], types.int64) for k in (7, 8)]
        first = builder.shl(block, index(1))
        limit = Vector(builder, [splat(builder, arguments[6], LANES)], FAST)

        def rows(array, read, offset):
            n = builder.extract_value(array.shape, 1)
            return [
                read(builder, array.data, builder.add(builder.mul(n, index(d)), offset)) for d in range(3)
            ]

        def lanes(builder, pointer, offset):
            return load_vector(builder, pointer, offset, LANES)

        def spread(builder, pointer, offset):
            return splat(builder, load(builder, pointer, offset), LANES)

        def vectors(values):
            return [Vector(builder, [value], FAST) for value in values]

        def test(diagonal):
            matrix = [
                vectors([spread(builder, arrays[4].data, index(3 * a + b)) for b in range(3)])
                for a in range(3)
            ]
            j_centers, j_halves = rows(arrays[2], lanes, j), vectors(rows(arrays[3], lanes, j))
            bits = index(0)
            for k in range(2):
                i = builder.add(first, index(k))
                fraction = lattice_difference(builder, rows(arrays[0], spread, i), j_centers, FAST)
                i_halves = vectors(rows(arrays[1], spread, i))
                distance2 = Vector(builder, [constant_vector(F32, 0.0, LANES)], FAST)
                for d, between in enumerate(to_cartesian(fraction, matrix, diagonal)):
                    between = where(between < 0.0, -between, between)
                    gap = between - (i_halves[d] + j_halves[d])
                    gap = where(gap > 0.0, gap, 0.0)
                    distance2 = distance2 + gap * gap
                near = builder.zext(builder.bitcast((distance2 <= limit).values[0], I8), I64)
                bits = builder.or_(bits, builder.shl(near, index(LANES * k)))
            return bits

        result = cgutils.alloca_once(builder, I64)
        with builder.if_else(arguments[5]) as (yes, no):
            for branch, diagonal in ((yes, True), (no, False)):
                with branch:
                    builder.store(test(diagonal), result)
        return builder.load(result)

    arguments = (i_center, i_half, j_center, j_half, scale, types.boolean, types.float32, block, j_cluster)
    return types.int64(*arguments), emit


@intrinsic
def count_bits(typing_context, mask):
    """Number of set bits of a uint32."""

    def emit(context, builder, signature, arguments):
        return builder.zext(builder.ctpop(arguments[0]), I64)

    return types.int64(types.uint32), emit
