"""Displacements from lattice positions to nanometres, in vector code."""

from __future__ import annotations

from llvmlite import ir

from pulsemd.kernels.nonbonded.trace.vector import F32, Numerics, Vector


def to_cartesian(fraction: list[Vector], scale: list[list[Vector]], diagonal: bool) -> list[Vector]:
    """Cartesian components of a lattice vector.

    Parameters
    ----------
    fraction : three vectors of float32, lattice units
    scale : 3 x 3 vectors, rows a, b, c of the box over 2^32
    diagonal : bool
        The box is orthorhombic: the six other elements are zero and left out, which changes no bit.
    """
    if diagonal:
        return [fraction[d] * scale[d][d] for d in range(3)]
    return [
        fraction[0] * scale[0][d] + fraction[1] * scale[1][d] + fraction[2] * scale[2][d] for d in range(3)
    ]


def lattice_difference(
    builder: ir.IRBuilder, a: list[ir.Value], b: list[ir.Value], numerics: Numerics
) -> list[Vector]:
    """Minimum-image differences a - b of int32 vectors, by wraparound, as float32 vectors."""
    result = []
    for x, y in zip(a, b, strict=True):
        step = builder.sub(x, y)
        result.append(Vector(builder, [builder.sitofp(step, ir.VectorType(F32, step.type.count))], numerics))
    return result
