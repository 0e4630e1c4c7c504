"""Pair potentials: published values, derivatives, and their constants."""

import math

import numpy as np
import pytest

import nonbonded_reference
from pulsemd.base.errors import InputError
from pulsemd.kernels.nonbonded.ewald import correction, ewald_coefficient, ewald_polynomial
from pulsemd.kernels.nonbonded.formula import (
    LENNARD_JONES,
    combine_geometric,
    combine_lorentz_berthelot,
    coulomb,
    ewald,
    lennard_jones,
    reaction_field,
)
from pulsemd.kernels.nonbonded.settings import pair_constants, reaction_field_constants
from pulsemd.kernels.nonbonded.spec import MINIMUM_DISTANCE2

DISTANCES = np.linspace(0.25, 1.2, 40)
ARGON = 0.997, 0.3405  # epsilon [kJ/mol], sigma [nm]; Rahman, Phys. Rev. 136, A405 (1964): 120 K, 3.405 A


def c6_c12(epsilon, sigma):
    return 4.0 * epsilon * sigma**6, 4.0 * epsilon * sigma**12


def switched(modifier, r2, switch=0.6, cutoff=1.0):
    constants = pair_constants(
        settings(vdw_modifier=modifier, rvdw_switch=switch, rcoulomb=cutoff, rvdw=cutoff)
    )
    return constants.lennard_jones(np.sqrt(r2), *c6_c12(*ARGON))


SWITCHES = ("force-switch", "potential-switch")

FORMULAS = {
    "force-switch": lambda r2: switched("force-switch", r2),
    "potential-switch": lambda r2: switched("potential-switch", r2),
    "lennard_jones": lambda r2: lennard_jones(r2, *c6_c12(*ARGON), 0.7, 0.5),
    "reaction_field": lambda r2: reaction_field(r2, -97.0, 0.5, 1.5),
    "coulomb": lambda r2: coulomb(r2, 138.9),
    "ewald": lambda r2: ewald(r2, 138.9, 0.8, 1e-5, ewald_polynomial(3.1234)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_pair_force_is_minus_the_gradient_of_the_energy(name):
    formula, h = FORMULAS[name], 1e-5
    numerical = -(formula((DISTANCES + h) ** 2)[0] - formula((DISTANCES - h) ** 2)[0]) / (2.0 * h)
    _, force_over_r = formula(DISTANCES**2)
    np.testing.assert_allclose(force_over_r * DISTANCES, numerical, rtol=1e-6, atol=1e-6)


def test_lennard_jones_of_argon_has_its_published_minimum():
    epsilon, sigma = ARGON
    minimum = 2.0 ** (1.0 / 6.0) * sigma
    energy, force_over_r = lennard_jones(minimum**2, *c6_c12(epsilon, sigma), 0.0, 0.0)
    np.testing.assert_allclose(energy, -epsilon)
    assert abs(force_over_r) < 1e-12
    assert abs(lennard_jones(sigma**2, *c6_c12(epsilon, sigma), 0.0, 0.0)[0]) < 1e-12


def test_lennard_jones_with_shift_is_zero_at_the_cutoff():
    assert abs(lennard_jones(0.81, *c6_c12(*ARGON), 0.9**-6, 0.9**-12)[0]) < 1e-15


@pytest.mark.parametrize("modifier", SWITCHES)
@pytest.mark.parametrize("switch", [0.0, 0.7])
def test_switched_lennard_jones_and_its_force_are_zero_at_the_cutoff(modifier, switch):
    energy, force_over_r = switched(modifier, np.array([1.0 - 1e-12]), switch)
    assert abs(energy[0]) < 1e-10
    assert abs(force_over_r[0]) < 1e-10


@pytest.mark.parametrize("modifier", SWITCHES)
def test_switched_lennard_jones_keeps_the_force_before_the_switch(modifier):
    r2 = np.linspace(0.3, 0.7, 9) ** 2
    plain = lennard_jones(r2, *c6_c12(*ARGON), 0.0, 0.0)
    energy, force_over_r = switched(modifier, r2, 0.7)
    np.testing.assert_allclose(force_over_r, plain[1], rtol=1e-12)
    assert np.ptp(energy - plain[0]) < 1e-12  # the same but for a constant


@pytest.mark.parametrize("modifier", SWITCHES)
def test_switched_lennard_jones_of_two_atoms_on_one_spot_without_interaction_is_nothing(modifier):
    constants = pair_constants(settings(vdw_modifier=modifier, rvdw_switch=0.5))
    function, _ = LENNARD_JONES[modifier]
    arguments = [np.float32(value) for value in constants.lennard_jones_arguments]
    found = function(np.float32(MINIMUM_DISTANCE2), np.float32(0), np.float32(0), *arguments)
    assert found == (0.0, 0.0)


def test_coulomb_of_two_unit_charges_at_one_nanometre_is_the_electric_conversion_factor():
    constants = pair_constants(settings(coulombtype="cut-off"))
    np.testing.assert_allclose(coulomb(1.0, constants.coulomb_factor)[0], 138.935458, rtol=1e-9)


def test_reaction_field_of_infinite_dielectric_has_zero_energy_and_force_at_the_cutoff():
    k_rf, c_rf = reaction_field_constants(settings(rcoulomb=0.9))
    energy, force_over_r = reaction_field(0.81, 100.0, k_rf, c_rf)
    assert abs(energy) < 1e-12
    assert abs(force_over_r) < 1e-12


@pytest.mark.parametrize(("tolerance", "cutoff"), [(1e-5, 1.0), (5e-4, 0.9), (1e-6, 1.2), (1e-8, 0.8)])
def test_ewald_polynomial_is_as_near_to_erfc_as_stated(tolerance, cutoff):
    beta = ewald_coefficient(cutoff, tolerance)
    assert math.erfc(beta * cutoff) == pytest.approx(tolerance)
    r = np.linspace(0.02, cutoff, 500)
    energy, force_over_r = ewald(r * r, 1.0, 1.0 / cutoff, 0.0, ewald_polynomial(beta * cutoff))
    erfc = np.array([math.erfc(beta * d) for d in r])
    np.testing.assert_allclose(energy, erfc / r, rtol=1e-9, atol=1e-6 * beta)
    exact = (erfc / r + 2.0 * beta / np.sqrt(np.pi) * np.exp(-((beta * r) ** 2))) / r**2
    np.testing.assert_allclose(force_over_r, exact, rtol=1e-9, atol=8e-7 * beta**3)


def test_ewald_correction_is_smooth_where_its_series_ends():
    below, above = correction(0.5 - 1e-9), correction(0.5)
    np.testing.assert_allclose(below, above, rtol=2e-9)
    np.testing.assert_allclose(correction(0.0), (2.0 / math.sqrt(math.pi), 4.0 / (3.0 * math.sqrt(math.pi))))


def settings(**options):
    return nonbonded_reference.settings(**{"rcoulomb": 1.0, "rvdw": 1.0, "rvdw_switch": 0.0} | options)


@pytest.mark.parametrize(
    ("options", "k_rf", "c_rf"),
    [
        ({}, 0.5, 1.5),
        ({"coulomb_modifier": "none"}, 0.5, 1.5),
        ({"epsilon_rf": 1.0}, 0.0, 1.0),
        ({"epsilon_rf": 78.3, "epsilon_r": 2.0}, 76.3 / 158.6, 1.0 + 76.3 / 158.6),
        ({"coulombtype": "cut-off"}, 0.0, 1.0),
        ({"coulombtype": "cut-off", "coulomb_modifier": "none"}, 0.0, 0.0),
    ],
)
def test_reaction_field_constants_follow_gromacs(options, k_rf, c_rf):
    np.testing.assert_allclose(reaction_field_constants(settings(**options)), (k_rf, c_rf))


@pytest.mark.parametrize(
    "options",
    [
        {"rvdw": 0.9},
        {"coulombtype": "ewald"},
        {"vdw_modifier": "force-switch", "rvdw_switch": 1.0},
        {"coulomb_modifier": "force-switch"},
        {"rcoulomb": 0.0, "rvdw": 0.0},
    ],
)
def test_pair_constants_of_unsupported_options_are_refused(options):
    with pytest.raises(InputError):
        pair_constants(settings(**options))


def test_combination_rules_give_the_coefficients_of_the_combined_sigma_and_epsilon():
    (e1, s1), (e2, s2) = ARGON, (0.3, 0.25)
    one, two = c6_c12(e1, s1), c6_c12(e2, s2)
    geometric = combine_geometric(*np.sqrt(one), *np.sqrt(two))
    np.testing.assert_allclose(geometric, c6_c12(np.sqrt(e1 * e2), np.sqrt(s1 * s2)))
    mixed = combine_lorentz_berthelot(s1 / 2, 2 * np.sqrt(e1), s2 / 2, 2 * np.sqrt(e2))
    np.testing.assert_allclose(mixed, c6_c12(np.sqrt(e1 * e2), (s1 + s2) / 2))
