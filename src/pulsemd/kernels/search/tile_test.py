"""Which pairs of a tile are within the list radius, and which belong to this rank, as 32-bit masks.

Bit 8 * row + lane stands for atom ``row`` of the i-cluster and atom ``lane`` of the j-cluster.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

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
from pulsemd.kernels.nonbonded.trace.vector import I8, I32, REPRODUCIBLE, Vector


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
def _within_radius(typing_context, x, scale, orthorhombic, radius2, i_cluster, j_cluster):
    def emit(context, builder, signature, arguments):
        pointers = [array_pointer(context, builder, signature.args[k], arguments[k]) for k in range(2)]
        i, j = [context.cast(builder, arguments[k], signature.args[k], types.int64) for k in (4, 5)]
        limit = Vector(builder, [splat(builder, arguments[3], LANES)], REPRODUCIBLE)
        result = cgutils.alloca_once(builder, I32)
        diagonal = context.cast(builder, arguments[2], signature.args[2], types.boolean)
        with builder.if_else(
            builder.trunc(diagonal, ir.IntType(1)) if diagonal.type != ir.IntType(1) else diagonal
        ) as (yes, no):
            for branch, is_diagonal in ((yes, True), (no, False)):
                with branch:
                    r2 = _squared_distances(builder, *pointers, i, j, is_diagonal)
                    builder.store(_pack(builder, [(row <= limit).values[0] for row in r2]), result)
        return builder.load(result)

    return types.uint32(x, scale, orthorhombic, types.float32, i_cluster, j_cluster), emit


@intrinsic
def _owned_here(typing_context, leader_x, home, i_cluster, j_cluster):
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


@njit(cache=True, nogil=True)
def within_radius(x, scale, orthorhombic, radius2, i_cluster, j_cluster):
    """Mask of the pairs of a tile with r^2 <= radius2.

    Parameters
    ----------
    x : (n_blocks * 24,) int32, lattice positions in blocks of 3 x 8
    scale : (9,) float32, box over 2^32, nm
    orthorhombic : bool
    radius2 : float32, nm^2
    i_cluster, j_cluster : int
    """
    return _within_radius(x, scale, orthorhombic, radius2, i_cluster, j_cluster)


@njit(cache=True, nogil=True)
def owned_here(leader_x, home, i_cluster, j_cluster):
    """Mask of the pairs of a tile that belong to this rank.

    In each dimension the leader that is lower (by the wrapped difference; ties share a cell) must be in this
    rank's cell, which bit d of its ``home`` tells.

    Parameters
    ----------
    leader_x : (n_blocks * 24,) int32, lattice positions of the atoms' leaders in blocks of 3 x 8
    home : (n_blocks * 8,) int32
    """
    return _owned_here(leader_x, home, i_cluster, j_cluster)
