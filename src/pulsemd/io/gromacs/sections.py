"""Parsers of the rows of topology sections; `pulsemd.io.gromacs.top` says which belongs to which section."""

from __future__ import annotations

import logging
import re
from dataclasses import replace

from pulsemd.io.gromacs.draft import AtomRow, AtomType, Defaults, MoleculeDraft, SettleRow, TopologyDraft
from pulsemd.io.gromacs.rows import Row

log = logging.getLogger(__name__)

_RESIDUE = re.compile(r"(-?\d+)(\D?)$")


def defaults(draft: TopologyDraft, row: Row) -> None:
    """Read ``nbfunc comb-rule gen-pairs fudgeLJ fudgeQQ n``."""
    row.expect(2, 6, "nbfunc comb-rule gen-pairs fudgeLJ fudgeQQ n")
    if draft.defaults is not None:
        raise row.error("[ defaults ] was given before")
    if row.integer(0, "nbfunc") != 1:
        raise row.error(f"nbfunc {row.words[0]} is not supported: only 1, Lennard-Jones")
    comb_rule = row.integer(1, "comb-rule")
    if comb_rule not in (1, 2, 3):
        raise row.error(f"comb-rule {comb_rule} does not exist: 1, 2 or 3")
    generate = len(row) > 2 and row.words[2].lower().startswith("y")
    fudge = [row.number(i, "fudge factor") if len(row) > i else 1.0 for i in (3, 4)]
    if len(row) > 5 and row.number(5, "exponent") != 12.0:
        raise row.error(f"repulsion with exponent {row.words[5]} is not supported: only 12")
    draft.defaults = Defaults(comb_rule, generate, *fudge)


def atom_type(draft: TopologyDraft, row: Row) -> None:
    """Read ``name [bonded type] [atomic number] mass charge ptype V W``; as in gmx the letter tells which."""
    if draft.defaults is None:
        raise row.error("[ defaults ] must come before [ atomtypes ]")
    row.expect(6, 8, "name, bonded type and atomic number if wanted, mass charge ptype V W")
    optional = len(row) - 6
    bonded = row.words[1] if optional == 2 or (optional == 1 and row.words[1][0].isalpha()) else row.words[0]
    particle = row.words[optional + 3].upper()
    if particle not in ("A", "D", "V", "S"):
        raise row.error(f"particle type {row.words[optional + 3]!r} is not one of A, D, V, S")
    mass, charge = row.number(optional + 1, "mass"), row.number(optional + 2, "charge")
    first, second = _pair_parameters(draft, row, optional + 4)
    new = AtomType(row.words[0], bonded, mass, charge, particle, first, second)
    before = draft.atom_types.get(new.name, new)
    if replace(before, mass=mass, charge=charge) != new:
        raise row.error(f"atom type {new.name} was defined before with other values; delete one of both rows")
    if before != new:
        log.warning("atom type %s was defined before with another mass or charge; the last counts", new.name)
    draft.atom_types[new.name] = new


def nonbond_params(draft: TopologyDraft, row: Row) -> None:
    """Read ``type type func V W``: what replaces the combination rule for a pair of types."""
    _type_pair(draft, row, draft.nonbonded)


def pair_types(draft: TopologyDraft, row: Row) -> None:
    """Read ``type type func V W`` for 1-4 pairs."""
    _type_pair(draft, row, draft.pair_types)


def _type_pair(draft: TopologyDraft, row: Row, table: dict[tuple[str, str], tuple[float, float]]) -> None:
    row.expect(5, 5, "type type func V W")
    for name in row.words[:2]:
        if name not in draft.atom_types:
            raise row.error(f"atom type {name} is not defined")
    if row.integer(2, "function") != 1:
        raise row.error(f"function {row.words[2]} is not supported here: only 1, Lennard-Jones")
    new = _pair_parameters(draft, row, 3)
    one, two = sorted(row.words[:2])
    if table.setdefault((one, two), new) != new:
        raise row.error(f"the pair {one} {two} was defined before with other values; delete one of both rows")


def _pair_parameters(draft: TopologyDraft, row: Row, column: int) -> tuple[float, float]:
    """Read sigma and epsilon, or c6 and c12; only sigma may be negative (it then switches dispersion off)."""
    first, second = row.number(column, "V"), row.number(column + 1, "W")
    with_sigma = draft.defaults is not None and draft.defaults.comb_rule != 1
    if second < 0 or (first < 0 and not with_sigma):
        raise row.error(f"negative {'epsilon' if with_sigma else 'c6 or c12'} cannot be combined with others")
    return first, second


def molecule_type(draft: TopologyDraft, row: Row) -> None:
    """Read ``name nrexcl`` and begin a molecule type."""
    row.expect(2, 2, "name nrexcl")
    name, nrexcl = row.words[0], row.integer(1, "nrexcl")
    if nrexcl < 0:
        raise row.error(f"nrexcl is {nrexcl}; it cannot be negative")
    if name.lower() in draft.molecule_types:
        raise row.error(f"molecule type {name} was defined before (upper and lower case are the same)")
    draft.molecule_types[name.lower()] = MoleculeDraft(row.line, name, nrexcl)


def atom(draft: TopologyDraft, row: Row) -> None:
    """Read ``nr type resnr residue atom cgnr [charge [mass]]``; what is omitted comes from the type."""
    molecule = draft.molecule
    if len(row) > 8:
        raise row.error(
            "a second state (typeB, chargeB, massB) is not supported: no free-energy perturbation"
        )
    row.expect(6, 8, "nr type resnr residue atom cgnr charge mass")
    if row.integer(0, "nr") != len(molecule.atoms) + 1:
        raise row.error(
            f"atoms are numbered from 1: {len(molecule.atoms) + 1} is expected, not {row.words[0]}"
        )
    kind = draft.atom_types.get(row.words[1])
    if kind is None:
        raise row.error(f"atom type {row.words[1]} is not defined")
    if kind.particle == "S":
        raise row.error(f"atom type {kind.name} is a shell, which is not supported")
    residue = _RESIDUE.match(row.words[2])
    if residue is None:
        raise row.error(f"residue number {row.words[2]!r} is not a number with at most one letter")
    charge = row.number(6, "charge") if len(row) > 6 else kind.charge
    mass = row.number(7, "mass") if len(row) > 7 else kind.mass
    if mass < 0:
        source = "given here" if len(row) > 7 else f"of atom type {kind.name}"
        raise row.error(f"atom {row.words[4]} has the mass {mass:g} {source}; masses must not be negative")
    key = (int(residue[1]), residue[2], row.words[3])
    molecule.atoms.append(AtomRow(row.line, kind.name, key, row.words[4], charge, mass, kind.particle != "A"))


def settle(draft: TopologyDraft, row: Row) -> None:
    """Read ``atom func doh dhh``: a rigid water of this atom and the next two."""
    row.expect(4, 4, "atom func doh dhh")
    atoms = draft.molecule.atoms
    oxygen = row.atom(0, len(atoms))
    if row.integer(1, "function") != 1:
        raise row.error(f"function {row.words[1]} of [ settles ] does not exist: only 1")
    if oxygen + 3 > len(atoms):
        raise row.error(f"atom {oxygen + 1} must be followed by two hydrogens, but the molecule ends")
    doh, dhh = row.number(2, "doh"), row.number(3, "dhh")
    if not 0 < dhh < 2 * doh:
        raise row.error(f"no triangle has sides {doh} and {dhh} nm (O-H and H-H)")
    water, hydrogens = atoms[oxygen : oxygen + 3], atoms[oxygen + 1 : oxygen + 3]
    names = " ".join(atom.name for atom in water)
    if hydrogens[0].mass != hydrogens[1].mass or len({atom.residue for atom in water}) > 1:
        raise row.error(
            f"atoms {names} are no water: two equal masses after the oxygen in one residue are needed"
        )
    if any(abs(other.oxygen - oxygen) < 3 for other in draft.molecule.settles[-1:]):
        raise row.error(f"atoms {names} overlap with another rigid water")
    draft.molecule.settles.append(SettleRow(row.line, oxygen, doh, dhh))


def exclusion(draft: TopologyDraft, row: Row) -> None:
    """Read an atom and those it does not interact with."""
    atoms = [row.atom(column, len(draft.molecule.atoms)) for column in range(len(row))]
    draft.molecule.exclusions += [(atoms[0], other) for other in atoms[1:]]


def system(draft: TopologyDraft, row: Row) -> None:
    """Read the title."""
    draft.title = row.line.text


def molecules(draft: TopologyDraft, row: Row) -> None:
    """Read ``name number``."""
    row.expect(2, 2, "name number")
    key, count = row.words[0].lower(), row.integer(1, "number of molecules")
    if key not in draft.molecule_types:
        raise row.error(f"molecule type {row.words[0]} is not defined")
    if count < 0:
        raise row.error(f"{count} molecules of {row.words[0]}; the number cannot be negative")
    draft.molecules.append((key, count))
