"""A topology while it is being read: what the sections said, in the words of the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsemd.io.gromacs.preprocessor import Line
from pulsemd.io.gromacs.type_table import TypeTable
from pulsemd.topology.virtual_sites import Site


@dataclass(frozen=True)
class Defaults:
    """The section ``[ defaults ]``."""

    comb_rule: int
    generate_pairs: bool
    fudge_lj: float
    fudge_qq: float


@dataclass(frozen=True)
class AtomType:
    """A row of ``[ atomtypes ]``; ``first`` and ``second`` are sigma and epsilon, or c6 and c12."""

    name: str
    bonded: str
    mass: float
    charge: float
    particle: str
    first: float
    second: float


@dataclass(frozen=True)
class AtomRow:
    """A row of ``[ atoms ]``."""

    line: Line
    type: str
    residue: tuple[int, str, str]
    """Number, insertion code and name."""
    name: str
    charge: float
    mass: float
    virtual: bool
    """Whether its type is that of a virtual site."""


@dataclass(frozen=True)
class SettleRow:
    """A row of ``[ settles ]``: index of the oxygen, distances O-H and H-H in nm."""

    line: Line
    oxygen: int
    doh: float
    dhh: float


@dataclass(frozen=True)
class TermRow:
    """A term with its parameters found: atom indices within the molecule."""

    line: Line
    atoms: tuple[int, ...]
    parameters: tuple[float, ...]


@dataclass
class MoleculeDraft:
    """One ``[ moleculetype ]`` with its sections."""

    line: Line
    name: str
    nrexcl: int
    atoms: list[AtomRow] = field(default_factory=list)
    settles: list[SettleRow] = field(default_factory=list)
    exclusions: list[tuple[int, int]] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    """Chemical bonds, which count for nrexcl."""
    restraint_numbers: set[float] = field(default_factory=set)
    """Indices of distance restraints."""
    sites: dict[int, Site] = field(default_factory=dict)
    """Virtual sites by their atom."""
    site_lines: dict[int, Line] = field(default_factory=dict)
    terms: dict[str, list[TermRow]] = field(default_factory=dict)
    """By kind, see `pulsemd.topology.terms.TERM_KINDS`."""


@dataclass
class TopologyDraft:
    """Everything a topology file and its includes define."""

    path: str
    defaults: Defaults | None = None
    atom_types: dict[str, AtomType] = field(default_factory=dict)
    nonbonded: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Parameters of pairs of types; the names in alphabetical order."""
    type_tables: dict[str, TypeTable] = field(default_factory=dict)
    """Parameters of bonded terms by type, by kind of term."""
    pair_types: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Like ``nonbonded``, for 1-4 pairs."""
    molecule_types: dict[str, MoleculeDraft] = field(default_factory=dict)
    """By lower-case name, as gmx compares them."""
    title: str | None = None
    molecules: list[tuple[str, int]] = field(default_factory=list)
    """Keys of ``molecule_types`` and numbers of molecules."""
    intermolecular: MoleculeDraft | None = None
    """The whole system as one molecule, with terms between molecules."""
    end: Line = field(default_factory=lambda: Line("", "", 1))
    """The last line, where what is missing is reported."""

    @property
    def molecule(self) -> MoleculeDraft:
        """The molecule type being read, or the whole system in ``[ intermolecular_interactions ]``."""
        if self.intermolecular is not None:
            return self.intermolecular
        return next(reversed(self.molecule_types.values()))
