"""Forces of all bonded terms of one rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pulsemd.kernels.bonded import bends, stretches, twists
from pulsemd.kernels.bonded import terms as kernels
from pulsemd.kernels.bonded.cmap import cmap_coefficients, cmaps
from pulsemd.kernels.bonded.restraints import flat_bottoms, position_restraints
from pulsemd.topology.restraints import ReferencePositions
from pulsemd.topology.terms import REFERENCED, TERM_KINDS, Terms

KERNELS = {
    "bond": (kernels.harmonic_bonds, "bond"),
    "quartic_bond": (stretches.quartic_bonds, "quartic_bond"),
    "morse_bond": (stretches.morse_bonds, "morse_bond"),
    "cubic_bond": (stretches.cubic_bonds, "cubic_bond"),
    "fene_bond": (stretches.fene_bonds, "fene_bond"),
    "harmonic_distance": (kernels.harmonic_bonds, "harmonic_distance"),
    "restraint_bond": (stretches.distance_restraints, "restraint_bond"),
    "angle": (kernels.harmonic_angles, "angle"),
    "cosine_angle": (bends.cosine_angles, "cosine_angle"),
    "bond_bond_cross": (bends.bond_bond_crosses, "bond_bond_cross"),
    "bond_angle_cross": (bends.bond_angle_crosses, "bond_angle_cross"),
    "quartic_angle": (bends.quartic_angles, "quartic_angle"),
    "linear_angle": (bends.linear_angles, "linear_angle"),
    "restricted_angle": (bends.restricted_angles, "restricted_angle"),
    "urey_bradley": (kernels.urey_bradley_angles, "urey_bradley"),
    "proper": (kernels.proper_dihedrals, "proper"),
    "periodic_improper": (kernels.proper_dihedrals, "improper"),
    "improper": (kernels.harmonic_impropers, "improper"),
    "ryckaert_bellemans": (kernels.ryckaert_bellemans, "ryckaert_bellemans"),
    "fourier": (kernels.ryckaert_bellemans, "fourier"),
    "restricted_dihedral": (twists.restricted_dihedrals, "restricted_dihedral"),
    "bending_torsion": (twists.bending_torsions, "bending_torsion"),
    "lj14": (kernels.pairs14, "lj14"),
    "charged_pair14": (kernels.pairs14, "lj14"),
    "pair_nb": (kernels.pairs14, "lj"),
    "position_restraint": (position_restraints, "position_restraint"),
    "flat_bottom": (flat_bottoms, "flat_bottom"),
    "distance_restraint": (stretches.distance_restraints, "distance_restraint"),
    "angle_restraint": (bends.angle_restraints, "angle_restraint"),
    "angle_restraint_z": (bends.angle_restraints_z, "angle_restraint_z"),
    "dihedral_restraint": (twists.dihedral_restraints, "dihedral_restraint"),
    "cmap": (cmaps, "cmap"),
}
"""Kernel of each kind of term, and the energy it adds to; those of pairs add to the next, of Coulomb, too."""


class BondedForces:
    """Bonded terms, 1-4 pairs and restraints.

    Parameters
    ----------
    terms : mapping of kind to Terms
        Of the whole system, by global ids.
    charge : (n,) float64, e, of all atoms
    coulomb_factor : float, 1/(4 pi eps0 eps_r) [kJ mol^-1 nm e^-2]
    slots : mapping of energy name to its index in the sums
    virial : int, index of the first of the nine elements of the virial in the sums
    scale : float
        0 for float forces, else fixed-point units per kJ/mol/nm.
    reference : ReferencePositions or None
        Of restraints, by global id.

    Notes
    -----
    Call `bind` after each search, then `add` in each step; `bad_row` when it suits.
    """

    def __init__(
        self,
        terms: Mapping[str, Terms],
        charge: np.ndarray,
        coulomb_factor: float,
        slots: Mapping[str, int],
        virial: int,
        scale: float,
        reference: ReferencePositions | None,
    ) -> None:
        self._slots, self._virial, self._scale, self._reference = slots, virial, scale, reference
        self._atoms = {kind: terms[kind].atoms for kind in terms if kind in KERNELS}
        self._index, self._parameters = {}, {}
        for kind in self._atoms:
            self._index[kind], self._parameters[kind] = kernel_parameters(
                kind, terms[kind], charge, coulomb_factor
            )
        self._local: dict[str, tuple[tuple[np.ndarray, ...], np.ndarray]] = {}
        self._error = np.zeros(1, np.int64)
        self._no_sums = np.zeros(0, np.int64 if scale > 0 else np.float64)

    def bind(self, kind: str, mine: np.ndarray, rows: np.ndarray) -> None:
        """Take over the terms of one kind that this rank computes.

        Parameters
        ----------
        mine : (m,) int64, their indices in the topology
        rows : (m, k) int32, their local rows
        """
        where: tuple[np.ndarray, ...] = (rows,)
        if kind in REFERENCED:
            assert self._reference is not None
            where += self._reference.of(self._atoms[kind][mine, 0])
        self._local[kind] = (where, self._index[kind][mine])

    def add(self, x: np.ndarray, box: np.ndarray, forces: np.ndarray, sums: np.ndarray | None) -> None:
        """Add all terms.

        Parameters
        ----------
        x : (n_local, 3) int32, lattice units, ghosts included
        box : (3, 3) float64, nm
        forces : (n_local, 3) float32 kJ/mol/nm, or int64 fixed point
            OUTPUT, added to.
        sums : energies and virial, or None
            OUTPUT, added to.
        """
        sums = self._no_sums if sums is None else sums
        for kind, (where, index) in self._local.items():
            kernel, energy = KERNELS[kind]
            kernel(
                x, box, *where, index, self._parameters[kind], forces, sums,
                self._slots[energy], self._virial, self._scale, self._error,
            )  # fmt: skip

    def bad_row(self) -> int:
        """Local row of an atom with an impossible force since the last call, or -1."""
        row = int(self._error[0]) - 1
        self._error[0] = 0
        return row


def kernel_parameters(
    kind: str, terms: Terms, charge: np.ndarray, coulomb_factor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Index of each term and the table it points to, in the units of the kernels."""
    if kind == "cmap":
        grids = terms.parameters
        n = round(float(np.sqrt(grids.shape[1])))
        return terms.index, np.stack([cmap_coefficients(grid.reshape(n, n)) for grid in grids])
    if kind == "lj14":
        qq = coulomb_factor * terms.parameters[terms.index, 2]
        qq = qq * charge[terms.atoms[:, 0]] * charge[terms.atoms[:, 1]]
        rows = np.column_stack([terms.parameters[terms.index, :2], qq])
        table, index = np.unique(rows, axis=0, return_inverse=True)
        return index.ravel().astype(np.int32), np.ascontiguousarray(table)
    table = terms.parameters.astype(np.float64)
    if kind in ("charged_pair14", "pair_nb"):
        table[:, 2] *= coulomb_factor
    if kind == "fourier":
        return terms.index, _cosine_powers(table)
    for column, name in enumerate(TERM_KINDS[kind].parameters):
        if name.endswith("[degree]"):
            table[:, column] = np.radians(table[:, column])
    return terms.index, table


def _cosine_powers(f: np.ndarray) -> np.ndarray:
    """C_0 ... C_5 (p, 6) of V = 1/2 sum_n F_n (1 - (-1)^n cos(n phi)), n = 1 ... 4; F is (p, 4)."""
    f1, f2, f3, f4 = f.T
    odd = 0.5 * (3.0 * f3 - f1)
    return np.column_stack([f2 + 0.5 * (f1 + f3), odd, 4.0 * f4 - f2, -2.0 * f3, -4.0 * f4, 0.0 * f1])
