"""Parsers of the rows of bonded sections of a molecule type; parameters that are not given are looked up at once."""

from __future__ import annotations

from collections.abc import Callable

from pulsemd.forcefield.nonbonded import build_table
from pulsemd.io.gromacs.draft import AtomType, TermRow, TopologyDraft
from pulsemd.io.gromacs.functions import Function, function_of, parameters_of
from pulsemd.io.gromacs.rows import Row

_SHAPES = {
    1: (1.0, 1.0, 1.0),
    2: (1.0, 1.0, 0.0),
    3: (1.0, 0.0, 0.0),
    4: (0.0, 1.0, 0.0),
    5: (0.0, 0.0, 1.0),
    6: (0.0, 1.0, 1.0),
    7: (1.0, 0.0, 1.0),
    8: (1.0, 1.0, 0.0),
}
"""Which coordinates the distance of a flat-bottomed restraint counts: sphere, cylinder along z, layers across x, y, z,
cylinders along x, y, z."""


def term_row(section: str, n_atoms: int, vectors: bool = False) -> Callable[[TopologyDraft, Row], None]:
    """Parser of a row ``atom ... func [parameters]``; the ends of two vectors may be one atom."""

    def parse(draft: TopologyDraft, row: Row) -> None:
        function = function_of(section, row, n_atoms)
        atoms = tuple(row.atom(i, len(draft.molecule.atoms)) for i in range(n_atoms))
        same = (
            any(atoms[k] == atoms[k + 1] for k in range(0, n_atoms, 2))
            if vectors
            else len(set(atoms)) < n_atoms
        )
        if same:
            raise row.error("an atom is listed twice in one term")
        given = parameters_of(function, row, n_atoms + 1)
        if function.kind == "connection":
            given = ()
        found = _look_up(draft, section, function, atoms, row) if given is None else [given]
        if function.links and draft.intermolecular is not None:
            raise row.error(
                "a chemical bond between molecules is not possible, as in gmx: use [ bonds ] of function 6 or 10, or "
                "make one molecule of them"
            )
        if function.links:
            draft.molecule.links.append((atoms[0], atoms[1]))
        terms = draft.molecule.terms.setdefault(function.kind, [])
        terms += [TermRow(row.line, atoms, parameters) for parameters in found]

    return parse


def pair_row(draft: TopologyDraft, row: Row) -> None:
    """Read a 1-4 pair; its parameters come from the row, from ``[ pairtypes ]``, or are generated."""
    function = function_of("pairs", row, 2)
    i, j = (row.atom(k, len(draft.molecule.atoms)) for k in (0, 1))
    if i == j:
        raise row.error("an atom is paired with itself")
    given = parameters_of(function, row, 3)
    if function.kind == "charged_pair14":
        _add_charged_pair(draft, row, (i, j), given)
        return
    one, two = sorted(draft.molecule.atoms[k].type for k in (i, j))
    explicit = draft.pair_types.get((one, two)) if given is None else (given[0], given[1])
    assert draft.defaults is not None  # atoms need types, and types need defaults
    if explicit is None and not draft.defaults.generate_pairs:
        raise row.error(f"no [ pairtypes ] for {one} {two}, and gen-pairs is off")
    c6, c12 = _pair_coefficients(draft, one, two, explicit)
    parameters = (c6, c12, draft.defaults.fudge_qq)
    draft.molecule.terms.setdefault("lj14", []).append(TermRow(row.line, (i, j), parameters))


def _add_charged_pair(
    draft: TopologyDraft, row: Row, atoms: tuple[int, int], given: tuple[float, ...] | None
) -> None:
    """A 1-4 pair with its own fudgeQQ and charges."""
    if given is None:
        raise row.error("a pair of function 2 needs fudgeQQ, two charges and two Lennard-Jones parameters")
    c6, c12 = lennard_jones(draft, given[3], given[4])
    parameters = (c6, c12, given[0] * given[1] * given[2])
    draft.molecule.terms.setdefault("charged_pair14", []).append(TermRow(row.line, atoms, parameters))


def pair_nb_row(draft: TopologyDraft, row: Row) -> None:
    """Read ``i j func qi qj V W``: a pair that interacts so at any distance, beside what else there is."""
    function = function_of("pairs_nb", row, 2)
    i, j = (row.atom(k, len(draft.molecule.atoms)) for k in (0, 1))
    given = parameters_of(function, row, 3)
    if i == j or given is None:
        raise row.error("a pair of two atoms needs two charges and two Lennard-Jones parameters")
    c6, c12 = lennard_jones(draft, given[2], given[3])
    parameters = (c6, c12, given[0] * given[1])
    draft.molecule.terms.setdefault("pair_nb", []).append(TermRow(row.line, (i, j), parameters))


def distance_restraint_row(draft: TopologyDraft, row: Row) -> None:
    """Read ``i j func index type low up1 up2 factor``; the factor is of disre-fc."""
    function = function_of("distance_restraints", row, 2)
    atoms = tuple(row.atom(k, len(draft.molecule.atoms)) for k in (0, 1))
    given = parameters_of(function, row, 3)
    if given is None or atoms[0] == atoms[1]:
        raise row.error("two atoms, a function, an index, a type, low, up1, up2 and a factor are expected")
    number, low, up, end, factor = given[0], *given[2:]
    if not low <= up <= end:
        raise row.error(f"low = {low:g}, up1 = {up:g} and up2 = {end:g} must not become smaller")
    if number in draft.molecule.restraint_numbers:
        raise row.error(
            f"index {number:g} has several pairs, whose mean distance is not supported: give each its own index"
        )
    draft.molecule.restraint_numbers.add(number)
    parameters = (low, up, end, factor)
    draft.molecule.terms.setdefault(function.kind, []).append(TermRow(row.line, atoms, parameters))


def restraint_row(draft: TopologyDraft, row: Row) -> None:
    """Read a position restraint: three force constants, or a shape, its size and a force constant."""
    function = function_of("position_restraints", row, 1)
    atom = row.atom(0, len(draft.molecule.atoms))
    given = parameters_of(function, row, 2)
    if given is None:
        raise row.error("three parameters are expected")
    if function.kind == "flat_bottom":
        if given[0] not in _SHAPES:
            raise row.error(f"shape {given[0]:g} of a flat-bottomed restraint does not exist: 1 to 8")
        given = (*_SHAPES[int(given[0])], given[1], given[2])
    draft.molecule.terms.setdefault(function.kind, []).append(TermRow(row.line, (atom,), given))


def lennard_jones(draft: TopologyDraft, first: float, second: float) -> tuple[float, float]:
    """c6 and c12 from the parameters of a pair as they stand in a row."""
    assert draft.defaults is not None
    table = build_table(["pair"], draft.defaults.comb_rule, [first], [second], {(0, 0): (first, second)})
    return float(table.c6[0, 0]), float(table.c12[0, 0])


def _pair_coefficients(
    draft: TopologyDraft, one: str, two: str, explicit: tuple[float, float] | None
) -> tuple[float, float]:
    """c6 and c12 of a 1-4 pair; what is generated is scaled by fudgeLJ, which multiplies epsilon, or c6 and c12."""
    assert draft.defaults is not None
    types: list[AtomType] = [draft.atom_types[one], draft.atom_types[two]]
    override = draft.nonbonded.get((one, two)) if explicit is None else explicit
    table = build_table(
        [one, two],
        draft.defaults.comb_rule,
        [kind.first for kind in types],
        [kind.second for kind in types],
        {} if override is None else {(0, 1): override},
    )
    scale = draft.defaults.fudge_lj if explicit is None else 1.0
    return scale * float(table.c6[0, 1]), scale * float(table.c12[0, 1])


def _look_up(
    draft: TopologyDraft, section: str, function: Function, atoms: tuple[int, ...], row: Row
) -> list[tuple[float, ...]]:
    """All rows of the type that fits; as in gmx they act whether the term asks for function 1 or 9."""
    names = tuple(draft.atom_types[draft.molecule.atoms[atom].type].bonded for atom in atoms)
    table = draft.type_tables.get(function.kind)
    found = None
    if table is not None:
        if section == "cmap":
            found = table.find_directed(names)
        else:
            found = table.find_dihedral(names) if section == "dihedrals" else table.find(names)
    if found is None:
        raise row.error(f"no parameters for {'-'.join(names)} in [ {section} ], neither here nor by type")
    return found
