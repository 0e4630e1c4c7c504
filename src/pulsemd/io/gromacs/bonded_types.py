"""Parsers of the sections that give parameters of bonded terms by atom type."""

from __future__ import annotations

from collections.abc import Callable

from pulsemd.io.gromacs.draft import TopologyDraft
from pulsemd.io.gromacs.functions import FUNCTIONS, OF_GMX, function_of, parameters_of
from pulsemd.io.gromacs.rows import Row
from pulsemd.io.gromacs.type_table import ANY, Names, TypeTable


def type_row(section: str, n_atoms: int) -> Callable[[TopologyDraft, Row], None]:
    """Parser of a row ``type ... func parameters`` for the terms of a section."""

    def parse(draft: TopologyDraft, row: Row) -> None:
        _add(draft, section, row, tuple(row.words[:n_atoms]), n_atoms)

    return parse


def dihedral_row(draft: TopologyDraft, row: Row) -> None:
    """Read a dihedral type of four atom types, or of two: the outer ones of impropers, the inner ones of others."""
    words = row.words
    if len(words) > 2 and len(words[2]) == 1 and words[2].isdigit():
        a, b = words[:2]
        names = (a, ANY, ANY, b) if words[2] == "2" else (ANY, a, b, ANY)
        _add(draft, "dihedrals", row, names, 2)
    elif len(words) > 4 and len(words[4]) == 1 and words[4].isdigit():
        _add(draft, "dihedrals", row, tuple(words[:4]), 4)
    else:
        raise row.error("a dihedral type has two or four atom types and a function number of one digit")


def cmap_row(draft: TopologyDraft, row: Row) -> None:
    """Read ``type x 5, func, n, n`` and n x n energies."""
    function = function_of("cmap", row, 5)
    row.expect(8, 10**6, "five types, function, two grid sizes, energies")
    n = row.integer(6, "grid size")
    if n < 2 or row.integer(7, "grid size") != n or len(row) != 8 + n * n:
        raise row.error(f"a square grid is expected: {n} {n} and {n * n} energies, not {len(row) - 8}")
    energies = tuple(row.number(i, "energy") for i in range(8, len(row)))
    table = draft.type_tables.setdefault("cmap", TypeTable())
    if any(len(known.rows[0]) != n * n for known in table.types):
        raise row.error("all cmap grids must have the same size")
    table.add(tuple(row.words[:5]), energies, function, row)


def _add(draft: TopologyDraft, section: str, row: Row, names: Names, column: int) -> None:
    number = row.integer(column, "function") if len(row) > column else 1
    if number in OF_GMX[section] and number not in FUNCTIONS[section]:
        return
    function = function_of(section, row, column)
    parameters = parameters_of(function, row, column + 1)
    if parameters is None:
        raise row.error("parameters are missing")
    draft.type_tables.setdefault(function.kind, TypeTable()).add(names, parameters, function, row)
