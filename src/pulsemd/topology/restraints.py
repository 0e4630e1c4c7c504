"""Reference positions of restraints: their centre, and how they follow a box that changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.topology.records import MoleculeType, Topology

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class ReferencePositions:
    """Reference positions of restraints on the lattice, where they scale with the box.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
        In the first box.
    rigid : (n, 2, 3) float64 or None
        What does not scale, the vector from the common centre: in first box vectors, and in nm. None: all scales.
    """

    x: Int32
    rigid: NDArray[np.float64] | None = None

    def of(self, atoms: Int32) -> tuple[Int32, Float64]:
        """`x` (m, 3) and `rigid` (m, 2, 3) of atoms (m,)."""
        return self.x[atoms], np.zeros((len(atoms), 2, 3)) if self.rigid is None else self.rigid[atoms]


def restraint_centre(topology: Topology, positions: Float64) -> Float64:
    """Centre of mass (3,) of the reference positions (n, 3) of restrained atoms, as gmx 2022.5 takes it.

    Of equal molecules in a row only the first counts. Each position restraint counts its atom, each flat bottom too
    unless a position restraint is on the atom of this number in the same or an earlier kind of molecule.

    Raises
    ------
    InputError
        If these atoms have no mass.
    """
    moment, mass = np.zeros(3), 0.0
    harmonic: set[int] = set()
    before = -1
    for block in topology.blocks:
        if block.molecule_type != before:
            kind = topology.molecule_types[block.molecule_type]
            atoms = _restrained_atoms(kind, "position_restraint")
            harmonic.update(atoms)
            atoms += [atom for atom in _restrained_atoms(kind, "flat_bottom") if atom not in harmonic]
            rows = np.array(atoms, np.int64)
            weights = kind.mass[rows]
            moment += weights @ positions[block.first_atom + rows]
            mass += float(weights.sum())
        before = block.molecule_type
    if mass == 0.0:
        raise InputError("refcoord-scaling = com: the restrained atoms have no mass; use all")
    return np.asarray(moment / mass, np.float64)


def _restrained_atoms(kind: MoleculeType, name: str) -> list[int]:
    return [int(atom) for atom in kind.terms[name].atoms[:, 0]] if name in kind.terms else []
