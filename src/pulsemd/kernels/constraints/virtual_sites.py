"""Virtual sites: their places from those of their parents, and their forces handed to the parents.

Sites and their parents live on one rank, so both act on owned rows only: sites are constructed after the move of the
parents, and their forces are spread when those of all ranks have arrived. Arguments common to all:

kind : (m,) int32, of `pulsemd.topology.virtual_sites.SiteKind`, which has the formulas
offset, rows, values : (m + 1,) int64, (k,) int32, (k,) float64
    The row of each site and of its parents, and their values; parents that are sites come before.
x : (n, 3) int32, lattice units; box : (3, 3) float64, nm

The force on a parent is the derivative of the site's place by the parent's, applied to the site's force F. Spreading
changes sum r (x) f by sum_k (x_k - x) (x) f_k, which is added to the virial.

References
----------
H. J. C. Berendsen, W. F. van Gunsteren, in Molecular Liquids, Reidel (1984); GROMACS reference manual 2022, "Virtual
interaction sites". The forces are derived here from the formulas of the places.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import add_virial, cross, difference, dot

LINEAR, FIXED_DISTANCE, FIXED_ANGLE, OUT_OF_PLANE, NORMAL = range(5)
_ZERO = (0.0, 0.0, 0.0)


@njit(nogil=True, error_model="numpy", cache=True)
def scaled(s, a):
    """s a."""
    return s * a[0], s * a[1], s * a[2]


@njit(nogil=True, error_model="numpy", cache=True)
def plus(a, b):
    """a + b."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@njit(nogil=True, error_model="numpy", cache=True)
def across(a, e):
    """The part of a across the unit vector e."""
    return plus(a, scaled(-dot(a, e), e))


@njit(nogil=True, error_model="numpy", cache=True)
def unit(a):
    """a/|a| and |a|."""
    length = math.sqrt(dot(a, a))
    return scaled(1.0 / length, a), length


@njit(nogil=True, error_model="numpy", cache=True)
def _weighted(x, box, rows, values, first, last):
    """sum_k values[k] (x_k - x_0) over the parents after the first; rows of the site and parents in first:last."""
    s = _ZERO
    for k in range(first + 2, last):
        s = plus(s, scaled(values[k], difference(x, rows[k], rows[first + 1], box)))
    return s


@njit(nogil=True, error_model="numpy", cache=True)
def _away(x, box, kind, rows, values, first, last):
    """x - x_0 of a site, nm."""
    if kind == LINEAR:
        return _weighted(x, box, rows, values, first, last)
    v0, v1 = values[first + 1], values[first + 2]
    if kind == FIXED_DISTANCE:
        return scaled(v0, unit(_weighted(x, box, rows, values, first, last))[0])
    r1 = difference(x, rows[first + 2], rows[first + 1], box)
    r2 = difference(x, rows[first + 3], rows[first + 1], box)
    v2 = values[first + 3]
    if kind == FIXED_ANGLE:
        e1 = unit(r1)[0]
        e2 = unit(across(plus(r2, scaled(-1.0, r1)), e1))[0]
        return plus(plus(scaled(v0, e1), scaled(v1, e2)), scaled(v2, cross(e1, e2)))
    if kind == OUT_OF_PLANE:
        return plus(plus(scaled(v1, r1), scaled(v2, r2)), scaled(v0, cross(r1, r2)))
    r3 = difference(x, rows[first + 4], rows[first + 1], box)
    minus = scaled(-1.0, r1)
    return scaled(v0, unit(cross(plus(scaled(v1, r2), minus), plus(scaled(v2, r3), minus)))[0])


@njit(nogil=True, error_model="numpy", cache=True)
def construct_sites(x, kind, offset, rows, values, box, inverse):
    """Put the sites where they belong.

    Parameters
    ----------
    x : OUTPUT, rows of sites
    inverse : (3, 3) float64, inverse box times 2^32, lattice units per nm
    """
    for s in range(kind.shape[0]):
        first = offset[s]
        away = _away(x, box, kind[s], rows, values, first, offset[s + 1])
        site, parent = rows[first], rows[first + 1]
        for d in range(3):
            moved = away[0] * inverse[0, d] + away[1] * inverse[1, d] + away[2] * inverse[2, d]
            x[site, d] = np.int32(x[parent, d] + np.int64(np.rint(moved)))


@njit(nogil=True, error_model="numpy", cache=True)
def _shares(x, box, kind, rows, values, first, f):
    """Forces on the second, third and fourth parent of a site of one of the last three kinds."""
    v0, v1, v2 = values[first + 1], values[first + 2], values[first + 3]
    r1 = difference(x, rows[first + 2], rows[first + 1], box)
    r2 = difference(x, rows[first + 3], rows[first + 1], box)
    minus = scaled(-1.0, r1)
    if kind == OUT_OF_PLANE:
        f1 = plus(scaled(v1, f), scaled(v0, cross(r2, f)))
        return f1, plus(scaled(v2, f), scaled(v0, cross(f, r1))), _ZERO
    if kind == FIXED_ANGLE:
        q = plus(r2, minus)
        e1, l1 = unit(r1)
        e2, l2 = unit(across(q, e1))
        on_e1, on_e2 = (
            plus(scaled(v0, f), scaled(v2, cross(e2, f))),
            plus(scaled(v1, f), scaled(v2, cross(f, e1))),
        )
        g = scaled(1.0 / l2, across(on_e2, e2))
        f2 = across(g, e1)
        h = plus(on_e1, plus(scaled(-dot(g, e1), q), scaled(-dot(q, e1), g)))
        return plus(scaled(1.0 / l1, across(h, e1)), scaled(-1.0, f2)), f2, _ZERO
    r3 = difference(x, rows[first + 4], rows[first + 1], box)
    a, b = plus(scaled(v1, r2), minus), plus(scaled(v2, r3), minus)
    n, length = unit(cross(a, b))
    t = scaled(v0 / length, across(f, n))
    fa, fb = cross(b, t), cross(t, a)
    return scaled(-1.0, plus(fa, fb)), scaled(v1, fa), scaled(v2, fb)


@njit(nogil=True, error_model="numpy", cache=True)
def spread_sites(x, f, f_scale, kind, offset, rows, values, box, virial, virial_scale):
    """Hand the forces of sites to their parents; the sites' own become zero.

    Parameters
    ----------
    f : (n, 3) float32 kJ/mol/nm, or int64 fixed point
        OUTPUT. In fixed point the first parent gets what the others leave: momentum is exact.
    f_scale : float, kJ/mol/nm per unit of f
    virial : (9,) float64 or int64, or empty
        OUTPUT, added to.
    virial_scale : float
        0 for a float virial, else units per kJ/mol.
    """
    for s in range(kind.shape[0] - 1, -1, -1):  # a site that is a parent hands on what it was given
        first, last = offset[s], offset[s + 1]
        site = rows[first]
        force = (f[site, 0] * f_scale, f[site, 1] * f_scale, f[site, 2] * f_scale)
        along, f2, f3 = _ZERO, _ZERO, _ZERO
        if kind[s] == FIXED_DISTANCE:
            e, length = unit(_weighted(x, box, rows, values, first, last))
            along = scaled(values[first + 1] / length, across(force, e))
        elif kind[s] != LINEAR:
            along, f2, f3 = _shares(x, box, kind[s], rows, values, first, force)
        left = force
        for k in range(first + 2, last):
            if kind[s] == LINEAR:
                share = scaled(values[k], force)
            elif kind[s] == FIXED_DISTANCE:
                share = scaled(values[k], along)
            else:
                share = along if k == first + 2 else (f2 if k == first + 3 else f3)
            left = plus(left, scaled(-1.0, share))
            _give(f, f_scale, site, rows[k], share)
            add_virial(virial, 0, difference(x, rows[k], site, box), share, virial_scale)
        for d in range(3):
            f[rows[first + 1], d] += f[site, d]
            f[site, d] = 0
        add_virial(virial, 0, difference(x, rows[first + 1], site, box), left, virial_scale)


@njit(nogil=True, error_model="numpy", cache=True)
def _give(f, f_scale, site, parent, share):
    """Move a share of a site's force to a parent."""
    for d in range(3):
        if f_scale != 1.0:
            n = np.int64(np.rint(share[d] / f_scale))
            f[parent, d] += n
            f[site, d] -= n
        else:
            f[parent, d] += share[d]
            f[site, d] -= share[d]
