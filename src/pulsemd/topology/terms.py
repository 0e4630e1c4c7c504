"""Interaction terms of listed atoms: what kinds there are and how a table of them is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Terms:
    """All terms of one kind.

    Parameters
    ----------
    atoms : (m, k) int32
    index : (m,) int32
        Row of ``parameters`` for each term.
    parameters : (p, c) float64
        Distinct sets of parameters; columns as in `TERM_KINDS`.
    """

    atoms: NDArray[np.int32]
    index: NDArray[np.int32]
    parameters: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.atoms)


@dataclass(frozen=True)
class TermKind:
    """Number of atoms of a term and its parameters with units; a grid for cmap."""

    n_atoms: int
    parameters: tuple[str, ...]


TERM_KINDS: Mapping[str, TermKind] = {
    "bond": TermKind(2, ("length [nm]", "k [kJ/mol/nm^2]")),
    "constraint": TermKind(2, ("length [nm]",)),
    "quartic_bond": TermKind(2, ("length [nm]", "k [kJ/mol/nm^4]")),
    "morse_bond": TermKind(2, ("length [nm]", "depth [kJ/mol]", "beta [1/nm]")),
    "cubic_bond": TermKind(2, ("length [nm]", "k [kJ/mol/nm^2]", "cubic factor [1/nm]")),
    "connection": TermKind(2, ()),
    "harmonic_distance": TermKind(2, ("length [nm]", "k [kJ/mol/nm^2]")),
    "fene_bond": TermKind(2, ("largest length [nm]", "k [kJ/mol/nm^2]")),
    "restraint_bond": TermKind(2, ("low [nm]", "up [nm]", "linear from [nm]", "k [kJ/mol/nm^2]")),
    "angle": TermKind(3, ("angle [degree]", "k [kJ/mol/rad^2]")),
    "cosine_angle": TermKind(3, ("angle [degree]", "k [kJ/mol]")),
    "bond_bond_cross": TermKind(3, ("length 1-2 [nm]", "length 2-3 [nm]", "k [kJ/mol/nm^2]")),
    "bond_angle_cross": TermKind(
        3, ("length 1-2 [nm]", "length 2-3 [nm]", "distance 1-3 [nm]", "k [kJ/mol/nm^2]")
    ),
    "quartic_angle": TermKind(3, ("angle [degree]", *(f"C{i} [kJ/mol/rad^{i}]" for i in range(5)))),
    "linear_angle": TermKind(3, ("part of atom 1", "k [kJ/mol/nm^2]")),
    "restricted_angle": TermKind(3, ("angle [degree]", "k [kJ/mol]")),
    "urey_bradley": TermKind(
        3, ("angle [degree]", "k [kJ/mol/rad^2]", "distance 1-3 [nm]", "k 1-3 [kJ/mol/nm^2]")
    ),
    "proper": TermKind(4, ("phase [degree]", "k [kJ/mol]", "multiplicity")),
    "periodic_improper": TermKind(4, ("phase [degree]", "k [kJ/mol]", "multiplicity")),
    "improper": TermKind(4, ("angle [degree]", "k [kJ/mol/rad^2]")),
    "ryckaert_bellemans": TermKind(4, tuple(f"C{i} [kJ/mol]" for i in range(6))),
    "fourier": TermKind(4, tuple(f"F{i} [kJ/mol]" for i in range(1, 5))),
    "restricted_dihedral": TermKind(4, ("angle [degree]", "k [kJ/mol]")),
    "bending_torsion": TermKind(4, ("k [kJ/mol]", *(f"a{i}" for i in range(5)))),
    "charged_pair14": TermKind(2, ("c6 [kJ/mol nm^6]", "c12 [kJ/mol nm^12]", "product of its charges [e^2]")),
    "pair_nb": TermKind(2, ("c6 [kJ/mol nm^6]", "c12 [kJ/mol nm^12]", "product of its charges [e^2]")),
    "lj14": TermKind(2, ("c6 [kJ/mol nm^6]", "c12 [kJ/mol nm^12]", "factor of the charge product")),
    "position_restraint": TermKind(1, ("kx [kJ/mol/nm^2]", "ky [kJ/mol/nm^2]", "kz [kJ/mol/nm^2]")),
    "flat_bottom": TermKind(
        1, ("x counts", "y counts", "z counts", "radius [nm], negative: keep outside", "k [kJ/mol/nm^2]")
    ),
    "distance_restraint": TermKind(2, ("low [nm]", "up [nm]", "linear from [nm]", "k [kJ/mol/nm^2]")),
    "angle_restraint": TermKind(4, ("angle [degree]", "k [kJ/mol]", "multiplicity")),
    "angle_restraint_z": TermKind(2, ("angle [degree]", "k [kJ/mol]", "multiplicity")),
    "dihedral_restraint": TermKind(4, ("angle [degree]", "width [degree]", "k [kJ/mol/rad^2]")),
    "cmap": TermKind(5, ("energy [kJ/mol] at (phi, psi), phi in rows, both from -180 degrees on",)),
}
"""Every kind of term, by the name of its energy where it has one of its own."""

WITHOUT_ENERGY = ("constraint", "connection")
"""Kinds that add no force: a constraint acts in the update, a connection only says what is bonded."""

BONDS = ("bond", "quartic_bond", "morse_bond", "cubic_bond", "connection", "fene_bond", "constraint")
"""Kinds along which a molecule is one piece."""

REFERENCED = ("position_restraint", "flat_bottom")
"""Kinds that refer to reference positions."""
