"""The CUDA text of the pair formulas computes what the formulas compute, evaluated here as Python."""

import re

import numpy as np
import pytest

from pulsemd.kernels.nonbonded.cuda_formula import pair_header, trace_pair
from pulsemd.kernels.nonbonded.formula import (
    COMBINATIONS,
    LENNARD_JONES,
    electrostatics,
    exp,
    rsqrt,
    sqrt,
    where,
)
from pulsemd.kernels.nonbonded.trace.cuda import ATOM_I, ATOM_J, PAIR, UNIFORM, Trace, emit

RULES = ("geometric", "lorentz-berthelot", "table")
FORMULAS = (
    ((), "shift"),
    ((1.4, 2.8, -3.9, 4.2, -3.5), "shift"),
    ((), "force-switch"),
    ((), "potential-switch"),
)
"""Polynomial of Ewald's sum, and how Lennard-Jones ends."""
OF_SWITCH = {"r_switch": 0.7, "inverse_width": 2.5, "a6": 0.3, "b6": -0.2, "a12": 0.4, "b12": 0.6}
CONSTANTS = {"coulomb_a": 0.47, "coulomb_b": 1.6, "shift6": 1.1, "shift12": 1.3} | OF_SWITCH
R2 = np.linspace(0.08, 1.2, 41)
ATOMS = {"i": (0.8, 0.31, 0.7), "j": (-0.4, 0.27, 0.9)}


class Constants:
    """``k`` of the device functions."""

    def __init__(self, kind):
        for name, value in CONSTANTS.items():
            setattr(self, name, kind(value))


def run(statements, expressions, names, kind):
    """Evaluate statements of the text; ``const float t0 = 12.0f * x;`` is Python but for its ends."""
    scope = dict(names) | {
        "reciprocal_sqrt": lambda x: kind(1) / np.sqrt(x),
        "select": np.where,
        "square_root": np.sqrt,
        "exponential": np.exp,
        "negated": np.logical_not,
        "fused": lambda a, b, c: kind(np.float64(a) * np.float64(b) + np.float64(c)),
        "kind": kind,
    }
    for line in statements:
        name, _, value = line.removeprefix("const ").split(" ", 1)[1].rstrip(";").partition(" = ")
        scope[name] = eval(in_python(value), scope)
    return [eval(in_python(expression), scope) for expression in expressions]


def in_python(expression):
    """Numbers of the text as numbers of the chosen kind."""
    return re.sub(r"(?<![\w.])(\d[\w.]*(?:e[+-]\d+)?)f\b", r"kind(\1)", expression)


def evaluate(text, kind, c6=0.0, c12=0.0):
    """Results of a `DeviceText` for the two atoms over all distances."""
    kept = {}
    for side, values in (("i", text.i_values), ("j", text.j_values)):
        charge, first, second = (kind(value) for value in ATOMS[side])
        names = {"charge": charge, "first": first, "second": second, "k": Constants(kind)}
        kept[side] = [run(statements, [expression], names, kind)[0] for statements, expression in values]
    names = {"r2": R2.astype(kind), "k": Constants(kind), "c6": kind(c6), "c12": kind(c12), **kept}
    return run(text.pair, text.results, names, kind)


def expected(rule, c6, c12, formula, kind=np.float64):
    charge = [kind(ATOMS[side][0]) for side in "ij"]
    k = Constants(kind)
    if rule != "table":
        c6, c12 = COMBINATIONS[rule](*(kind(v) for side in "ij" for v in ATOMS[side][1:]))
    r2 = R2.astype(kind)
    polynomial, ending = formula
    coulomb, force = electrostatics(r2, charge[0] * charge[1], k.coulomb_a, k.coulomb_b, polynomial)
    function, names = LENNARD_JONES[ending]
    lj, force_lj = function(r2, kind(c6), kind(c12), *(getattr(k, name) for name in names))
    return force + force_lj, lj, coulomb


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_cuda_text_in_float64_matches_the_formula(rule, exact, formula):
    found = evaluate(trace_pair(rule, exact, True, *formula), np.float64, 2e-3, 3e-6)
    for result, value in zip(found, expected(rule, 2e-3, 3e-6, formula), strict=True):
        np.testing.assert_allclose(result, value, rtol=2e-6)  # the text's numbers are float32


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("rule", RULES)
def test_exact_mode_leaves_no_sum_of_a_product_to_the_compiler(rule, formula):
    text = trace_pair(rule, True, True, *formula)
    values = dict(line.removeprefix("const float ").rstrip(";").split(" = ") for line in text.pair)
    products = {name for name, value in values.items() if " * " in value and "fused" not in value}
    for value in values.values():
        if " + " in value or " - " in value:
            assert not products & set(value.replace("-", " ").split())


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("rule", RULES)
def test_exact_results_of_two_atoms_have_the_same_bits_either_way(rule, formula, monkeypatch):
    text = trace_pair(rule, True, True, *formula)
    rng = np.random.default_rng(1)
    for _ in range(20):
        atoms = [tuple(rng.uniform(0.1, 0.9, 3)) for _ in range(2)]
        results = []
        for order in (atoms, atoms[::-1]):
            monkeypatch.setitem(ATOMS, "i", order[0])
            monkeypatch.setitem(ATOMS, "j", order[1])
            results.append(evaluate(text, np.float32, 2e-3, 3e-6))
        for one, other in zip(*results, strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("rule", RULES)
def test_exact_force_is_the_same_text_with_and_without_energies(rule, formula):
    with_energies, without = (trace_pair(rule, True, e, *formula) for e in (True, False))
    assert evaluate(with_energies, np.float32, 2e-3, 3e-6)[0].tobytes() == (
        evaluate(without, np.float32, 2e-3, 3e-6)[0].tobytes()
    )


def test_numbers_and_factors_of_one_atom_are_multiplied_once_per_atom():
    text = trace_pair("geometric", False, energies=False)
    assert [expression for _, expression in text.j_values] == ["charge", "second", "first"]
    assert [statements for statements, _ in text.i_values] == [
        (),
        ("const float t0 = 12.0f * second;",),
        ("const float t0 = 6.0f * first;",),
    ]
    assert not any("12.0f" in line or "6.0f" in line for line in text.pair)


@pytest.mark.parametrize("reassociate", [False, True])
def test_every_operation_of_a_users_formula_is_traced(reassociate):
    def formula(r2, a, b):
        inverse = rsqrt(r2)
        near = where((r2 < 0.5) & (a > 0.1), a * inverse, 1.0 - b / r2)
        near = near + where((r2 <= 0.2) | ~(r2 < 1.0), -near, 2.0 * near) - 3.0 / (r2 + 1.0)
        return near + exp(-a * r2) * sqrt(r2) + abs(b - r2) * r2**-1.5 + r2**3 + a**0

    trace = Trace(reassociate)
    leaves = [trace.leaf(*spec) for spec in (("r2", PAIR), ("charge", ATOM_I), ("first", ATOM_J))]
    text = emit([formula(*leaves)])
    found = evaluate(text, np.float64)[0]
    np.testing.assert_allclose(found, formula(R2, ATOMS["i"][0], ATOMS["j"][1]), rtol=1e-12)


def test_equal_expressions_are_one_statement():
    trace = Trace(False)
    r2, k = trace.leaf("r2", PAIR), trace.leaf("k.k_rf", UNIFORM)
    text = emit([(r2 * k) + (r2 * k)])
    assert text.pair == ("const float t0 = r2 * k.k_rf;", "const float t1 = t0 + t0;")


@pytest.mark.parametrize("rule", RULES)
def test_header_keeps_as_many_values_as_it_declares(rule):
    header, text = pair_header(rule, True, True), trace_pair(rule, True, True)
    assert f"I_VALUES = {len(text.i_values)};" in header
    assert f"J_VALUES = {len(text.j_values)};" in header
    assert header.count(" kept[") == len(text.i_values) + len(text.j_values)
