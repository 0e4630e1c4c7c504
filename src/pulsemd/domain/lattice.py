"""Exact lattice coordinates: a position is its fractional coordinate times 2^32 as int32.

The unit cell is [-0.5, 0.5), so integer overflow is the periodic boundary: wrapping needs no code, a
difference of two positions is one integer subtraction, and that difference is the minimum image for every
pair closer than half the smallest perpendicular width of the box. Boxes are 3 x 3, rows a, b, c in nm; vector
= frac @ box.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsemd.base.box import widths_of
from pulsemd.base.errors import DomainError, InputError

LATTICE = 2**32
"""Lattice points along each edge of the box."""

MAX_EDGE = 4000.0
"""Longest allowed box edge [nm]: beyond it the resolution (1e-6 nm) heats the system by rounding."""

_SMALLEST_GAIN = 1.0 - 1e-9
_SINGULAR = 1e-12


def to_lattice(positions: ArrayLike, box: NDArray[np.float64]) -> NDArray[np.int32]:
    """Lattice positions of Cartesian positions, wrapped exactly.

    Parameters
    ----------
    positions : (n, 3) float64, nm
        Any distance outside the box is allowed.
    box : (3, 3) float64, nm

    Returns
    -------
    (n, 3) int32, lattice units
        Positions that differ by a box vector give the same integers.

    Raises
    ------
    InputError
        If a coordinate is not finite (the first atom is named), or the box is refused by `check_box`.
    """
    check_box(box)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is named below
        fractional = np.asarray(positions, dtype=np.float64) @ np.linalg.inv(box)
    bad = np.flatnonzero(~np.isfinite(fractional).all(axis=1))
    if bad.size:
        atom = int(bad[0])
        value = np.asarray(positions)[atom]
        raise InputError(
            f"atom {atom + 1} has position ({value[0]}, {value[1]}, {value[2]}) nm, which is not finite; "
            f"{bad.size} atom(s) in all; correct the coordinates"
        )
    scaled = np.rint((fractional - np.rint(fractional)) * LATTICE)  # within [-2^31, 2^31]
    return np.ascontiguousarray(scaled.astype(np.int64).astype(np.int32))  # the second cast wraps 2^31


def to_positions(x: NDArray[np.int32], box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cartesian positions (n, 3) float64 nm of lattice positions, fractional part in [-0.5, 0.5)."""
    result: NDArray[np.float64] = (x.astype(np.float64) / LATTICE) @ box
    return result


def difference(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int32]:
    """Minimum-image difference ``a - b`` in lattice units, by int32 wraparound.

    Raises
    ------
    TypeError
        If an argument is not int32: a wider integer would be subtracted without the wraparound.
    """
    if a.dtype != np.int32 or b.dtype != np.int32:
        raise TypeError(f"lattice positions are int32, not {a.dtype} and {b.dtype}")
    return np.asarray(np.subtract(np.atleast_1d(a), np.atleast_1d(b), dtype=np.int32))


def check_box(box: NDArray[np.float64]) -> None:
    """Refuse a box that is not finite, has no volume, or has an edge over `MAX_EDGE`.

    Raises
    ------
    InputError
        Naming the vector and its length.
    """
    box = np.asarray(box)
    if box.shape != (3, 3) or not np.isfinite(box).all():
        raise InputError(f"the box must be three finite vectors in nm, not {box.tolist()}")
    edges = np.linalg.norm(box, axis=1)
    for name, edge in zip("abc", edges, strict=True):
        if edge > MAX_EDGE:
            raise InputError(f"box vector {name} is {edge:g} nm long; at most {MAX_EDGE:g} nm are supported")
    if not abs(np.linalg.det(box)) > _SINGULAR * np.prod(edges):
        raise InputError(
            f"the box has no volume: vectors {box.tolist()} nm are coplanar; give three independent vectors"
        )


def check_cutoff(r_list: float, box: NDArray[np.float64]) -> None:
    """Require ``r_list`` to be at most half the smallest perpendicular width.

    Parameters
    ----------
    r_list : float, nm
        Largest distance at which pairs are wanted, buffer included.
    box : (3, 3) float64, nm
        Lattice-reduced, or a larger cut-off than this box allows may be refused.

    Raises
    ------
    DomainError
        Naming the three widths and the largest possible cut-off.
    """
    w = widths_of(box)
    if r_list > w.min() / 2:
        raise DomainError(
            f"the list cut-off {r_list:g} nm exceeds half the smallest perpendicular width of the box "
            f"(widths {w[0]:.4f}, {w[1]:.4f}, {w[2]:.4f} nm); "
            f"use at most {w.min() / 2:.4f} nm or a larger box"
        )


def reduce_box(box: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Lattice-reduce a box so that its smallest perpendicular width is the largest possible.

    The widths are the inverse lengths of the reciprocal vectors, so those are brought to Minkowski-reduced
    form by replacing each with its shortest variant modulo the other two until none becomes shorter. A box
    that is already reduced is returned unchanged, with the identity.

    Parameters
    ----------
    box : (3, 3) float64, nm
        Any non-singular box; left-handed and strongly unreduced ones included. Handedness is kept.

    Returns
    -------
    box_reduced : (3, 3) float64, nm
        ``matrix @ box``, the same lattice of periodic images in the same Cartesian frame.
    matrix : (3, 3) int64
        Determinant +1.

    Raises
    ------
    InputError
        If the box is singular, not finite, or has an edge over `MAX_EDGE` after reduction.

    References
    ----------
    Semaev, A 3-dimensional lattice reduction algorithm, LNCS 2146 (2001) 181.
    """
    box = np.asarray(box, dtype=np.float64)
    matrix = np.eye(3, dtype=np.int64)
    if box.shape != (3, 3) or not np.isfinite(box).all() or np.linalg.det(box) == 0.0:
        check_box(box)
    reduced = box.copy()
    step = _reduction_step(reduced)
    while step is not None:
        matrix = step @ matrix
        reduced = matrix @ box
        step = _reduction_step(reduced)
    check_box(reduced)
    return reduced, matrix


def _reduction_step(box: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Integer matrix that shortens one reciprocal vector as far as the other two allow, or None."""
    if np.linalg.det(box) == 0.0:
        return None
    reciprocal = np.linalg.inv(box).T
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        basis = reciprocal[[i, j]]
        nearest = np.rint(np.linalg.lstsq(basis.T, reciprocal[k], rcond=None)[0])
        candidates = {
            (int(centre[0]) + p, int(centre[1]) + q)
            for centre in (nearest, (0, 0))
            for p, q in itertools.product((-1, 0, 1), repeat=2)
        }
        length, (m, n) = min(
            (float(np.linalg.norm(reciprocal[k] - c[0] * basis[0] - c[1] * basis[1])), c) for c in candidates
        )
        if length < _SMALLEST_GAIN * np.linalg.norm(reciprocal[k]):
            step = np.eye(3, dtype=np.int64)
            step[i, k], step[j, k] = m, n  # the transposed inverse of the step on the reciprocal vectors
            return step
    return None


def unimodular_inverse(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exact inverse (3, 3) int64 of an integer matrix of determinant +1 or -1."""
    m = [[int(value) for value in row] for row in matrix]

    def cofactor(r: int, c: int) -> int:
        r1, r2, c1, c2 = (r + 1) % 3, (r + 2) % 3, (c + 1) % 3, (c + 2) % 3
        return m[r1][c1] * m[r2][c2] - m[r1][c2] * m[r2][c1]

    determinant = sum(m[0][c] * cofactor(0, c) for c in range(3))
    if abs(determinant) != 1:
        raise ValueError(f"determinant {determinant}, not +1 or -1: the matrix is not unimodular")
    return np.array([[determinant * cofactor(c, r) for c in range(3)] for r in range(3)], dtype=np.int64)


def lattice_transform(x: NDArray[np.int32], matrix: NDArray[np.int64]) -> NDArray[np.int32]:
    """Lattice positions in the box ``matrix @ box`` of positions given in ``box``, exact modulo 2^32.

    Parameters
    ----------
    x : (n, 3) int32, lattice units of ``box``
    matrix : (3, 3) int64, unimodular
        From `reduce_box`; pass its `unimodular_inverse` for the way back.

    Returns
    -------
    (n, 3) int32, lattice units of ``matrix @ box``
        ``x @ inverse(matrix)`` modulo 2^32, so the way there and back returns the same integers.
    """
    inverse = unimodular_inverse(matrix).astype(np.uint32)  # modulo 2^32
    u = np.ascontiguousarray(x).view(np.uint32)
    return np.ascontiguousarray((u @ inverse).astype(np.uint32).view(np.int32))
