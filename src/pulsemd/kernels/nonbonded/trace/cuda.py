"""A traced number over CUDA C++: arithmetic on it writes the text of a device function instead of computing.

Every value knows what it depends on: constants of the run, the first atom (i), the second atom (j), or the pair
itself. What depends on one atom alone is computed once when the atom is loaded; the device function of the
pair gets it as an element of that atom's values. The text is plain enough to run as Python after dropping the
declarations, which is how the tests evaluate it without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pulsemd.kernels.nonbonded.trace.arithmetic import Arithmetic

_FUNCTIONS = ("reciprocal_sqrt", "square_root", "exponential", "select", "negated")
"""Operations that are functions of the device code."""

UNIFORM, ATOM_I, ATOM_J, PAIR = 0, 1, 2, 4
"""What a node depends on, as bits; `PAIR` for r^2 and what follows from it."""


@dataclass(frozen=True)
class Node:
    """An operation on other nodes, or a leaf with its text.

    Nodes of one `Trace` are unique: equal expressions are the same node.
    """

    number: int
    operation: str
    arguments: tuple[Node, ...]
    text: str
    depends: int

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass
class Trace:
    """All nodes of one pair formula.

    Parameters
    ----------
    reassociate : bool
        Products may be regrouped so that factors of one atom, and numbers, are multiplied once per atom; for
        fast mode. Else every operation is emitted as written.
    symmetric : bool
        Numbers then multiply the product of the two atoms, not one of its factors, whose rounding would tell the
        atoms apart.
    """

    reassociate: bool
    symmetric: bool = False
    _known: dict[tuple[str, ...], Node] = field(default_factory=dict)

    def node(self, operation: str, arguments: Sequence[Node] = (), text: str = "", depends: int = 0) -> Node:
        """The node of an operation, the same for the same arguments."""
        key = (operation, text, str(depends), *(str(argument.number) for argument in arguments))
        if key not in self._known:
            for argument in arguments:
                depends |= argument.depends
            self._known[key] = Node(len(self._known), operation, tuple(arguments), text, depends)
        return self._known[key]

    def leaf(self, text: str, depends: int) -> Number:
        """A number that the device function is given, under its name there."""
        return self.number(self.node("leaf", text=text, depends=depends))

    def constant(self, value: float) -> Node:
        """A number known now, as float32."""
        return self.node("constant", text=f"{float(np.float32(value))!r}f")

    def number(self, node: Node) -> Number:
        """A traced number of a node; in reassociating traces factors of one atom stay apart from the pair's."""
        if self.reassociate and not node.depends & PAIR and node.depends != ATOM_I | ATOM_J:
            return Number(self, 1.0, (node,), None)
        return Number(self, 1.0, (), node)


class Number(Arithmetic):
    """coefficient * product of ``factors`` (none of the pair) * ``core`` (of the pair; None is 1)."""

    __slots__ = ("coefficient", "core", "factors", "trace")

    def __init__(self, trace: Trace, coefficient: float, factors: Iterable[Node], core: Node | None) -> None:
        self.trace, self.coefficient, self.core = trace, coefficient, core
        self.factors = tuple(sorted(factors, key=lambda node: node.number))

    def node(self) -> Node:
        """One node for the whole product: numbers and factors of one atom first."""
        parts = []
        groups = {d: [f for f in self.factors if f.depends == d] for d in (UNIFORM, ATOM_I, ATOM_J)}
        scalars = list(groups[UNIFORM])
        if self.coefficient != 1.0 or not (self.factors or self.core):
            scalars.insert(0, self.trace.constant(self.coefficient))
        first = next((d for d in (ATOM_I, ATOM_J) if groups[d]), UNIFORM)
        groups[UNIFORM] = []
        if self.trace.symmetric and groups[ATOM_I] and groups[ATOM_J]:
            parts = [self._product([self._product(groups[d]) for d in (ATOM_I, ATOM_J)]), *scalars]
            return self._product([*parts, self.core] if self.core else parts)
        groups[first] = scalars + groups[first]
        for depends in (first, ATOM_I, ATOM_J):
            if groups[depends]:
                parts.append(self._product(groups[depends]))
                groups[depends] = []
        return self._product([*parts, self.core] if self.core else parts)

    def _product(self, nodes: Sequence[Node]) -> Node:
        result = nodes[0]
        for node in nodes[1:]:
            result = self.trace.node("*", (result, node))
        return result

    def constant(self, other: Number | float) -> Number:
        """``other`` itself if it is traced, else a number known now."""
        if isinstance(other, Number):
            return other
        if self.trace.reassociate:
            return Number(self.trace, float(other), (), None)
        return Number(self.trace, 1.0, (), self.trace.constant(other))

    def __mul__(self, other: Number | float) -> Number:
        other = self.constant(other)
        if not self.trace.reassociate:
            return self._binary("*", self, other)
        cores = [core for core in (self.core, other.core) if core is not None]
        core = self._product(cores) if cores else None
        return Number(self.trace, self.coefficient * other.coefficient, self.factors + other.factors, core)

    def __rmul__(self, other: float) -> Number:
        return self.constant(other) * self

    def __add__(self, other: Number | float) -> Number:
        return self._sum("+", self, self.constant(other))

    def __radd__(self, other: float) -> Number:
        return self._sum("+", self.constant(other), self)

    def __sub__(self, other: Number | float) -> Number:
        return self._sum("-", self, self.constant(other))

    def __rsub__(self, other: float) -> Number:
        return self._sum("-", self.constant(other), self)

    def __truediv__(self, other: Number | float) -> Number:
        return self._binary("/", self, self.constant(other))

    def __rtruediv__(self, other: float) -> Number:
        return self._binary("/", self.constant(other), self)

    def __neg__(self) -> Number:
        return self.constant(0.0) - self if not self.trace.reassociate else self * -1.0

    def _sum(self, sign: str, a: Number, b: Number) -> Number:
        if a.factors and a.factors == b.factors and a.core and b.core:
            # Factor out what both share, and multiply at once: where it is 0 nothing later is 0 times infinity.
            bare = [Number(self.trace, value.coefficient, (), value.core) for value in (a, b)]
            total = self._binary(sign, *bare)
            shared = Number(self.trace, total.coefficient, a.factors, total.core)
            return self.trace.number(shared.node())
        return self._binary(sign, a, b)

    def _binary(self, operation: str, a: Number, b: Number) -> Number:
        return self.trace.number(self.trace.node(operation, (a.node(), b.node())))

    def rsqrt(self) -> Number:
        """1/sqrt, by the device function ``reciprocal_sqrt``."""
        return self._call("reciprocal_sqrt")

    def sqrt(self) -> Number:
        """Square root, by the device function ``square_root``."""
        return self._call("square_root")

    def exp(self) -> Number:
        """Exponential, by the device function ``exponential``."""
        return self._call("exponential")

    def _call(self, function: str) -> Number:
        return self.trace.number(self.trace.node(function, (self.node(),)))

    def _compare(self, operation: str, other: Number | float) -> Condition:
        return Condition(self.trace, self.trace.node(operation, (self.node(), self.constant(other).node())))

    def __lt__(self, other: Number | float) -> Condition:
        return self._compare("<", other)

    def __le__(self, other: Number | float) -> Condition:
        return self._compare("<=", other)

    def __gt__(self, other: Number | float) -> Condition:
        return self._compare(">", other)

    def __ge__(self, other: Number | float) -> Condition:
        return self._compare(">=", other)


class Condition:
    """A traced comparison."""

    __slots__ = ("node", "trace")

    def __init__(self, trace: Trace, node: Node) -> None:
        self.trace, self.node = trace, node

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.trace, self.trace.node("&", (self.node, other.node)))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.trace, self.trace.node("|", (self.node, other.node)))

    def __invert__(self) -> Condition:
        return Condition(self.trace, self.trace.node("negated", (self.node,)))

    def __bool__(self) -> bool:
        raise TypeError(
            "a traced comparison has no value: `if`, `and` and `or` cannot take it; use where, & and |"
        )

    def select(self, a: Number | float, b: Number | float) -> Number:
        """``a`` where true, else ``b``, by the device function ``select``."""
        values = [as_number(self.trace, value).node() for value in (a, b)]
        return self.trace.number(self.trace.node("select", (self.node, *values)))


def as_number(trace: Trace, value: Number | float) -> Number:
    """A traced number of what a formula returns, which may be a plain one."""
    return value if isinstance(value, Number) else Number(trace, 1.0, (), trace.constant(value))


@dataclass(frozen=True)
class DeviceText:
    """Bodies of the device functions of a formula.

    Parameters
    ----------
    i_values, j_values : tuple of (statements, expression)
        What is kept of each atom: element k is ``expression`` after the statements.
    pair : tuple of str
        Statements of the pair; they read ``i[k]`` and ``j[k]``.
    results : tuple of str
        Expressions of the results.
    """

    i_values: tuple[tuple[tuple[str, ...], str], ...]
    j_values: tuple[tuple[tuple[str, ...], str], ...]
    pair: tuple[str, ...]
    results: tuple[str, ...]


def emit(
    results: Sequence[Number],
    first_i: Sequence[Number] = (),
    first_j: Sequence[Number] = (),
    fuse: bool = False,
) -> DeviceText:
    """Text of a formula.

    Parameters
    ----------
    results : Number
        What the pair's function returns.
    first_i, first_j : Number
        Values that must be the first of each atom's, needed by the pair or not.
    fuse : bool
        Write every sum with a product of the pair as a call of the device function ``fused``, so that its rounding
        is not left to a compiler.
    """
    roots = [value.node() for value in results]
    kept = {side: [value.node() for value in first] for side, first in ((ATOM_I, first_i), (ATOM_J, first_j))}
    for node in _in_order(roots):
        for argument in node.arguments if node.depends & PAIR or node.depends == ATOM_I | ATOM_J else ():
            if argument.depends in kept and argument not in kept[argument.depends]:
                kept[argument.depends].append(argument)
    names = {node: f"i[{k}]" for k, node in enumerate(kept[ATOM_I])}
    names |= {node: f"j[{k}]" for k, node in enumerate(kept[ATOM_J])}
    statements, expressions = _write(roots, dict(names), fuse)
    own = {side: tuple(_write_one(node) for node in nodes) for side, nodes in kept.items()}
    return DeviceText(own[ATOM_I], own[ATOM_J], statements, expressions)


def _in_order(roots: Sequence[Node]) -> list[Node]:
    """All nodes under some roots, arguments before what uses them."""
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in order:
            for argument in node.arguments:
                visit(argument)
            order[node] = None

    for root in roots:
        visit(root)
    return list(order)


def _write_one(node: Node) -> tuple[tuple[str, ...], str]:
    statements, expressions = _write([node], {}, fuse=False)
    return statements, expressions[0]


def _fused(node: Node) -> tuple[str, Node, Node, str, Node] | None:
    """Signs and arguments of the fused multiply-add that computes a sum: sign a * b + sign c."""
    if node.operation not in ("+", "-"):
        return None
    a, b = node.arguments
    if a.operation == "*" and a.depends & PAIR:
        return "", *a.arguments, "-" if node.operation == "-" else "", b
    if b.operation == "*" and b.depends & PAIR:
        return "-" if node.operation == "-" else "", *b.arguments, "", a
    return None


def _write(
    roots: Sequence[Node], names: dict[Node, str], fuse: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Statements that compute some nodes, given the names of those already known."""
    statements = []

    def visit(node: Node) -> str:
        if node in names:
            return names[node]
        if node.operation in ("leaf", "constant"):
            return node.text
        sum_of_product = _fused(node) if fuse else None
        if sum_of_product:
            sign, a, b, sign_c, c = sum_of_product
            expression = f"fused({sign}{visit(a)}, {visit(b)}, {sign_c}{visit(c)})"
            names[node] = f"t{len(statements)}"
            statements.append(f"const float {names[node]} = {expression};")
            return names[node]
        values = [visit(argument) for argument in node.arguments]
        if node.operation in _FUNCTIONS:
            expression = f"{node.operation}({', '.join(values)})"
        else:
            expression = f"{values[0]} {node.operation} {values[1]}"
        kind = "bool" if node.operation in ("<", "<=", ">", ">=", "&", "|", "negated") else "float"
        names[node] = f"t{len(statements)}"
        statements.append(f"const {kind} {names[node]} = {expression};")
        return names[node]

    expressions = tuple(visit(root) for root in roots)
    return tuple(statements), expressions
