"""Real-space part of Ewald sums: the splitting parameter, the correction as a polynomial, and exactly for few pairs.

The charges' Gaussian clouds of inverse width beta take erf(beta r)/r out of the pair energy qq/r; reciprocal space
gives it back (see `pulsemd.kernels.pme`). With z = beta r the correction of force over r is beta^3 g(z^2),

    g(z^2) = (erf(z)/z - 2/sqrt(pi) exp(-z^2)) / z^2,      d(erf(z)/z) / d(z^2) = -g/2.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numba import njit
from numpy.polynomial import chebyshev

FIT_ERROR = 5e-7
"""Largest error of the polynomial for g, which is 0.75 at 0; float32 rounds it to 2e-7 when it evaluates it."""

LARGEST_DEGREE = 24
_SERIES = 0.5  # below this z^2 the closed form loses digits to cancellation


def ewald_coefficient(cutoff: float, tolerance: float) -> float:
    """beta [1/nm] at which the pair potential has fallen to ``tolerance`` of qq/r at the cut-off.

    erfc(beta r_c) = tolerance, by bisection, as gmx chooses it from ``ewald-rtol``.
    """
    low, high = 0.0, 1.0
    while math.erfc(high) > tolerance:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if math.erfc(middle) > tolerance else (low, middle)
    return high / cutoff


@cache
def ewald_polynomial(z_cutoff: float) -> tuple[float, ...]:
    """Coefficients for `formula.ewald`, of rising powers of s = 2 (r/r_c)^2 - 1; float32 numbers.

    The first is that of the energy at s = 0, r_c erf(beta r)/r there; the others are the polynomial for the force,
    z_c^3 g. The energy's other coefficients follow by integration, so that the force is its derivative.

    Parameters
    ----------
    z_cutoff : float
        beta r_c.

    Raises
    ------
    ValueError
        If no polynomial of the largest degree is good enough.
    """
    half = 0.5 * z_cutoff**2
    s = np.linspace(-1.0, 1.0, 2001)
    for degree in range(4, LARGEST_DEGREE + 1):
        nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
        values = np.array([correction(half * (node + 1.0))[1] for node in nodes])
        fit = chebyshev.cheb2poly(chebyshev.chebfit(nodes, values, degree))
        exact = np.array([correction(half * (x + 1.0))[1] for x in s])
        if np.abs(np.polynomial.polynomial.polyval(s, fit) - exact).max() <= FIT_ERROR:
            middle = z_cutoff * correction(half)[0]
            return tuple(float(np.float32(c)) for c in (middle, *(z_cutoff**3 * fit)))
    raise ValueError(f"no polynomial of degree {LARGEST_DEGREE} for erf up to z = {z_cutoff:g}")


@njit(cache=True, nogil=True)
def correction(z2):
    """erf(z)/z and g(z^2) in float64, at z = 0 too."""
    if z2 < _SERIES:
        energy, force, term = 0.0, 0.0, 2.0 / math.sqrt(math.pi)
        for k in range(16):  # term: (-1)^k z^2k / k! times the factor in front
            energy += term / (2 * k + 1)
            force += 2.0 * term / (2 * k + 3)
            term *= -z2 / (k + 1)
        return energy, force
    z = math.sqrt(z2)
    energy = math.erf(z) / z
    return energy, (energy - 2.0 / math.sqrt(math.pi) * math.exp(-z2)) / z2
