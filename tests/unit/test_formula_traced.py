"""Traced vectors compute what NumPy computes, in IEEE float32 if reproducible."""

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic

from pulsemd.kernels.nonbonded.formula import (
    ewald,
    lennard_jones,
    lennard_jones_force_switch,
    lennard_jones_potential_switch,
    reaction_field,
    rsqrt,
    where,
)
from pulsemd.kernels.nonbonded.trace.memory import array_pointer, index, load_vector, store_vector
from pulsemd.kernels.nonbonded.trace.vector import FAST, REPRODUCIBLE, Vector, group

LANES = 8


def compiled(formula, numerics):
    """``formula(a, b)`` of traced vectors as a function of two float32 arrays of eight."""

    @intrinsic
    def apply(typing_context, a, b, result):
        def emit(context, builder, signature, arguments):
            pointers = [array_pointer(context, builder, signature.args[k], arguments[k]) for k in range(3)]
            a, b = (
                Vector(builder, [load_vector(builder, p, index(0), LANES)], numerics) for p in pointers[:2]
            )
            store_vector(builder, formula(a, b).values[0], pointers[2], index(0))
            return context.get_dummy_value()

        return types.void(a, b, result), emit

    @njit
    def run(a, b, result):
        apply(a, b, result)

    def call(a, b):
        result = np.empty(LANES, np.float32)
        run(a.astype(np.float32), b.astype(np.float32), result)
        return result

    return call


FORMULAS = {
    "arithmetic": lambda a, b: (2.0 - a) / b + a * 3.0 - (-b) / 4.0 + 1.0 / a + 1.0,
    "comparison": lambda a, b: where((a < b) & (b <= 1.3), a, 5.0) + where((a > 1.0) | (b >= 1.2), 2.0, b),
    "negation": lambda a, b: where(~(a < 0.8), a, b),
    "rsqrt": lambda a, b: rsqrt(a) * b,
    "lennard_jones energy": lambda a, b: lennard_jones(a, b, b, 0.3, 0.2)[0],
    "lennard_jones force": lambda a, b: lennard_jones(a, b, b, 0.3, 0.2)[1],
    "force-switch energy": lambda a, b: lennard_jones_force_switch(
        a, b, b, 0.3, 0.2, 0.9, 2.0, -3.0, 4.0, 5.0
    )[0],
    "force-switch force": lambda a, b: lennard_jones_force_switch(
        a, b, b, 0.3, 0.2, 0.9, 2.0, -3.0, 4.0, 5.0
    )[1],
    "potential-switch energy": lambda a, b: lennard_jones_potential_switch(a, b, b, 0.9, 3.0)[0],
    "potential-switch force": lambda a, b: lennard_jones_potential_switch(a, b, b, 0.9, 3.0)[1],
    "reaction_field energy": lambda a, b: reaction_field(a, b, 0.5, 1.5)[0],
    "reaction_field force": lambda a, b: reaction_field(a, b, 0.5, 1.5)[1],
    "ewald energy": lambda a, b: ewald(a, b, 1.0, 0.2, (1.4, 2.8, -3.9, 4.2))[0],
    "ewald force": lambda a, b: ewald(a, b, 1.0, 0.2, (1.4, 2.8, -3.9, 4.2))[1],
}
A, B = np.linspace(0.6, 1.4, LANES).astype(np.float32), np.linspace(1.5, 0.7, LANES).astype(np.float32)


@pytest.mark.parametrize("name", FORMULAS)
def test_traced_formula_without_fast_flags_has_the_bits_of_numpy_float32(name):
    function = FORMULAS[name]
    expected = function(A, B)
    np.testing.assert_array_equal(compiled(function, REPRODUCIBLE)(A, B), expected.astype(np.float32))


@pytest.mark.parametrize("name", ["lennard_jones energy", "lennard_jones force", "reaction_field force"])
def test_traced_formula_with_fast_flags_agrees_with_float64(name):
    expected = FORMULAS[name](A.astype(np.float64), B.astype(np.float64))
    np.testing.assert_allclose(compiled(FORMULAS[name], FAST)(A, B), expected, rtol=3e-6, atol=3e-6)


def test_group_of_vectors_applies_each_operation_to_every_member():
    def formula(a, b):
        both = group([a, b]) * b + 1.0
        return both.member(0) - both.member(1)

    np.testing.assert_array_equal(compiled(formula, REPRODUCIBLE)(A, B), (A * B + 1) - (B * B + 1))


def test_multiply_add_is_within_one_rounding():
    result = compiled(lambda a, b: a.multiply_add(b, b), FAST)(A, B)
    np.testing.assert_allclose(result, A.astype(float) * B + B, rtol=1e-6)
