"""Pair potentials in Python: capture, parameters, checks, tracing."""

import math
import pickle

import numpy as np
import pytest

from pair_potentials import my_lj, soft
from pulsemd.base.errors import InputError
from pulsemd.forcefield.nonbonded import build_table
from pulsemd.kernels.nonbonded.formula import exp, lennard_jones
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.shapes import principal_shapes

TABLE = build_table(("A", "B"), 2, [0.3, 0.34], [0.65, 1.2], {})
ONE_SIGMA = build_table(("A", "B"), 2, [0.3, 0.3], [0.65, 0.0], {})
STEEPNESS = 25.0
R = np.linspace(0.3, 0.9, 7)


def helper(r):
    # a comment that is not kept
    return exp(-STEEPNESS * r)


def buckingham(r2, a, c):
    """Buckingham without a bound."""
    r = r2**0.5
    repulsion = a * helper(r)
    return repulsion - c * r**-6, STEEPNESS * repulsion / r - 6.0 * c * r**-8


def energies(table, i, j, r):
    """Of one pair of types."""
    return table.energies(np.array([i]), np.array([j]), r)[0]


def test_own_lennard_jones_agrees_with_the_built_in_one():
    table = PairPotential(my_lj).resolve(TABLE)
    expected = lennard_jones(R * R, TABLE.c6[0, 1], TABLE.c12[0, 1], 0.0, 0.0)[0]
    np.testing.assert_allclose(energies(table, 0, 1, R), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "parameters", "force_field", "combination"),
    [
        (my_lj, None, TABLE, "lorentz-berthelot"),
        (my_lj, None, ONE_SIGMA, "geometric"),
        (my_lj, {"c6": 0.001, "c12": 1e-6}, TABLE, "geometric"),
        (my_lj, {"c6": np.array([[1, 2], [2, 3]]) * 1e-3, "c12": 1e-6}, TABLE, "table"),
        (soft, {"radius": {"A": 0.5, "B": 0.6}}, TABLE, "types"),
    ],
)
def test_parameters_reach_the_kernel_by_the_cheapest_way(function, parameters, force_field, combination):
    assert PairPotential(function, parameters).resolve(force_field).combination == combination


def charged(r2, qq, sigma):
    r = r2**0.5
    x = 0.3 + (r / sigma) ** 6
    return qq * exp(-r) / r + 10.0 / (x * x), qq * exp(-r) * (1.0 + r) / (r * r2) + 120.0 * (x - 0.3) / (
        x**3 * r2
    )


@pytest.mark.parametrize("n", [3, 40])
def test_energies_of_many_types_are_sums_over_few_shapes_but_for_constants(n):
    charge, size = np.linspace(-0.5, 0.4, n), np.linspace(0.25, 0.4, n)
    many = build_table([f"T{k}" for k in range(n)], 2, size, np.ones(n), {})
    parameters = {"qq": 100.0 * np.outer(charge, charge), "sigma": 0.5 * np.add.outer(size, size)}
    potential = PairPotential(charged, parameters).resolve(many)
    of_types, shapes = principal_shapes(potential, 1.0)
    assert len(of_types) < 20
    i, j = np.divmod(np.arange(n * n), n)
    expected = potential.energies(i, j, R) - potential.energies(i, j, np.ones(1))
    found = np.einsum("sk,sp->kp", of_types[:, i, j], shapes(R) - shapes(np.ones(1)))
    assert np.abs(found - expected).max() < 2e-3 * np.abs(expected).max()


def test_pairs_of_types_are_symmetric_whatever_their_order():
    values = {("A", "A"): 1e5, ("B", "A"): 2e5, ("B", "B"): 3e5}
    table = PairPotential(buckingham, {"a": values, "c": 0.002}).resolve(TABLE)
    np.testing.assert_array_equal(table.values[0], [[1e5, 2e5], [2e5, 3e5]])


def test_potential_survives_pickling_with_its_helpers_and_numbers():
    potential = PairPotential(buckingham, {"a": 1e5, "c": 0.002})
    copy = pickle.loads(pickle.dumps(potential))
    assert copy.formula == potential.formula
    r = math.sqrt(0.16)
    expected = 1e5 * math.exp(-STEEPNESS * r) - 0.002 * r**-6
    assert energies(copy.resolve(TABLE), 0, 0, np.array([r]))[0] == pytest.approx(expected, rel=1e-12)


def test_text_does_not_depend_on_comments():
    assert "comment" not in PairPotential(buckingham, {"a": 1.0, "c": 1.0}).formula.source


def test_types_without_parameters_do_not_interact():
    resolved = PairPotential(my_lj).resolve(ONE_SIGMA)
    assert resolved.interacting(1.0).tolist() == [True, False]


def test_potential_that_acts_at_zero_parameters_interacts_everywhere():
    def spring(r2, k):
        return (k + 1.0) * r2, -2.0 * (k + 1.0)

    assert PairPotential(spring, {"k": 0.0}).resolve(TABLE).interacting(1.0).tolist() == [True, True]


@pytest.mark.parametrize("function", [my_lj, buckingham, soft])
def test_right_potentials_pass_the_check(function):
    parameters = {my_lj: None, buckingham: {"a": 1e5, "c": 0.002}, soft: {"radius": {"A": 0.5, "B": 0.6}}}
    PairPotential(function, parameters[function]).resolve(TABLE).check(TABLE.type_names, 1.0, True)


def test_force_that_is_no_derivative_is_refused_with_distance_and_types():
    def wrong(r2, c6, c12):
        energy, force = lennard_jones(r2, c6, c12, 0.0, 0.0)
        return energy, 1.01 * force

    resolved = PairPotential(wrong).resolve(TABLE)
    with pytest.raises(InputError, match=r"wrong: at r = 0\.\d+ nm, types A and A.*the force divided by r"):
        resolved.check(TABLE.type_names, 1.0, False)


def test_asymmetric_potential_is_refused():
    def lopsided(r2, w_i, w_j):
        return (w_i + 2.0 * w_j) * r2, -2.0 * (w_i + 2.0 * w_j)

    resolved = PairPotential(lopsided, {"w": {"A": 1.0, "B": 2.0}}).resolve(TABLE)
    with pytest.raises(InputError, match="differs when types A and B are swapped"):
        resolved.check(TABLE.type_names, 1.0, False)


def test_rounding_that_depends_on_the_order_is_refused_in_reproducible_mode():
    def rounded(r2, w_i, w_j):
        w = (w_i * 1.7) * w_j
        return w * r2, -2.0 * w

    resolved = PairPotential(rounded, {"w": {"A": 0.7, "B": 0.37}}).resolve(TABLE)
    resolved.check(TABLE.type_names, 1.0, False)
    with pytest.raises(InputError, match="to the last bit"):
        resolved.check(TABLE.type_names, 1.0, True)


def test_values_that_are_not_finite_are_refused():
    def divides(r2, c6):
        return 1.0 / (c6 - c6 + 0.0 * r2), r2

    with pytest.raises(InputError, match="not finite at r"):
        PairPotential(divides).resolve(TABLE).check(TABLE.type_names, 1.0, False)


def test_condition_as_truth_value_is_refused_with_the_remedy():
    def branches(r2, c6, c12):
        if r2 < 0.1:
            return r2, -2.0
        return my_lj(r2, c6, c12)

    with pytest.raises(InputError, match=r"branches, in `if r2 < 0.1:`.*where\(condition, a, b\)"):
        PairPotential(branches)


def test_functions_of_math_are_refused_with_the_remedy():
    def scalar(r2, c6):
        return c6 * math.sqrt(r2), -c6

    with pytest.raises(InputError, match=r"scalar.*use sqrt, rsqrt, exp"):
        PairPotential(scalar)


def test_unknown_operation_is_named():
    def logarithm(r2, c6):
        return c6 * np.log(r2), -2.0 * c6 / r2

    with pytest.raises(InputError, match=r"logarithm.*log"):
        PairPotential(logarithm)


def test_objects_from_outside_are_refused():
    lookup = [1.0, 2.0]

    def outside(r2, c6):
        return c6 * lookup[0] * r2, -2.0 * c6

    with pytest.raises(InputError, match="outside uses 'lookup', a list"):
        PairPotential(outside)


def test_lambda_is_refused():
    with pytest.raises(InputError, match="write it as a function"):
        PairPotential(lambda r2: (r2, -2.0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"c": 1.0}, "'a' is missing"),
        ({"a": {("A", "A"): 1.0}, "c": 1.0}, "nothing for A-B, B-B"),
        ({"a": {("A", "C"): 1.0}, "c": 1.0}, "nothing for A-A"),
        ({"a": np.zeros((3, 3)), "c": 1.0}, r"shape \(2, 2\)"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(InputError, match=message):
        PairPotential(buckingham, parameters).resolve(TABLE)


def test_parameter_the_function_does_not_have_is_refused():
    with pytest.raises(InputError, match="no parameter 'sigma'; it has a, c"):
        PairPotential(buckingham, {"sigma": 1.0})
