"""Expressions of custom forces: parsed into trees, never run as code.

The language is Lepton's, as OpenMM documents it: numbers, names, ``+ - * / ^``, functions, and definitions after
semicolons, which may use those that follow. ``-a^b`` is -(a^b), and ``^`` groups from the right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

FUNCTIONS = {
    **dict.fromkeys(
        ("sqrt", "exp", "log", "sin", "cos", "sec", "csc", "tan", "cot", "asin", "acos", "atan"), 1
    ),
    **dict.fromkeys(("sinh", "cosh", "tanh", "erf", "erfc", "step", "delta", "square", "cube", "recip"), 1),
    **dict.fromkeys(("abs", "floor", "ceil"), 1),
    **dict.fromkeys(("min", "max", "atan2"), 2),
    "select": 3,
}
"""Numbers of arguments of Lepton's functions."""

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|([A-Za-z_$][\w$]*)|([-+*/^(),]))"
)
_MAX_DEPTH = 100
_TOO_DEEP = f"the expression is nested more than {_MAX_DEPTH} deep"


@dataclass(frozen=True, eq=False)
class Node:
    """A number, a name, or an operation on others.

    Parameters
    ----------
    operation : str
        ``number``, ``name``, one of ``+ - * / ^``, ``negate``, or a function.
    text : str, the number or the name
    arguments : tuple of Node
    """

    operation: str
    text: str = ""
    arguments: tuple[Node, ...] = ()


def parse(text: str, functions: Mapping[str, int] | None = None) -> Node:
    """The tree of an expression with its definitions put in; equal definitions share one node.

    Parameters
    ----------
    text : str
    functions : mapping of name to number of arguments, optional
        Beside those of the language, such as tables.

    Raises
    ------
    ValueError
        Saying what is wrong and where.
    """
    known = {**FUNCTIONS, **(functions or {})}
    main, *rest = text.split(";")
    names: dict[str, Node] = {}
    for definition in reversed([part for part in rest if part.strip()]):
        name, equals, body = definition.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_$][\w$]*", name.strip()):
            raise ValueError(f"{definition.strip()!r} is not of the form name=expression")
        names[name.strip()] = _Parser(body, known, names).whole()
    tree = _Parser(main, known, names).whole()
    if _depth(tree) > _MAX_DEPTH:
        raise ValueError(_TOO_DEEP)
    return tree


def _depth(tree: Node) -> int:
    """Operations inside each other; without recursion, since there may be too many for it."""
    depth: dict[int, int] = {}
    waiting = [tree]
    while waiting:
        node = waiting[-1]
        missing = [argument for argument in node.arguments if id(argument) not in depth]
        if missing:
            waiting += missing
        else:
            depth[id(node)] = 1 + max((depth[id(argument)] for argument in node.arguments), default=0)
            waiting.pop()
    return depth[id(tree)]


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, functions: Mapping[str, int], names: Mapping[str, Node]) -> None:
        self._text, self._functions, self._names = text.strip(), functions, names
        self._tokens = self._split()
        self._at = self._depth = 0

    def _split(self) -> list[str]:
        tokens, at = [], 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise ValueError(f"{self._text[at:].strip()[:20]!r} cannot be read in {self._text!r}")
            tokens.append(found[0].strip())
            at = found.end()
        return tokens

    def whole(self) -> Node:
        """The expression up to its end."""
        node = self._sum()
        if self._at < len(self._tokens):
            raise ValueError(f"{self._tokens[self._at]!r} is not expected in {self._text!r}")
        return node

    def _next(self, *wanted: str) -> str | None:
        """Take the next token if it is one of these."""
        if self._at < len(self._tokens) and self._tokens[self._at] in wanted:
            self._at += 1
            return self._tokens[self._at - 1]
        return None

    def _require(self, token: str) -> None:
        if self._next(token) is None:
            raise ValueError(f"{token!r} is missing in {self._text!r}")

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        node = self._product()
        while sign := self._next("+", "-"):
            node = Node(sign, arguments=(node, self._product()))
        self._depth -= 1
        return node

    def _product(self) -> Node:
        node = self._signed()
        while sign := self._next("*", "/"):
            node = Node(sign, arguments=(node, self._signed()))
        return node

    def _signed(self) -> Node:
        sign, negative = self._next("-", "+"), False
        while sign is not None:
            negative ^= sign == "-"
            sign = self._next("-", "+")
        node = self._power()
        return Node("negate", arguments=(node,)) if negative else node

    def _power(self) -> Node:
        base = self._atom()
        if self._next("^"):
            return Node("^", arguments=(base, self._signed()))
        return base

    def _atom(self) -> Node:
        if self._at == len(self._tokens):
            raise ValueError(f"something is missing at the end of {self._text!r}")
        token = self._tokens[self._at]
        self._at += 1
        if token == "(":
            node = self._sum()
            self._require(")")
            return node
        if token[0].isdigit() or token[0] == ".":
            return Node("number", token)
        if token in "-+*/^),":
            raise ValueError(f"{token!r} is not expected in {self._text!r}")
        if self._next("("):
            return self._call(token)
        return self._names.get(token) or Node("name", token)

    def _call(self, name: str) -> Node:
        arguments = [self._sum()]
        while self._next(","):
            arguments.append(self._sum())
        self._require(")")
        if name not in self._functions:
            raise ValueError(f"there is no function {name!r}")
        if len(arguments) != self._functions[name]:
            raise ValueError(f"{name} has {self._functions[name]} arguments, not {len(arguments)}")
        return Node(name, arguments=tuple(arguments))
