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
    "angle": TermKind(3, ("angle [degree]", "k [kJ/mol/rad^2]")),
    "urey_bradley": TermKind(
        3, ("angle [degree]", "k [kJ/mol/rad^2]", "distance 1-3 [nm]", "k 1-3 [kJ/mol/nm^2]")
    ),
    "proper": TermKind(4, ("phase [degree]", "k [kJ/mol]", "multiplicity")),
    "periodic_improper": TermKind(4, ("phase [degree]", "k [kJ/mol]", "multiplicity")),
    "improper": TermKind(4, ("angle [degree]", "k [kJ/mol/rad^2]")),
    "ryckaert_bellemans": TermKind(4, tuple(f"C{i} [kJ/mol]" for i in range(6))),
    "lj14": TermKind(2, ("c6 [kJ/mol nm^6]", "c12 [kJ/mol nm^12]", "factor of the charge product")),
    "position_restraint": TermKind(1, ("kx [kJ/mol/nm^2]", "ky [kJ/mol/nm^2]", "kz [kJ/mol/nm^2]")),
    "cmap": TermKind(5, ("energy [kJ/mol] at (phi, psi), phi in rows, both from -180 degrees on",)),
}
"""Every kind of term, by the name of its energy where it has one of its own."""
