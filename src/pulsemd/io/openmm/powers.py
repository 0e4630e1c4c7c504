"""Sums of powers of one variable: what expressions like ``4*eps*((sig/r)^12-(sig/r)^6)`` are.

An expression is evaluated with such sums in place of numbers. If that works out the coefficients are exact, and the
expression is known by its powers, whatever way it was written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.expression import Node

Float64 = NDArray[np.float64]
Table = Callable[..., Float64]

_ERF, _ERFC = (np.vectorize(function, otypes=[np.float64]) for function in (math.erf, math.erfc))
_CONSTANT: Mapping[str, Callable[..., Any]] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x), "cot": lambda x: 1 / np.tan(x),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "min": np.minimum, "max": np.maximum,
    "erf": _ERF, "erfc": _ERFC, "step": lambda x: np.where(x >= 0, 1.0, 0.0),
    "delta": lambda x: np.where(x == 0, 1.0, 0.0), "select": lambda c, a, b: np.where(c != 0, a, b),
}  # fmt: skip
"""Functions of what does not depend on the variable."""


class NotPowers(ValueError):
    """The expression is no sum of powers of the variable; the argument says which part."""


@dataclass(frozen=True, eq=False)
class Powers:
    """sum_n coefficients[n] x^n; coefficients are numbers or arrays that go together."""

    coefficients: Mapping[float, Float64]

    @property
    def constant(self) -> Float64 | None:
        """The value if x does not matter, else None."""
        if set(self.coefficients) <= {0.0}:
            return self.coefficients.get(0.0, np.zeros(()))
        return None

    def value(self, x: Float64) -> Float64:
        """The sum at values of the variable."""
        total: Float64 = np.zeros(())
        for n, c in self.coefficients.items():
            total = total + (c if n == 0.0 else c * x**n)
        return total

    def where(self, chosen: NDArray[np.bool_], other: Powers) -> Powers:
        """This sum where `chosen`, elsewhere the other."""
        zero = np.zeros(())
        powers = {**self.coefficients, **other.coefficients}
        return Powers(
            {
                n: np.where(chosen, self.coefficients.get(n, zero), other.coefficients.get(n, zero))
                for n in powers
            }
        )

    def without_zeros(self) -> Powers:
        """The same without powers whose coefficients all vanish."""
        return Powers({n: c for n, c in self.coefficients.items() if np.any(c != 0)})

    def plus(self, other: Powers, sign: float = 1.0) -> Powers:
        """The sum, or with sign -1 the difference."""
        total = dict(self.coefficients)
        for n, c in other.coefficients.items():
            total[n] = total[n] + sign * c if n in total else sign * c
        return Powers(total)

    def times(self, other: Powers) -> Powers:
        """The product."""
        total: dict[float, Float64] = {}
        for n, a in self.coefficients.items():
            for m, b in other.coefficients.items():
                total[n + m] = total[n + m] + a * b if n + m in total else a * b
        return Powers(total)

    def power(self, exponent: float) -> Powers:
        """A power: of one term any, of a sum a whole one up to 8."""
        terms = self.coefficients
        if len(terms) == 1:
            (n, c), *_ = terms.items()
            with np.errstate(all="ignore"):
                return Powers({n * exponent: np.asarray(c, np.float64) ** exponent})
        if not terms:
            return Powers({}) if exponent > 0 else Powers({0.0: np.ones(())})
        if exponent not in range(9):
            raise NotPowers(f"a sum to the power {exponent:g}")
        result = Powers({0.0: np.ones(())})
        for _ in range(int(exponent)):
            result = result.times(self)
        return result


def evaluate(
    node: Node,
    names: Mapping[str, Powers],
    tables: Mapping[str, Table] | None = None,
    at: Float64 | None = None,
) -> Powers:
    """A tree with sums of powers for its names.

    Parameters
    ----------
    node : Node
    names : mapping of name to Powers
    tables : mapping of function name to a function of arrays, optional
    at : (n,) float64, optional
        Values of the variable: ``step``, ``max``, ``min``, ``abs`` and ``select`` become what they are there.

    Raises
    ------
    NotPowers
        If it is no sum of powers.
    KeyError
        If a name is unknown.
    """
    done: dict[int, Powers] = {}

    def visit(node: Node) -> Powers:
        if id(node) not in done:
            done[id(node)] = value(node)
        return done[id(node)]

    def value(node: Node) -> Powers:
        if node.operation == "number":
            return Powers({0.0: np.array(float(node.text))})
        if node.operation == "name":
            return names[node.text]
        arguments = [visit(argument) for argument in node.arguments]
        piece = None if at is None else _piece(node.operation, arguments, at)
        return _apply(node.operation, arguments, tables or {}) if piece is None else piece

    return visit(node)


def _piece(operation: str, arguments: list[Powers], at: Float64) -> Powers | None:
    """The piece of a function made of pieces that holds at values of the variable; None for other functions."""
    values = [argument.value(at) for argument in arguments]
    a, b = arguments[0], arguments[-1]
    if operation == "step":
        return Powers({0.0: np.where(values[0] >= 0, 1.0, 0.0)})
    if operation == "abs":
        return a.where(values[0] >= 0, Powers({n: -c for n, c in a.coefficients.items()}))
    if operation in ("max", "min"):
        return a.where((values[0] >= values[1]) == (operation == "max"), b)
    if operation == "select":
        return arguments[1].where(values[0] != 0, b)
    return None


def _apply(operation: str, arguments: list[Powers], tables: Mapping[str, Table]) -> Powers:
    a, b = arguments[0], arguments[-1]
    if operation in ("+", "-"):
        return a.plus(b, 1.0 if operation == "+" else -1.0)
    if operation == "negate":
        return Powers({n: -c for n, c in a.coefficients.items()})
    if operation == "*":
        return a.times(b)
    if operation == "/":
        return a.times(b.power(-1.0))
    exponents = {"square": 2.0, "cube": 3.0, "recip": -1.0}
    if operation in exponents or (operation == "sqrt" and a.constant is None and len(a.coefficients) == 1):
        return a.power(exponents.get(operation, 0.5))
    if operation == "^" and b.constant is not None and b.constant.size == 1:
        return a.power(float(b.constant.ravel()[0]))
    constants = [argument.constant for argument in arguments]
    if any(constant is None for constant in constants):
        raise NotPowers(f"{operation} of something that depends on the variable")
    known: dict[str, Callable[..., Any]] = {**_CONSTANT, **tables, "^": np.power}
    if operation not in known:
        raise NotPowers(f"{operation} of these arguments")
    with np.errstate(all="ignore"):
        return Powers({0.0: np.asarray(known[operation](*constants), np.float64)})
