"""Groups of atoms by name: those of an index file (.ndx), and the default ones as gmx makes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.topology.records import Topology

log = logging.getLogger(__name__)

Int32 = NDArray[np.int32]
Mask = NDArray[np.bool_]

_RESIDUES: Final = {
    "protein": "ABU ACE AIB ALA ARG ARGN ASN ASN1 ASP ASP1 ASPH ASPP ASH CT3 CYS CYS1 CYS2 CYSH DALA GLN GLU GLUH "
    "GLUP GLH GLY HIS HIS1 HISA HISB HISH HISD HISE HISP HSD HSE HSP HYP ILE LEU LSN LYS LYSN LYSH MELEU MET "
    "MEVAL NAC NME NHE NH2 PHE PHEH PHEU PHL PRO SER THR TRP TRPH TRPU TYR TYRH TYRU VAL PGLU HID HIE HIP LYP LYN "
    "CYN CYM CYX DAB ORN NALA NGLY NSER NTHR NLEU NILE NVAL NASN NGLN NARG NHID NHIE NHIP NHISD NHISE NHISH NTRP "
    "NPHE NTYR NGLU NASP NLYS NORN NDAB NLYSN NPRO NHYP NCYS NCYS2 NMET NASPH NGLUH CALA CGLY CSER CTHR CLEU CILE "
    "CVAL CASN CGLN CARG CHID CHIE CHIP CHISD CHISE CHISH CTRP CPHE CTYR CGLU CASP CLYS CORN CDAB CLYSN CPRO CHYP "
    "CCYS CCYS2 CMET CASPH CGLUH",
    "dna": "DA DG DC DT DA5 DG5 DC5 DT5 DA3 DG3 DC3 DT3 DAN DGN DCN DTN",
    "rna": "A U C G RA RU RC RG RA5 RT5 RU5 RC5 RG5 RA3 RT3 RU3 RC3 RG3 RAN RTN RUN RCN RGN",
    "water": "SOL WAT HOH OHH TIP T3P T4P T5P T3H",
    "ion": "K NA CA MG CL ZN CU1 CU LI NA+ RB CS F CL- BR I OH Cal IB+",
}
"""Names of residues by kind, as they are written: those of residuetypes.dat of gmx 2022.5."""

_KINDS: Final = {
    kind: frozenset(name.encode() for name in names.split()) for kind, names in _RESIDUES.items()
}
_BACKBONE: Final = (b"N", b"CA", b"C")
_MAIN: Final = (*_BACKBONE, b"O", b"O1", b"O2", b"OC1", b"OC2", b"OT", b"OXT")
_MAIN_HYDROGENS: Final = (b"H", b"HN", b"H1", b"H2", b"H3")
_DUMMY_MASSES: Final = tuple(b"M" + name for name in b"N1 N2 CB1 CB2 CG1 CG2 CD1 CD2 CE1 CE2 NZ1 NZ2".split())
"""Masses without interactions of ``pdb2gmx -vsite``."""


class Groups:
    """Named groups of atoms.

    Parameters
    ----------
    topology : Topology
    index : path of a .ndx, optional
        Its groups come before the default ones of the same name, in any case of letters.

    Raises
    ------
    InputError
        If the index file cannot be read; with its line.
    """

    def __init__(self, topology: Topology, index: str | PathLike[str] | None = None) -> None:
        self._topology = topology
        self._read = {} if index is None else read_index(index, topology.n_atoms)
        self._index = index

    def find(self, name: str, option: str) -> Int32:
        """Global ids of the atoms of a group; in any case of letters, if there is none that is written so.

        Raises
        ------
        InputError
            If there is no such group; lists those there are.
        """
        defaults = default_groups(self._topology)
        for groups in (self._read, defaults):
            for written in (str, str.lower):
                for known, gids in groups.items():
                    if written(known) == written(name):
                        return gids
        remedy = "; an index file, -n, in Python index=, can name others" if self._index is None else ""
        raise InputError(
            f"{option}: there is no group {name}; there are {', '.join(self._read | defaults)}{remedy}",
            self._index,
        )

    def is_whole(self, name: str) -> bool:
        """Whether a name is that of the default group of all atoms, which an index file may have replaced."""
        return name.lower() == "system" and not any(known.lower() == "system" for known in self._read)

    def union(self, names: Sequence[str], option: str) -> Int32 | None:
        """Atoms of all groups together, in order; None for the whole system."""
        if not names or any(self.is_whole(name) for name in names):
            return None
        return np.unique(np.concatenate([self.find(name, option) for name in names])).astype(np.int32)

    def of_atoms(self, names: Sequence[str], option: str, rest: bool = False) -> Int32:
        """Which of the groups each atom is in, (n_atoms,); with `rest` -1 where it is in none.

        Raises
        ------
        InputError
            If they hold an atom more than once, or without `rest` not at all.
        """
        n_atoms = self._topology.n_atoms
        found, count = np.full(n_atoms, -1, np.int32), np.zeros(n_atoms, np.int64)
        for number, name in enumerate(names):
            gids = self.find(name, option)
            found[gids] = number
            count[gids] += 1
        wrong = np.flatnonzero(count > 1 if rest else count != 1)
        if len(wrong):
            atom, how = self._topology.describe_atom(int(wrong[0])), "at most one" if rest else "one"
            raise InputError(
                f"{option}: {atom} is in {count[wrong[0]]} of the groups {', '.join(names)}; each atom has to be in "
                f"{how}"
            )
        return found


def read_index(path: str | PathLike[str], n_atoms: int) -> dict[str, Int32]:
    """Groups of a .ndx file by name; global ids count from 0. As in gmx the first of a name counts, with a warning.

    Raises
    ------
    InputError
        With file and line: numbers before the first name, or that are no atoms of the system.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            lines = handle.readlines()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    groups: dict[str, list[int]] = {}
    members: list[int] | None = None
    for number, line in enumerate(lines, 1):
        text = line.partition(";")[0].strip()
        if text.startswith("["):
            name, members = text.strip("[] \t"), []
            if name in groups:
                log.warning(
                    "%s:%d: a second group %s, which is not used: the first counts", path, number, name
                )
            groups.setdefault(name, members)
            continue
        for word in text.split():
            if members is None or not word.isdigit() or not 1 <= int(word) <= n_atoms:
                raise InputError(f"{word!r} is no atom 1 to {n_atoms} of a [ group ]", path, number)
            members.append(int(word) - 1)
    return {name: np.array(gids, np.int32) for name, gids in groups.items()}


def default_groups(topology: Topology) -> dict[str, Int32]:
    """The groups ``gmx make_ndx`` makes, but no empty ones, then one for each name of a residue or molecule."""
    labels = topology.labels(0, topology.n_atoms)
    residue, atom = labels.residue_name, labels.atom_name
    names, inverse = np.unique(residue, return_inverse=True)

    def of(kind: str) -> Mask:
        mask: Mask = np.array([name in _KINDS[kind] for name in names.tolist()])[inverse]
        return mask

    protein, dna, rna, water, ion = (of(kind) for kind in _KINDS)
    masks = {"System": np.ones(topology.n_atoms, bool), "Protein": protein, **_protein_parts(protein, atom)}
    masks |= {
        "DNA": dna,
        "RNA": rna,
        "Water": water,
        "SOL": water,
        "Ion": ion,
        "Other": ~(protein | dna | rna | water | ion),
    }
    if protein.any():
        masks["non-Protein"] = ~protein
    if water.any():
        masks["non-Water"] = ~water
    if water.any() and ion.any():
        masks["Water_and_ions"] = water | ion
    for name in names:
        masks.setdefault(name.decode("utf-8", "replace"), residue == name)
    for number, kind in enumerate(topology.molecule_types):
        masks.setdefault(kind.name, _of_molecules(topology, number))
    return {name: np.flatnonzero(mask).astype(np.int32) for name, mask in masks.items() if mask.any()}


def _protein_parts(protein: Mask, atom: NDArray[np.bytes_]) -> dict[str, Mask]:
    """Parts of the protein by names of atoms (n,), in any case and without digits before them."""
    written, inverse = np.unique(atom, return_inverse=True)
    plain = np.array([name.upper().lstrip(b"0123456789") for name in written.tolist()])

    def named(names: Sequence[bytes]) -> Mask:
        mask: Mask = np.isin(plain, names)[inverse]
        return mask

    hydrogen = np.char.startswith(plain, b"H")[inverse]
    main = named(_MAIN)
    main_and_hydrogen = main | named(_MAIN_HYDROGENS)
    return {
        "Protein-H": protein & ~hydrogen,
        "C-alpha": protein & named([b"CA"]),
        "Backbone": protein & named(_BACKBONE),
        "MainChain": protein & main,
        "MainChain+Cb": protein & (main | named([b"CB"])),
        "MainChain+H": protein & main_and_hydrogen,
        "SideChain": protein & ~main_and_hydrogen,
        "SideChain-H": protein & ~main & ~hydrogen,
        "Prot-Masses": protein & ~named(_DUMMY_MASSES),
    }


def _of_molecules(topology: Topology, number: int) -> Mask:
    mask = np.zeros(topology.n_atoms, bool)
    for block in topology.blocks:
        if block.molecule_type == number:
            size = block.n_molecules * topology.molecule_types[number].n_atoms
            mask[block.first_atom : block.first_atom + size] = True
    return mask
