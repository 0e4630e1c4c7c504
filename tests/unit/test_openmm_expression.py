"""Expressions of custom forces: the language, sums of powers, and pair potentials with their derivatives."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from pulsemd.base.errors import InputError
from pulsemd.forcefield.nonbonded import build_table
from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.expression import parse
from pulsemd.io.openmm.formula import pair_potential, switched
from pulsemd.io.openmm.powers import NotPowers, Powers, evaluate

NAMES = {
    "r": Powers({1.0: np.ones(())}),
    "a": Powers({0.0: np.array(2.0)}),
    "b": Powers({0.0: np.array(3.0)}),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("8/4/2", 1),
        ("2-3-4", -5),
        ("2^3^2", 512),
        ("-2^2", -4),
        ("2^-1", 0.5),
        ("--3", 3),
        ("(1+2)*3", 9),
        ("1e3+2.5E-1+.5+1.", 1001.75),
        ("min(2, max(1, 3))", 2),
        ("select(step(-1), 5, 6)", 6),
        ("step(0)", 1),
        ("delta(0)+delta(1)", 1),
        ("square(3)+cube(2)+recip(4)", 17.25),
        ("sqrt(abs(-16))", 4),
        ("erf(0.5)+erfc(0.5)", 1),
        ("atan2(1, 1)*4", np.pi),
        ("x*y; x=y+1; y=a", 6),
        ("a*b ; ", 6),
    ],
)
def test_numbers_follow_the_rules_of_the_language(text, value):
    assert float(evaluate(parse(text), NAMES).constant) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1+", "something is missing at the end"),
        ("(1", r"'\)' is missing"),
        ("1 2", "'2' is not expected"),
        ("f(1)", "there is no function 'f'"),
        ("min(1)", "min has 2 arguments, not 1"),
        ("a; 1=b", "not of the form name=expression"),
        ("a # b", "'# b' cannot be read"),
        ("__import__('os')", "cannot be read"),
        ("1" + "+1" * 3000, "nested more than 100 deep"),
        ("(" * 300 + "1" + ")" * 300, "nested more than 100 deep"),
    ],
)
def test_text_outside_the_language_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


LENNARD_JONES = (
    "4*a*((b/r)^12-(b/r)^6)",
    "4*a*(s6^2-s6); s6=(b/r)^6",
    "4*a*(s6-1)*s6; s6=s2*s2*s2; s2=square(b/r)",
    "a12/r^12-a6*r^-6; a12=a6*b^6; a6=4*a*b^6",
    "(A/r6)^2-B/r6; A=sqrt(4*a)*b^6; B=4*a*b^6; r6=r^6",
    "4*a*b^6*recip(cube(r)^2)*(b^6/r^6-1)+0*r",
)


@pytest.mark.parametrize("text", LENNARD_JONES)
def test_lennard_jones_is_known_however_it_is_written(text):
    found = evaluate(parse(text), NAMES).without_zeros().coefficients
    assert found == {-12.0: pytest.approx(8 * 3.0**12), -6.0: pytest.approx(-8 * 3.0**6)}


@pytest.mark.parametrize(
    "text", ["exp(r)", "(1+r)^-1", "(1+r)^0.5", "1/(1+r)", "max(r, 1)", "2^r", "(1+r)^9"]
)
def test_what_is_no_sum_of_powers_is_told(text):
    with pytest.raises(NotPowers):
        evaluate(parse(text), NAMES)


def force(text):
    return Force(0, ElementTree.fromstring(f'<Force type="CustomNonbondedForce" energy="{text}"/>'), None)


POTENTIALS = (
    "a*exp(-b*r)-w/r^6",
    "w*sqrt(r+a)+abs(r-0.7)^3",
    "select(step(r-0.6), w*(r-0.6)^2, 0)",
    "min(r, 0.5)^4*w+max(1/r, 1.7)^2+cube(r)*square(r)*recip(r+1)",
    "w*r^2.5-log(w)/(1+r^3)+r^1",
    "-exp(-r)*-r",
    "(-a)*r",
)


@pytest.mark.parametrize("text", POTENTIALS)
@pytest.mark.parametrize("switch", [None, 0.8])
def test_pair_potential_has_the_value_of_its_expression_and_its_derivative(text, switch):
    w = np.array([[0.5, 0.7], [0.7, 0.2]])
    names = {**NAMES, "w": Powers({0.0: w})}
    potential = pair_potential(force(text), switched(parse(text), switch, 1.0), names, {}, 2)
    table = potential.resolve(build_table(["A", "B"], 2, [0.3, 0.3], [0.0, 0.0], {}))
    table.check(("A", "B"), 1.0, exact=False)
    r = np.linspace(0.3, 0.99, 50)
    x = np.clip((r - (switch or 1.0)) / (1.0 - (switch or 0.0)), 0.0, 1.0)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        expected = [plain(text, float(value), w[i, j]) for value in r] * (
            1 - 10 * x**3 + 15 * x**4 - 6 * x**5
        )
        np.testing.assert_allclose(
            table.energies(np.array([i]), np.array([j]), r)[0], expected, rtol=1e-12, atol=1e-12
        )


def plain(text, r, w):
    """Value by the evaluation of numbers."""
    values = {"r": r, "a": 2.0, "b": 3.0, "w": w}
    found = evaluate(parse(text), {name: Powers({0.0: np.array(v)}) for name, v in values.items()}).constant
    return float(found)


def test_function_of_the_distance_that_kernels_do_not_have_is_refused():
    with pytest.raises(
        InputError, match=r"force 0 \(CustomNonbondedForce\): its expression 'log\(r\)' has log\(\)"
    ):
        pair_potential(force("log(r)"), parse("log(r)"), NAMES, {}, 1)
