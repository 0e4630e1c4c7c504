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


def _squared_distances(builder, x, scale, i_cluster, j_cluster, diagonal: bool) -> list[Vector]:
    """r^2 of the four rows, by IEEE float32 operations on integer differences.

    The same bits for (i, j) and (j, i), and for a diagonal box whether or not ``diagonal`` says so.
    """
    first = _row_offset(builder, i_cluster, BLOCK)
    start = builder.mul(j_cluster, index(BLOCK))
    lanes = [load_vector(builder, x, builder.add(start, index(LANES * d)), LANES) for d in range(3)]
    broadcast = [
        [
            Vector(builder, [splat(builder, load(builder, scale, index(3 * a + b)), LANES)], REPRODUCIBLE)
            for b in range(3)
        ]
        for a in range(3)
    ]
    result = []
    for row in range(ROWS):
        at = [builder.add(first, index(row + LANES * d)) for d in range(3)]
        position = [splat(builder, load(builder, x, at[d]), LANES) for d in range(3)]
        fraction = lattice_difference(builder, position, lanes, REPRODUCIBLE)
        d = to_cartesian(fraction, broadcast, diagonal)
        result.append(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
    return result


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
        result = cgutils.alloca_once(builder, I32)
        with builder.if_else(arguments[2]) as (yes, no):
            for branch, is_diagonal in ((yes, True), (no, False)):
                with branch:
                    r2 = _squared_distances(builder, *pointers, i, j, is_diagonal)
                    builder.store(_pack(builder, [(row <= limit).values[0] for row in r2]), result)
        return builder.load(result)

    return types.uint32(x, scale, types.boolean, types.float32, i_cluster, j_cluster), emit


@intrinsic
def owned_here(typing_context, leader_x, home, i_cluster, j_cluster):
    """Mask of the pairs of a tile that belong to this rank.

    In each dimension the leader that is lower (by the wrapped difference; ties share a cell) must be in this
    rank's cell, which bit d of its ``home`` tells.

    Parameters
    ----------
    leader_x : (n_blocks * 24,) int32, lattice positions of the atoms' leaders in blocks of 3 x 8
    home : (n_blocks * 8,) int32
    """

    def emit(context, builder, signature, arguments):
        leaders, bits = [array_pointer(context, builder, signature.args[k], arguments[k]) for k in range(2)]
        i, j = [context.cast(builder, arguments[k], signature.args[k], types.int64) for k in (2, 3)]
        first, home_first = _row_offset(builder, i, BLOCK), _row_offset(builder, i, LANES)
        start = builder.mul(j, index(BLOCK))
        lane_home = load_vector(builder, bits, builder.mul(j, index(LANES)), LANES)
        lanes = [load_vector(builder, leaders, builder.add(start, index(LANES * d)), LANES) for d in range(3)]
        zero, masks = constant_vector(I32, 0, LANES), []
        for row in range(ROWS):
            row_home = splat(builder, load(builder, bits, builder.add(home_first, index(row))), LANES)
            owned = constant_vector(ir.IntType(1), 1, LANES)
            for d in range(3):
                leader = load(builder, leaders, builder.add(first, index(row + LANES * d)))
                delta = builder.sub(lanes[d], splat(builder, leader, LANES))
                lower_is_lane = builder.icmp_signed("<", delta, zero)
                lower = builder.select(lower_is_lane, lane_home, row_home)
                bit = builder.and_(lower, constant_vector(I32, 1 << d, LANES))
                owned = builder.and_(owned, builder.icmp_signed("!=", bit, zero))
            masks.append(owned)
        return _pack(builder, masks)

    return types.uint32(leader_x, home, i_cluster, j_cluster), emit


@intrinsic
def near_boxes(typing_context, i_center, i_half, j_center, j_half, scale, limit, i_cluster, j_cluster):
    """Mask of those of eight consecutive j-clusters whose box is near that of an i-cluster.

    Parameters
    ----------
    i_center, j_center : (3, n) int32, lattice units
    i_half, j_half : (3, n) float32, nm
        Centres and Cartesian half extents; eight elements from ``j_cluster`` on are read.
    scale : (9,) float32, box over 2^32, nm
    limit : float32, nm^2
        Largest squared distance between the boxes.
    i_cluster, j_cluster : int
    """

    def emit(context, builder, signature, arguments):
        arrays = [context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(5)]
        i, j = [context.cast(builder, arguments[k], signature.args[k], types.int64) for k in (6, 7)]

        def vector(value):
            return Vector(builder, [value], FAST)

        def component(array, d, offset):
            n = builder.extract_value(array.shape, 1)
            return array.data, builder.add(builder.mul(n, index(d)), offset)

        def of_i(array, d):
            return splat(builder, load(builder, *component(array, d, i)), LANES)

        def of_j(array, d):
            return load_vector(builder, *component(array, d, j), LANES)

        centers = [[read(arrays[k], d) for d in range(3)] for k, read in ((0, of_i), (2, of_j))]
        fraction = lattice_difference(builder, *centers, FAST)
        matrix = [
            [vector(splat(builder, load(builder, arrays[4].data, index(3 * a + b)), LANES)) for b in range(3)]
            for a in range(3)
        ]
        distance2 = vector(constant_vector(F32, 0.0, LANES))
        for d, between in enumerate(to_cartesian(fraction, matrix, False)):
            between = where(between < 0.0, -between, between)
            gap = between - vector(of_i(arrays[1], d)) - vector(of_j(arrays[3], d))
            gap = where(gap > 0.0, gap, 0.0)
            distance2 = distance2 + gap * gap
        near = distance2 <= vector(splat(builder, arguments[5], LANES))
        return builder.zext(builder.bitcast(near.values[0], I8), I64)

    arguments = (i_center, i_half, j_center, j_half, scale, types.float32, i_cluster, j_cluster)
    return types.int64(*arguments), emit
