"""Function numbers of bonded sections: which kind of term each is, and how many numbers it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsemd.io.gromacs.rows import Row


@dataclass(frozen=True)
class Function:
    """One function number of a bonded section.

    Parameters
    ----------
    kind : str
        Of `pulsemd.topology.terms.TERM_KINDS`.
    n_parameters : int
    perturbed : tuple of int
        Parameters that may be given again for a second state, in this order; they must have the same values.
    several : bool
        Whether a dihedral type may have several rows, one after the other, all of which then act.
    links : bool
        Whether it is a chemical bond, which counts for nrexcl and holds a molecule together.
    """

    kind: str
    n_parameters: int
    perturbed: tuple[int, ...]
    several: bool = False
    links: bool = False


FUNCTIONS: Mapping[str, Mapping[int, Function]] = {
    "bonds": {
        1: Function("bond", 2, (0, 1), links=True),
        2: Function("quartic_bond", 2, (0, 1), links=True),
        3: Function("morse_bond", 3, (0, 1, 2), links=True),
        4: Function("cubic_bond", 3, (), links=True),
        5: Function("connection", 0, (), links=True),
        6: Function("harmonic_distance", 2, (0, 1)),
        7: Function("fene_bond", 2, (), links=True),
        10: Function("restraint_bond", 4, (0, 1, 2, 3)),
    },
    "constraints": {1: Function("constraint", 1, (0,), links=True), 2: Function("constraint", 1, (0,))},
    "pairs": {1: Function("lj14", 2, (0, 1)), 2: Function("charged_pair14", 5, ())},
    "pairs_nb": {1: Function("pair_nb", 4, ())},
    "angles": {
        1: Function("angle", 2, (0, 1)),
        2: Function("cosine_angle", 2, (0, 1)),
        3: Function("bond_bond_cross", 3, ()),
        4: Function("bond_angle_cross", 4, ()),
        5: Function("urey_bradley", 4, (0, 1, 2, 3)),
        6: Function("quartic_angle", 6, ()),
        9: Function("linear_angle", 2, (0, 1)),
        10: Function("restricted_angle", 2, (0, 1)),
    },
    "dihedrals": {
        1: Function("proper", 3, (0, 1)),
        2: Function("improper", 2, (0, 1)),
        3: Function("ryckaert_bellemans", 6, (0, 1, 2, 3, 4, 5)),
        4: Function("periodic_improper", 3, (0, 1)),
        5: Function("fourier", 4, (0, 1, 2, 3)),
        9: Function("proper", 3, (0, 1), several=True),
        10: Function("restricted_dihedral", 2, (0, 1)),
        11: Function("bending_torsion", 6, (0, 1, 2, 3, 4, 5)),
    },
    "position_restraints": {
        1: Function("position_restraint", 3, (0, 1, 2)),
        2: Function("flat_bottom", 3, ()),
    },
    "distance_restraints": {1: Function("distance_restraint", 6, ())},
    "angle_restraints": {1: Function("angle_restraint", 3, (0, 1))},
    "angle_restraints_z": {1: Function("angle_restraint_z", 3, (0, 1))},
    "dihedral_restraints": {1: Function("dihedral_restraint", 3, (0, 1, 2))},
    "cmap": {1: Function("cmap", 0, ())},
}
"""By section and function number. The parameters of states A and B follow each other in a row; a multiplicity,
which both share, comes last in gmx's order for A and B."""

PERIODIC = ("proper", "periodic_improper", "angle_restraint", "angle_restraint_z")
"""Kinds whose third parameter is a multiplicity."""

TABULATED: Mapping[str, tuple[int, ...]] = {"bonds": (8, 9), "angles": (8,), "dihedrals": (8,)}
"""Functions that gmx reads from files of tables."""

OF_GMX: Mapping[str, range] = {
    "bonds": range(1, 11),
    "constraints": range(1, 3),
    "angles": range(1, 11),
    "dihedrals": range(1, 12),
    "cmap": range(1, 2),
}
"""Function numbers of gmx: parameters by type for those not in `FUNCTIONS` can have no effect and are passed over."""


def function_of(section: str, row: Row, column: int) -> Function:
    """Look up the function number of a row; as in gmx it is 1 where the row ends before it.

    Raises
    ------
    TopologyError
        If the section has no such function here.
    """
    known = FUNCTIONS[section]
    if len(row) < column:
        raise row.error(f"[ {section} ] needs {column} atoms and a function number")
    number = row.integer(column, "function") if len(row) > column else 1
    if number in TABULATED.get(section, ()):
        raise row.error(f"function {number} of [ {section} ], a tabulated interaction, is not supported")
    if number not in known:
        numbers = ", ".join(map(str, known))
        raise row.error(f"function {number} of [ {section} ] is not supported: only {numbers}")
    return known[number]


def parameters_of(function: Function, row: Row, column: int) -> tuple[float, ...] | None:
    """Read the parameters from a column on; None if there are none.

    Raises
    ------
    TopologyError
        If their number is wrong or a second state differs from the first.
    """
    given = len(row) - column
    if given <= 0:
        return None
    n, repeated = function.n_parameters, len(function.perturbed)
    if given not in (n, n + repeated):
        raise row.error(f"{n} parameters are expected after the function number, not {given}")
    values = tuple(row.number(i, "parameter") for i in range(column, len(row)))
    if any(values[n + i] != values[which] for i, which in enumerate(function.perturbed) if n + i < given):
        raise row.error("a second state with other parameters is not supported: no free-energy perturbation")
    if function.kind in PERIODIC and values[2] != round(values[2]):
        raise row.error(f"multiplicity {values[2]} is not a whole number")
    return values[:n]
