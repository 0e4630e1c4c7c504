"""Kernels of a user's pair potential against float64 brute force."""

import pytest

from nonbonded_reference import BOXES, brute_force, compute, lj_table, make_system, relative, settings
from pair_potentials import POTENTIALS

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
