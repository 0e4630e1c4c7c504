"""Parsers of the rows of ``[ virtual_sites1 ]`` to ``[ virtual_sitesn ]``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pulsemd.io.gromacs.draft import TopologyDraft
from pulsemd.io.gromacs.rows import Row
from pulsemd.topology.virtual_sites import Site, SiteKind

Values = tuple[float, ...]


def _fixed_angle(p: Sequence[float]) -> Values:
    angle = math.radians(p[0])
    return p[1] * math.cos(angle), p[1] * math.sin(angle), 0.0


FUNCTIONS: dict[tuple[int, int], tuple[SiteKind, int, Callable[[Sequence[float]], Values]]] = {
    (1, 1): (SiteKind.LINEAR, 0, lambda p: (1.0,)),
    (2, 1): (SiteKind.LINEAR, 1, lambda p: (1.0 - p[0], p[0])),
    (2, 2): (SiteKind.FIXED_DISTANCE, 1, lambda p: (p[0], 1.0)),
    (3, 1): (SiteKind.LINEAR, 2, lambda p: (1.0 - p[0] - p[1], p[0], p[1])),
    (3, 2): (SiteKind.FIXED_DISTANCE, 2, lambda p: (p[1], 1.0 - p[0], p[0])),
    (3, 3): (SiteKind.FIXED_ANGLE, 2, _fixed_angle),
    (3, 4): (SiteKind.OUT_OF_PLANE, 3, lambda p: (p[2], p[0], p[1])),
    (4, 1): (SiteKind.FIXED_DISTANCE, 3, lambda p: (p[2], 1.0 - p[0] - p[1], p[0], p[1])),
    (4, 2): (SiteKind.NORMAL, 3, lambda p: (p[2], p[0], p[1], 0.0)),
}
"""By number of parents and function: kind, number of parameters, and values from these."""


def site_row(n_parents: int) -> Callable[[TopologyDraft, Row], None]:
    """Parser of a row ``site parents func parameters``."""

    def parse(draft: TopologyDraft, row: Row) -> None:
        if len(row) < n_parents + 2:
            raise row.error(f"a site, {n_parents} atoms and a function number are expected")
        number = row.integer(n_parents + 1, "function")
        if (n_parents, number) not in FUNCTIONS:
            raise row.error(f"function {number} of [ virtual_sites{n_parents} ] does not exist")
        kind, n_parameters, values = FUNCTIONS[n_parents, number]
        first = n_parents + 2
        if len(row) == first and n_parameters > 0:
            raise row.error(
                f"the site has none of its {n_parameters} parameters, which gmx finds from bonds and angles where "
                "pdb2gmx -vsite left them out; give them in the row, or make the topology without -vsite"
            )
        row.expect(
            first + n_parameters, first + n_parameters, f"site, atoms, function, {n_parameters} parameters"
        )
        atoms = [row.atom(i, len(draft.molecule.atoms)) for i in range(n_parents + 1)]
        parameters = [row.number(i, "parameter") for i in range(first, len(row))]
        _add(draft, row, Site(atoms[0], kind, tuple(atoms[1:]), values(parameters)))

    return parse


def sites_n_row(draft: TopologyDraft, row: Row) -> None:
    """Read ``site func atoms``: the centre of geometry or of mass, or ``site 3 atom weight ...``."""
    if len(row) < 3:
        raise row.error("a site, a function number and atoms are expected")
    number, n = row.integer(1, "function"), len(draft.molecule.atoms)
    if number not in (1, 2, 3) or (number == 3 and len(row) % 2):
        raise row.error("function 1 or 2 and atoms, or function 3 and pairs of atom and weight, are expected")
    step = 2 if number == 3 else 1
    parents = tuple(row.atom(i, n) for i in range(2, len(row), step))
    if number == 1:
        weights = [1.0] * len(parents)
    elif number == 2:
        weights = [draft.molecule.atoms[parent].mass for parent in parents]
    else:
        weights = [row.number(i, "weight") for i in range(3, len(row), 2)]
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise row.error("weights must not be negative, and their sum not zero")
    values = tuple(weight / total for weight in weights)
    _add(draft, row, Site(row.atom(0, n), SiteKind.LINEAR, parents, values))


def _add(draft: TopologyDraft, row: Row, site: Site) -> None:
    molecule = draft.molecule
    if len({site.atom, *site.parents}) <= len(site.parents):
        raise row.error("an atom is listed twice in one virtual site")
    if site.atom in molecule.sites:
        raise row.error(f"atom {site.atom + 1} is a virtual site already")
    mass = molecule.atoms[site.atom].mass
    if mass != 0:
        raise row.error(f"atom {site.atom + 1} has the mass {mass:g}; virtual sites have none")
    molecule.sites[site.atom] = site
    molecule.site_lines[site.atom] = row.line
