"""Layout of the arrays that a search on the device leaves for every other kernel.

Atoms stand in *slots*. Eight consecutive slots are a cluster, eight consecutive clusters (64 slots) a
supercluster; superclusters are neighbors in memory if they are neighbors in space. A slot that holds no atom
has gid -1, a position copied from an atom nearby, charge 0 and parameters that interact with nothing. Slots
from ``n_slots`` on are unused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SUPERCLUSTER = 64
"""Slots of a supercluster."""


@dataclass
class Slots:
    """Atoms in cluster order, all arrays on the device.

    Parameters
    ----------
    capacity : int
        Slots of each array, a multiple of 64. The arrays keep their addresses until it changes.
    n_slots : int
        Slots in use, a multiple of 64; known on the host once `search` has returned.
    x : (capacity, 4) int32
        Lattice position, and the bits of the float32 charge times the square root of the Coulomb factor.
        Whoever moves atoms keeps the fourth word, and leaves slots without an atom alone.
    gid : (capacity,) int32
        Global atom id, -1 where empty (also from ``n_slots`` on).
    source : (capacity,) int32
        Row that the atom had in the arrays given to the search, -1 where empty. Anything kept per slot, such
        as velocities, follows by ``new[slot] = old[source[slot]]``.
    slot_of_gid : (n_atoms,) int32
        Where each atom is now, -1 for those that are not on this rank.
    parameters : (capacity, 2) float32
        The two numbers of the combination rule; with the rule 'table' the first is the bits of the type.
    leader : (capacity, 4) int32, optional
        Of one rank of several: where each atom's leader was at the search, and the atom's home bits; see
        ``ownership.cuh``. Owned atoms fill the first superclusters, ghosts the others.
    counters : (16,) int64, optional
        With it, those of `pair_list.cuh`, for the number of superclusters of owned atoms.

    Notes
    -----
    Forces are (capacity, 4) arrays of float32 [kJ/mol/nm], or in reproducible mode of int64 [2^-32 of it];
    kernels add to them, by atomics. Slots without an atom get zeros.
    """

    capacity: int
    n_slots: int
    x: Any
    gid: Any
    source: Any
    slot_of_gid: Any
    parameters: Any
    leader: Any = None
    counters: Any = None
