"""Pair potentials in Python, of every way to give their parameters."""

import numpy as np

from pulsemd.kernels.nonbonded.formula import exp, where
from pulsemd.kernels.nonbonded.potential import PairPotential


def my_lj(r2, c6, c12):
    inverse6 = 1.0 / (r2 * r2 * r2)
    energy = (c12 * inverse6 - c6) * inverse6
    return energy, (12.0 * c12 * inverse6 - 6.0 * c6) * inverse6 / r2


def buckingham(r2, a, b, c):
    r = r2**0.5
    repulsion = a * exp(-b * r)
    return repulsion - c * r**-6, b * repulsion / r - 6.0 * c * r**-8


def soft(r2, radius_i, radius_j):
    d = (radius_i + radius_j) * 0.5
    r = np.sqrt(r2)
    x = where(r < d, d - r, 0.0)
    return 500.0 * x * x, 1000.0 * x / r


def everywhere(r2):
    return 3.0 * exp(-2.0 * r2), 12.0 * exp(-2.0 * r2)


PAIRS = {("big", "big"): 9e4, ("big", "small"): 6e4, ("small", "small"): 5e4}
PAIRS |= {(name, "bare"): 0.0 for name in ("big", "small", "bare")}
POTENTIALS = {
    "my_lj": PairPotential(my_lj),
    "buckingham": PairPotential(buckingham, {"a": PAIRS, "b": 30.0, "c": 0.002}),
    "soft": PairPotential(soft, {"radius": {"big": 0.5, "small": 0.4, "bare": 0.3}}),
    "everywhere": PairPotential(everywhere),
}
