"""From the tree of an expression of r to a pair potential: its energy and the derivative, as plain Python text.

What does not depend on r is computed once for every pair of types and becomes an argument. The derivative follows from
the chain rule, operation by operation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.expression import Node, parse
from pulsemd.io.openmm.powers import Powers, Table, evaluate
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.user_formula import UserFormula

Float64 = NDArray[np.float64]

_NAME = "openmm_pair_potential"
_RULES: Mapping[str, tuple[str, str]] = {
    "+": ("{a} + {b}", "{da} + {db}"),
    "-": ("{a} - {b}", "{da} - {db}"),
    "*": ("{a} * {b}", "{da} * {b} + {a} * {db}"),
    "/": ("{a} / {b}", "({da} - {v} * {db}) / {b}"),
    "negate": ("-{a}", "-{da}"),
    "sqrt": ("sqrt({a})", "0.5 * {da} / {v}"),
    "exp": ("exp({a})", "{v} * {da}"),
    "square": ("{a} * {a}", "2.0 * {a} * {da}"),
    "cube": ("{a} * {a} * {a}", "3.0 * {a} * {a} * {da}"),
    "recip": ("1.0 / {a}", "-{v} * {v} * {da}"),
    "abs": ("where({a} < 0.0, -{a}, {a})", "where({a} < 0.0, zero - {da}, zero + {da})"),
    "min": ("where({a} < {b}, zero + {a}, zero + {b})", "where({a} < {b}, zero + {da}, zero + {db})"),
    "max": ("where({a} > {b}, zero + {a}, zero + {b})", "where({a} > {b}, zero + {da}, zero + {db})"),
    "step": ("where({a} < 0.0, zero, one)", "zero"),
    "select": (
        "where({a} * {a} > 0.0, zero + {b}, zero + {c})",
        "where({a} * {a} > 0.0, zero + {db}, zero + {dc})",
    ),
}
"""Value and derivative of each operation, of arguments a, b, c with derivatives da, db, dc; v is the value. Adding
``zero`` makes values for `where` of numbers."""


def pair_potential(
    force: Force,
    tree: Node,
    names: Mapping[str, Powers],
    tables: Mapping[str, Table],
    n_types: int,
) -> PairPotential:
    """The pair potential of an expression of the distance ``r``.

    Parameters
    ----------
    force : Force
        For messages.
    tree : Node
    names, tables : as for `evaluate`
        Values for pairs of types (T, T).
    n_types : int

    Raises
    ------
    TopologyError
        For a function that kernels do not have, or parameters that change when two types are swapped.
    """
    writer = _Writer(force, names, tables, n_types)
    value, slope = writer.visit(tree)
    lines = [
        f"def {_NAME}({', '.join(['r2', *writer.arguments])}):",
        "    inverse = rsqrt(r2)",
        "    r = r2 * inverse",
        "    zero = 0.0 * r2",
        "    one = zero + 1.0",
        *(f"    {line}" for line in writer.lines),
        f"    return zero + {value}, zero - {slope} * inverse",
    ]
    formula = UserFormula(_NAME, "\n".join(lines), tuple(writer.arguments))
    try:
        return PairPotential(formula, writer.arguments)
    except InputError as error:
        raise force.expression_error(f"is not supported: {error}") from error


def switched(tree: Node, switch: float | None, cutoff: float) -> Node:
    """The tree times OpenMM's switching function, 1 - 10 x^3 + 15 x^4 - 6 x^5, x = (r - switch)/(cutoff - switch)."""
    if switch is None:
        return tree
    factor = parse(
        f"select(step(r-{switch!r}), 1-10*x^3+15*x^4-6*x^5, 1); x=(r-{switch!r})/{cutoff - switch!r}"
    )
    return Node("*", arguments=(tree, factor))


class _Writer:
    """Writes one line for the value and one for the derivative of every operation on the distance."""

    def __init__(
        self, force: Force, names: Mapping[str, Powers], tables: Mapping[str, Table], n_types: int
    ) -> None:
        self._force, self._names, self._tables, self._n = force, names, tables, n_types
        self._done: dict[int, tuple[str, str]] = {}
        self._depends: dict[int, bool] = {}
        self.lines: list[str] = []
        self.arguments: dict[str, Float64] = {}

    def visit(self, node: Node) -> tuple[str, str]:
        """Names of the value of a node and of its derivative."""
        if id(node) not in self._done:
            self._done[id(node)] = (
                self._write(node) if self._on_distance(node) else (self._constant(node), "0.0")
            )
        return self._done[id(node)]

    def _on_distance(self, node: Node) -> bool:
        if id(node) not in self._depends:
            self._depends[id(node)] = (node.operation, node.text) == ("name", "r") or any(
                self._on_distance(argument) for argument in node.arguments
            )
        return self._depends[id(node)]

    def _constant(self, node: Node) -> str:
        """A number, or the argument for a table over pairs of types."""
        try:
            found = evaluate(node, self._names, self._tables).constant
        except KeyError as error:
            raise self._force.expression_error(
                f"uses {error.args[0]!r}, which is no parameter of it"
            ) from error
        values = np.asarray(found, np.float64)
        if values.size == 1:
            return repr(float(values.ravel()[0]))
        table = np.broadcast_to(values, (self._n, self._n))
        if not np.allclose(table, table.T, rtol=1e-12, atol=0.0):
            raise self._force.expression_error(
                "has a part that changes when the particles are swapped",
                "combine their parameters symmetrically, as in sqrt(a1*a2)",
            )
        name = f"p{len(self.arguments)}"
        self.arguments[name] = 0.5 * (table + table.T)
        return name

    def _write(self, node: Node) -> tuple[str, str]:
        if node.operation == "name":
            return "r", "1.0"
        parts = [self.visit(argument) for argument in node.arguments]
        if node.operation == "^":
            return self._power(*parts)
        if node.operation not in _RULES:
            raise self._force.expression_error(
                f"has {node.operation}() of the distance, which is not supported",
                f"supported are ^ and {', '.join(name for name in _RULES if name != 'negate')}",
            )
        fields = dict(
            zip(("a", "da", "b", "db", "c", "dc"), [text for part in parts for text in part], strict=False)
        )
        value, slope = _RULES[node.operation]
        return self._assign(value.format(**fields), slope, fields)

    def _power(self, base: tuple[str, str], exponent: tuple[str, str]) -> tuple[str, str]:
        try:
            n = float(exponent[0])
        except ValueError:
            raise self._force.expression_error(
                "has an exponent that is not one number",
                "exponents are whole or half numbers",
            ) from None
        shown = int(n) if n == int(n) else n
        slope = {1.0: "{da}", 2.0: "2.0 * {a} * {da}"}.get(n, f"{n!r} * {{a}} ** {shown - 1} * {{da}}")
        return self._assign(f"{base[0]} ** {shown}", slope, {"a": base[0], "da": base[1]})

    def _assign(self, value: str, slope: str, fields: dict[str, str]) -> tuple[str, str]:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {value}")
        self.lines.append(f"d{name} = {slope.format(v=name, **fields)}")
        return name, f"d{name}"
