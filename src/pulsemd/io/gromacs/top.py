"""Topology files of GROMACS (.top, .itp): a table from section names to the parsers of their rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from os import PathLike

from pulsemd.io.gromacs import sections
from pulsemd.io.gromacs.bonded_sections import (
    distance_restraint_row,
    pair_nb_row,
    pair_row,
    restraint_row,
    term_row,
)
from pulsemd.io.gromacs.bonded_types import cmap_row, dihedral_row, type_row
from pulsemd.io.gromacs.draft import MoleculeDraft, TopologyDraft
from pulsemd.io.gromacs.preprocessor import Line, preprocess
from pulsemd.io.gromacs.rows import Row
from pulsemd.io.gromacs.virtual_sites import site_row, sites_n_row

_HEADER = re.compile(r"\[\s*([^\[\]]*?)\s*\]$")


class Part(IntEnum):
    """Parts of a topology in the order in which they must come."""

    PARAMETERS = 0
    MOLECULE = 1
    SYSTEM = 2


@dataclass(frozen=True)
class Section:
    """A kind of section: where it may stand, and the parser of one row."""

    name: str
    part: Part
    parse: Callable[[TopologyDraft, Row], None]


def read_draft(
    path: str | PathLike[str], define: Sequence[str] = (), include_dirs: Sequence[str | PathLike[str]] = ()
) -> TopologyDraft:
    """Read every section of a topology and its includes.

    Raises
    ------
    TopologyError
        With file and line: whatever is unknown, not supported, out of order, defined twice or out of range.
    """
    draft = TopologyDraft(str(path), end=Line("", str(path), 1))
    part, section = Part.PARAMETERS, None
    for line in preprocess(path, define, include_dirs):
        if line.text.startswith("["):
            section = _section(line)
            _check_order(draft, line, part, section)
            part = max(part, section.part)
        elif section is None:
            if not line.text.startswith("*"):  # force fields have a banner of stars there
                raise line.error(f"text before the first section: {line.text[:40]!r}")
        else:
            section.parse(draft, Row(line, line.text.split()))
        draft.end = line
    return draft


def begin_intermolecular(draft: TopologyDraft, line: Line) -> None:
    """From here on atoms are those of the whole system.

    Raises
    ------
    TopologyError
        If the molecules of the system are not known yet.
    """
    if not draft.molecules:
        raise line.error("[ intermolecular_interactions ] must come after [ molecules ]")
    whole = MoleculeDraft(line, "the whole system", 0)
    for key, count in draft.molecules:
        whole.atoms += draft.molecule_types[key].atoms * count
    draft.intermolecular = whole


def _section(line: Line) -> Section:
    match = _HEADER.match(line.text)
    if match is None:
        raise line.error(f"a section is written as [ name ], not {line.text[:40]!r}")
    section = SECTIONS.get(match[1].lower().replace("-", "").replace("_", ""))
    if section is None:
        known = ", ".join(sorted(section.name for section in SECTIONS.values()))
        raise line.error(f"unknown section [ {match[1]} ]; known are {known}")
    return section


def _check_order(draft: TopologyDraft, line: Line, part: Part, section: Section) -> None:
    """Refuse a section that may not stand here."""
    name = section.name
    if draft.intermolecular is not None:
        if name not in BETWEEN_MOLECULES:
            raise line.error(
                f"[ {name} ] cannot be in [ intermolecular_interactions ], which has {', '.join(BETWEEN_MOLECULES)}"
            )
        return
    if section.part < part:
        raise line.error(
            f"[ {name} ] is out of order: it belongs before the sections of a {part.name.lower()}"
        )
    if name == "moleculetype" and not draft.atom_types:
        raise line.error("[ moleculetype ] must come after [ atomtypes ]")
    if name == "molecules" and draft.title is None:
        raise line.error("[ molecules ] must come after [ system ]")
    if name == "system":
        draft.title = ""
    if name == "intermolecular_interactions":
        begin_intermolecular(draft, line)
    if section.part == Part.MOLECULE and name != "moleculetype":
        if not draft.molecule_types:
            raise line.error(f"[ {name} ] must come after a [ moleculetype ]")
        if (name == "atoms") == bool(draft.molecule.atoms):
            raise line.error(
                f"[ {name} ] must come {'once' if name == 'atoms' else 'after [ atoms ]'} in a molecule"
            )


BETWEEN_MOLECULES = (
    *("bonds", "pairs", "pairs_nb", "angles", "dihedrals", "cmap"),
    *("distance_restraints", "angle_restraints", "angle_restraints_z", "dihedral_restraints"),
)
"""Sections of ``[ intermolecular_interactions ]``, whose atoms are counted through the whole system."""

_POLARIZABLE = "polarizable force fields are not supported; use one with fixed charges"
REFUSED = {
    "orientation_restraints": "orientations are a mean over an ensemble, which is not supported; leave them out",
    "polarization": _POLARIZABLE,
    "water_polarization": _POLARIZABLE,
    "thole_polarization": _POLARIZABLE,
}
"""Sections of gmx that are not supported, and why."""


def _refused(name: str) -> Callable[[TopologyDraft, Row], None]:
    def parse(draft: TopologyDraft, row: Row) -> None:
        raise row.error(f"[ {name} ]: {REFUSED[name]}")

    return parse


def _nothing(draft: TopologyDraft, row: Row) -> None:
    """A row where other sections begin."""
    raise row.error("[ intermolecular_interactions ] has no rows of its own, but sections such as [ bonds ]")


SECTIONS: dict[str, Section] = {
    section.name.replace("_", ""): section
    for section in (
        Section("defaults", Part.PARAMETERS, sections.defaults),
        Section("atomtypes", Part.PARAMETERS, sections.atom_type),
        Section("nonbond_params", Part.PARAMETERS, sections.nonbond_params),
        Section("pairtypes", Part.PARAMETERS, sections.pair_types),
        Section("bondtypes", Part.PARAMETERS, type_row("bonds", 2)),
        Section("constrainttypes", Part.PARAMETERS, type_row("constraints", 2)),
        Section("angletypes", Part.PARAMETERS, type_row("angles", 3)),
        Section("dihedraltypes", Part.PARAMETERS, dihedral_row),
        Section("cmaptypes", Part.PARAMETERS, cmap_row),
        Section("moleculetype", Part.MOLECULE, sections.molecule_type),
        Section("atoms", Part.MOLECULE, sections.atom),
        Section("bonds", Part.MOLECULE, term_row("bonds", 2)),
        Section("constraints", Part.MOLECULE, term_row("constraints", 2)),
        Section("pairs", Part.MOLECULE, pair_row),
        Section("angles", Part.MOLECULE, term_row("angles", 3)),
        Section("dihedrals", Part.MOLECULE, term_row("dihedrals", 4)),
        Section("cmap", Part.MOLECULE, term_row("cmap", 5)),
        Section("pairs_nb", Part.MOLECULE, pair_nb_row),
        Section("position_restraints", Part.MOLECULE, restraint_row),
        Section("distance_restraints", Part.MOLECULE, distance_restraint_row),
        Section("angle_restraints", Part.MOLECULE, term_row("angle_restraints", 4, vectors=True)),
        Section("angle_restraints_z", Part.MOLECULE, term_row("angle_restraints_z", 2)),
        Section("dihedral_restraints", Part.MOLECULE, term_row("dihedral_restraints", 4)),
        Section("settles", Part.MOLECULE, sections.settle),
        Section("exclusions", Part.MOLECULE, sections.exclusion),
        *(
            Section(f"{name}{n}", Part.MOLECULE, site_row(n))
            for name in ("virtual_sites", "dummies")
            for n in range(1, 5)
        ),
        *(Section(f"{name}n", Part.MOLECULE, sites_n_row) for name in ("virtual_sites", "dummies")),
        Section("system", Part.SYSTEM, sections.system),
        Section("molecules", Part.SYSTEM, sections.molecules),
        Section("intermolecular_interactions", Part.SYSTEM, _nothing),
        *(Section(name, Part.MOLECULE, _refused(name)) for name in REFUSED),
    )
}
"""Every section that is known, by its name without ``_`` and ``-``; a new one is a row here."""
