"""Parameters of bonded terms by atom type, and the look-up as grompp does it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsemd.io.gromacs.functions import Function
from pulsemd.io.gromacs.rows import Row

Names = tuple[str, ...]
Parameters = tuple[float, ...]
ANY = "X"
"""Matches every atom type in a dihedral type."""


@dataclass
class _Type:
    names: Names
    rows: list[Parameters]
    several: bool


@dataclass
class TypeTable:
    """Types of one kind of term, in the order of the file."""

    types: list[_Type] = field(default_factory=list)
    exact: dict[Names, _Type] = field(default_factory=dict)
    found: dict[Names, _Type | None] = field(default_factory=dict)

    def add(self, names: Names, parameters: Parameters, function: Function, row: Row) -> None:
        """Add a row; consecutive rows of a function with several rows per type belong together."""
        last = self.types[-1] if self.types else None
        if function.several and last is not None and last.several and last.names == names:
            last.rows.append(parameters)
            return
        known = self.exact.get(names) or self.exact.get(names[::-1])
        if known is None:
            new = _Type(names, [parameters], function.several)
            self.types.append(new)
            self.exact[names] = new
        elif known.rows != [parameters]:
            raise row.error(f"parameters for {'-'.join(names)} were defined before with other values")

    def find(self, names: Names) -> list[Parameters] | None:
        """Parameters for bonded types: exact in either direction."""
        known = self.exact.get(names) or self.exact.get(names[::-1])
        return None if known is None else known.rows

    def find_directed(self, names: Names) -> list[Parameters] | None:
        """Parameters for bonded types: exact, in this direction only."""
        known = self.exact.get(names)
        return None if known is None else known.rows

    def find_dihedral(self, names: Names) -> list[Parameters] | None:
        """Parameters of the first type with the most exact matches; `ANY` matches the rest."""
        if names not in self.found:
            best, best_score = None, -1
            for candidate in self.types:
                score = max(_matches(candidate.names, names), _matches(candidate.names[::-1], names))
                if score > best_score:
                    best, best_score = candidate, score
            self.found[names] = best
        known = self.found[names]
        return None if known is None else known.rows


def _matches(pattern: Names, names: Names) -> int:
    """Number of exact matches, or -1 if one differs and is no wild card."""
    exact = 0
    for wanted, name in zip(pattern, names, strict=True):
        if wanted == name:
            exact += 1
        elif wanted != ANY:
            return -1
    return exact
