"""Positions, velocities, box and names, as scripts of OpenMM have them."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.openmm.document import Document, Element, box_vectors, columns, read_document
from pulsemd.io.openmm.molecules import Names

Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Start:
    """Positions (n, 3) nm, velocities (n, 3) nm/ps or None, and box (3, 3) nm."""

    positions: Float64
    velocities: NDArray[np.float32] | None
    box: Float64


def read_state(positions: Any) -> Document | None:
    """A State, in memory or as the path of its XML; None for positions alone.

    Raises
    ------
    InputError
        For an object of another class that has positions.
    """
    if isinstance(positions, str | PathLike):
        return read_document(positions, "State")
    if not hasattr(positions, "getPositions"):
        return None
    if not hasattr(positions, "getPotentialEnergy"):
        raise InputError(f"positions: {type(positions).__name__} is no State; give its .positions")
    return read_document(positions, "State")


def read_start(document: Document, n_atoms: int, positions: Any, velocities: Any, box: Any) -> Start:
    """Where the particles are, see `read_openmm`; `positions` may be the `Document` of a State.

    Raises
    ------
    InputError
        If an array has another shape, or there is no box.
    """
    vectors = box_vectors(document.element)
    if isinstance(positions, Document):
        state = positions.element
        found = box_vectors(state)
        vectors = vectors if found is None else found
        velocities = _rows(state, "Velocities") if velocities is None else velocities
        positions = _rows(state, "Positions")
        if positions is None:
            raise InputError("the State has no positions; make it with getState(positions=True)")
    vectors = vectors if box is None else in_units(box, "box", (3, 3))
    if vectors is None or not np.any(vectors):
        document.refuse("there is no periodic box; give box=")
    moving = (
        None if velocities is None else in_units(velocities, "velocities", (n_atoms, 3)).astype(np.float32)
    )
    return Start(in_units(positions, "positions", (n_atoms, 3)), moving, vectors)


def _rows(state: Element, section: str) -> Float64 | None:
    found = state.find(section)
    return None if found is None else columns(found, ("x", "y", "z"))


def in_units(values: Any, what: str, shape: tuple[int, int]) -> Float64:
    """A Quantity, or numbers in our units, as an array.

    Raises
    ------
    InputError
        If it has another shape or unit, or is something else.
    """
    if isinstance(values, list | tuple) and any(hasattr(value, "value_in_unit") for value in values):
        values = [_plain(value, what) for value in values]
    try:
        array = np.array(_plain(values, what), np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what}: {type(values).__name__} is no array of numbers, with or without unit: {error}"
        ) from error
    if array.shape != shape:
        raise InputError(f"{what}: an array of shape {shape} is needed, not {array.shape}")
    return array


def _plain(values: Any, what: str) -> Any:
    if not hasattr(values, "value_in_unit"):
        return values
    from openmm import unit

    return values.value_in_unit(unit.nanometer / unit.picosecond if what == "velocities" else unit.nanometer)


def read_names(topology: Any, n_atoms: int, waters: NDArray[np.int32]) -> Names:
    """Names of atoms and residues from an ``openmm.app.Topology``; without one rigid waters are HOH, others MOL.

    Raises
    ------
    InputError
        If it has another number of atoms, or is something else.
    """
    if topology is None:
        return _invented_names(n_atoms, waters)
    if not hasattr(topology, "atoms"):
        raise InputError(f"topology: {type(topology).__name__} is no openmm.app.Topology; give its .topology")
    atoms = list(topology.atoms())
    if len(atoms) != n_atoms:
        raise InputError(f"topology: {len(atoms)} atoms, but the System has {n_atoms} particles")
    index = np.array([atom.residue.index for atom in atoms])
    numbers = [int(atom.residue.id) if str(atom.residue.id).isdigit() else 0 for atom in atoms]
    start = np.append(True, np.diff(index) != 0)
    names = [atom.name for atom in atoms]
    return Names(names, [atom.residue.name for atom in atoms], np.array(numbers, np.int64), start)


def _invented_names(n_atoms: int, waters: NDArray[np.int32]) -> Names:
    atom, residue = np.full(n_atoms, "X", "<U4"), np.full(n_atoms, "MOL", "<U3")
    for column, name in enumerate(("O", "H1", "H2")):
        atom[waters[:, column]] = name
        residue[waters[:, column]] = "HOH"
    return Names(atom.tolist(), residue.tolist(), np.ones(n_atoms, np.int64), np.zeros(n_atoms, bool))
