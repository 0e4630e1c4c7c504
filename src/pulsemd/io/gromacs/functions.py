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
    """

    kind: str
    n_parameters: int
    perturbed: tuple[int, ...]
    several: bool = False


FUNCTIONS: Mapping[str, Mapping[int, Function]] = {
    "bonds": {1: Function("bond", 2, (0, 1))},
    "constraints": {1: Function("constraint", 1, (0,))},
    "pairs": {1: Function("lj14", 2, (0, 1))},
    "angles": {1: Function("angle", 2, (0, 1)), 5: Function("urey_bradley", 4, (0, 1, 2, 3))},
    "dihedrals": {
        1: Function("proper", 3, (0, 1)),
        2: Function("improper", 2, (0, 1)),
        3: Function("ryckaert_bellemans", 6, (0, 1, 2, 3, 4, 5)),
        4: Function("periodic_improper", 3, (0, 1)),
        9: Function("proper", 3, (0, 1), several=True),
    },
    "position_restraints": {1: Function("position_restraint", 3, (0, 1, 2))},
    "cmap": {1: Function("cmap", 0, ())},
}
"""By section and function number. The parameters of states A and B follow each other in a row; a multiplicity,
which both share, comes last in gmx's order for A and B."""


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
    if function.kind in ("proper", "periodic_improper") and values[2] != round(values[2]):
        raise row.error(f"multiplicity {values[2]} is not a whole number")
    return values[:n]
