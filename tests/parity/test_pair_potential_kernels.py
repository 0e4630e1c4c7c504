"""Kernels of a user's pair potential against float64 brute force."""

import numpy as np
import pytest

from nonbonded_reference import BOXES, brute_force, compute, lj_table, make_system, relative, settings
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
COMBINATIONS = {"my_lj": "lorentz-berthelot", "buckingham": "table", "soft": "types", "everywhere": "table"}


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "fast") for name in POTENTIALS), ("buckingham", "reproducible"), ("soft", "reproducible")],
)
def test_user_potential_matches_float64(name, precision):
    system, table = make_system(BOXES["triclinic"], seed=11), lj_table("lorentz-berthelot")
    potential = POTENTIALS[name]
    assert potential.resolve(table).combination == COMBINATIONS[name]
    reference = brute_force(system, settings(), table, 0.9, potential)
    result = compute(system, settings(), table, precision, 0.9, potential=potential)
    assert relative(result.forces, reference.forces) < 3e-6
    assert (abs(result.energies[:2] - reference.energies[:2]) < 5e-7 * reference.size + 1e-5).all()
    assert relative(result.energies[2:], reference.energies[2:]) < 1e-5
    assert result.pairs == reference.pairs_within


def test_forces_without_energies_are_those_with():
    system, table = make_system(BOXES["orthorhombic"], 0.6, seed=12), lj_table("table")
    potential = POTENTIALS["everywhere"]  # acts on empty places too, unless they are masked
    reference = brute_force(system, settings(), table, 0.9, potential)
    result = compute(system, settings(), table, "fast", 0.9, with_energies=False, potential=potential)
    assert relative(result.forces, reference.forces) < 3e-6
