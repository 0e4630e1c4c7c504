"""SETTLE: the analytical solution of the three distance constraints of a rigid water.

References
----------
S. Miyamoto, P. A. Kollman, J. Comput. Chem. 13, 952 (1992), equations (A1)-(A19).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


def settle_geometry(mass_o: float, mass_h: float, d_oh: float, d_hh: float) -> np.ndarray:
    """Constants of one water model.

    Parameters
    ----------
    mass_o, mass_h : float, amu
    d_oh, d_hh : float, nm

    Returns
    -------
    (7,) float64
        mass_o, mass_h, r_a, r_b, r_c (Miyamoto & Kollman's lengths, nm), and the mass fractions of O and H.

    Raises
    ------
    ValueError
        If the lengths form no triangle or a mass is not positive.
    """
    if not (mass_o > 0 and mass_h > 0):
        raise ValueError(f"a rigid water needs positive masses, got O {mass_o:g} and H {mass_h:g} amu")
    if not 0 < d_hh < 2 * d_oh:
        raise ValueError(f"O-H {d_oh:g} nm and H-H {d_hh:g} nm form no triangle")
    total = mass_o + 2 * mass_h
    r_c = d_hh / 2
    height = math.sqrt(d_oh**2 - r_c**2)
    r_a = 2 * mass_h * height / total
    return np.array([mass_o, mass_h, r_a, height - r_a, r_c, mass_o / total, mass_h / total])


@njit(inline="always", error_model="numpy")
def settle_positions(
    r_a, r_b, r_c, w_h,
    b0x, b0y, b0z, c0x, c0y, c0z,
    ax, ay, az, bx, by, bz, cx, cy, cz,
):  # fmt: skip
    """Constrained positions of O, H, H; all vectors relative to the old position of O, in nm.

    b0, c0 are the old (constrained) hydrogens, a, b, c the new unconstrained positions. Plain IEEE operations
    only, so that a vector loop and its remainder give the same bits.
    """
    dbx, dby, dbz = bx - ax, by - ay, bz - az
    dcx, dcy, dcz = cx - ax, cy - ay, cz - az
    # centre of mass of the unconstrained triangle, and its corners relative to it
    gx, gy, gz = w_h * (dbx + dcx), w_h * (dby + dcy), w_h * (dbz + dcz)
    a1x, a1y, a1z = -gx, -gy, -gz
    b1x, b1y, b1z = dbx - gx, dby - gy, dbz - gz
    c1x, c1y, c1z = dcx - gx, dcy - gy, dcz - gz
    # axes: z normal to the old plane, x normal to z and to the new O, y completes them
    zx, zy, zz = b0y * c0z - b0z * c0y, b0z * c0x - b0x * c0z, b0x * c0y - b0y * c0x
    xx, xy, xz = a1y * zz - a1z * zy, a1z * zx - a1x * zz, a1x * zy - a1y * zx
    yx, yy, yz = zy * xz - zz * xy, zz * xx - zx * xz, zx * xy - zy * xx
    sx = 1.0 / np.sqrt(xx * xx + xy * xy + xz * xz)
    sy = 1.0 / np.sqrt(yx * yx + yy * yy + yz * yz)
    sz = 1.0 / np.sqrt(zx * zx + zy * zy + zz * zz)
    xx, xy, xz = xx * sx, xy * sx, xz * sx
    yx, yy, yz = yx * sy, yy * sy, yz * sy
    zx, zy, zz = zx * sz, zy * sz, zz * sz
    # old hydrogens in the plane, new corners along the axes
    b0u, b0v = xx * b0x + xy * b0y + xz * b0z, yx * b0x + yy * b0y + yz * b0z
    c0u, c0v = xx * c0x + xy * c0y + xz * c0z, yx * c0x + yy * c0y + yz * c0z
    a1w = zx * a1x + zy * a1y + zz * a1z
    b1u, b1v = xx * b1x + xy * b1y + xz * b1z, yx * b1x + yy * b1y + yz * b1z
    b1w = zx * b1x + zy * b1y + zz * b1z
    c1u, c1v = xx * c1x + xy * c1y + xz * c1z, yx * c1x + yy * c1y + yz * c1z
    c1w = zx * c1x + zy * c1y + zz * c1z
    # the two tilts (A8-A10)
    sin_phi = a1w / r_a
    cos_phi = np.sqrt(1.0 - sin_phi * sin_phi)
    sin_psi = (b1w - c1w) / (2.0 * r_c * cos_phi)
    cos_psi = np.sqrt(1.0 - sin_psi * sin_psi)
    a2v = r_a * cos_phi
    b2u = -r_c * cos_psi
    lift, twist = -r_b * cos_phi, r_c * sin_psi * sin_phi
    b2v, c2v = lift - twist, lift + twist
    # the in-plane rotation (A15-A17)
    alpha = b2u * (b0u - c0u) + b0v * b2v + c0v * c2v
    beta = b2u * (c0v - b0v) + b0u * b2v + c0u * c2v
    gamma = b0u * b1v - b1u * b0v + c0u * c1v - c1u * c0v
    square = alpha * alpha + beta * beta
    sin_theta = (alpha * gamma - beta * np.sqrt(square - gamma * gamma)) / square
    cos_theta = np.sqrt(1.0 - sin_theta * sin_theta)
    a3u, a3v = -a2v * sin_theta, a2v * cos_theta
    b3u, b3v = b2u * cos_theta - b2v * sin_theta, b2u * sin_theta + b2v * cos_theta
    c3u, c3v = -b2u * cos_theta - c2v * sin_theta, -b2u * sin_theta + c2v * cos_theta
    ox, oy, oz = ax + gx, ay + gy, az + gz
    return (
        ox + xx * a3u + yx * a3v + zx * a1w, oy + xy * a3u + yy * a3v + zy * a1w, oz + xz * a3u + yz * a3v + zz * a1w,
        ox + xx * b3u + yx * b3v + zx * b1w, oy + xy * b3u + yy * b3v + zy * b1w, oz + xz * b3u + yz * b3v + zz * b1w,
        ox + xx * c3u + yx * c3v + zx * c1w, oy + xy * c3u + yy * c3v + zy * c1w, oz + xz * c3u + yz * c3v + zz * c1w,
    )  # fmt: skip
