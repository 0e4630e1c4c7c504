"""A pair list on the device and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice

SIZES = 8
"""Classes of entries, as in `pair_list.cuh`."""

OWNED_SUPERCLUSTERS = 7
"""Counter of the superclusters of owned atoms."""

FIRST_OF_ENTRIES = 9
"""First counter of the numbers of entries; those before are named by `ListCounts` in their order."""

N_COUNTERS = FIRST_OF_ENTRIES + SIZES

_GROWTH = 1.15


@dataclass(frozen=True)
class ListCounts:
    """Counters of a search, on the host.

    Parameters
    ----------
    superclusters : int
        In use; minus what all atoms need, where a search had no room for them and left them out.
    groups, words : int
    pairs, excluded : int
        Pairs within the list radius that interact, and that are excluded; the same numbers as on the CPU.
    occupied_bins : int
    super_radius : float, nm
        Largest distance of an atom from the centre of its supercluster.
    owned_superclusters : int
        Superclusters of owned atoms, the first ones.
    super_extent : float, nm
        Largest distance of an atom from the centre of its supercluster along one Cartesian axis.
    entries_by_size : tuple of int
        Entries of each class, smallest first.
    """

    superclusters: int
    groups: int
    words: int
    pairs: int
    excluded: int
    occupied_bins: int
    super_radius: float
    owned_superclusters: int
    super_extent: float
    entries_by_size: tuple[int, ...]

    @classmethod
    def read(cls, values: np.ndarray) -> ListCounts:
        """From the counters of `pair_list.cuh`."""
        radius, extent = (float(value) for value in values[[6, 8]].astype(np.uint32).view(np.float32))
        integers = [int(value) for value in values]
        return cls(*integers[:6], radius, integers[7], extent, tuple(integers[FIRST_OF_ENTRIES:]))

    @property
    def entries(self) -> int:
        """Blocks of work of the pair kernel."""
        return sum(self.entries_by_size)


@dataclass
class ClusterList:
    """A pair list on the device.

    Parameters
    ----------
    entries : (capacity, 4) int32
        Supercluster, first group, end of the groups; see `first_of_class` of `pair_list.cuh` for the order.
    groups : (capacity, 4) int32
        Four j-clusters.
    masks : (2 * capacity, 2) uint32
        For each half (slots 0-3, 4-7 of the j-clusters) of each group: bit 8 * k + c if i-cluster c acts on
        j-cluster k, and the number of the word of each lane.
    words : (capacity, 32) uint32
        Bit 8 * k + c of lane 8 * j + i: the pair acts. Number 0 has all bits set.
    counters : (17,) int64
    room : (int, int, int)
        Entries of the largest class, groups and words that there is room for.
    entry_room : (int, int)
        Entries of the largest class, and of each of the others, that there is room for.
    kept : (entries, groups, masks), or None
        What a pruning keeps of those three, each entry in its place with fewer groups; not in exact lists.
    """

    entries: Any
    groups: Any
    masks: Any
    words: Any
    counters: Any
    room: tuple[int, int, int]
    entry_room: tuple[int, int]
    kept: tuple[Any, Any, Any] | None

    @classmethod
    def make(
        cls, device: CudaDevice, counters: Any, room: tuple[int, int, int], max_super: int, pruned: bool
    ) -> ClusterList:
        """An empty list; ``max_super`` superclusters are possible, and with ``pruned`` it has what prunings keep."""
        entries, groups, words = room

        def tiles() -> tuple[Any, Any, Any]:
            return (
                device.empty((entries + (SIZES - 1) * max_super, 4), np.int32),
                device.empty((groups, 4), np.int32),
                device.empty((2 * groups, 2), np.uint32),
            )

        made = cls(
            *tiles(),
            device.empty((words, 32), np.uint32),
            counters,
            room,
            (entries, max_super),
            tiles() if pruned else None,
        )
        device.fill_ones(made.words[0])
        return made

    def grown_room(self, counts: ListCounts, chunk: int) -> tuple[int, int, int] | None:
        """What a list needs that overflowed; None if everything had room."""
        need = (counts.entries_by_size[-1], counts.groups, counts.words + 1)
        if all(n <= room for n, room in zip(need, self.room, strict=True)):
            return None
        entries, groups, words = (
            int(_GROWTH * n) + 64 if n > room else room for n, room in zip(need, self.room, strict=True)
        )
        return max(entries, entries_for(groups, chunk, self.entry_room[1])), groups, words


def entries_for(groups: int, chunk: int, max_super: int) -> int:
    """Entries of the largest class that any list of so many groups can have."""
    return groups // chunk + max_super + 1
