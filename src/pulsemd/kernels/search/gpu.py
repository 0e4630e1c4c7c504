"""A neighbor search on the device: atoms into cluster order, then the list of cluster pairs.

Everything runs on the device's stream; the host waits once, at the end, for the counters of `pair_list.cuh`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsemd.base.errors import DomainError
from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.search.cuda_programs import (
    LIST_THREADS,
    arrange_program,
    chunk_for,
    list_program,
    search_program,
)
from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER, Slots
from pulsemd.kernels.search.search import is_orthorhombic, lattice_scale, widths_of

_THREADS = 256
_ATOMS_PER_SLAB = 16
_GROWTH = 1.15
_ROUNDING = 1.0 + 1e-6
_MAX_COLUMNS = 2**15
_MAX_BINS = 2**30

SIZES = 8
"""Classes of entries, as in `pair_list.cuh`."""

_ENTRIES = 8
"""First counter of the numbers of entries; those before are named by `ListCounts` in their order."""


@dataclass(frozen=True)
class ListCounts:
    """Counters of a search, on the host.

    Parameters
    ----------
    superclusters, groups, words : int
    pairs, excluded : int
        Pairs within the list radius that interact, and that are excluded; the same numbers as on the CPU.
    occupied_bins : int
    super_radius : float, nm
        Largest distance of an atom from the centre of its supercluster.
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
    entries_by_size: tuple[int, ...]

    @property
    def entries(self) -> int:
        """Blocks of work of the pair kernel."""
        return sum(self.entries_by_size)


@dataclass
class ClusterList:
    """The pair list on the device.

    Parameters
    ----------
    entries : (capacity, 4) int32
        Supercluster, first group, end of the groups; see `first_of_class` of `pair_list.cuh` for the order.
    groups : (capacity, 4) int32
        Four j-clusters.
    masks : (2 * capacity, 2) uint32
        For each half (slots 0-3, 4-7 of the j-clusters) of each group: bit 8 * k + c if i-cluster c acts on
        j-cluster k, and the number of the word of each lane.
    outer : (2 * capacity,) uint32
        The masks as the search left them; `masks` may have been pruned since.
    words : (capacity, 32) uint32
        Bit 8 * k + c of lane 8 * j + i: the pair acts. Number 0 has all bits set.
    counters : (16,) int64
    """

    entries: Any
    groups: Any
    masks: Any
    outer: Any
    words: Any
    counters: Any


class GpuSearch:
    """Search of one rank's atoms, all of them owned.

    Parameters
    ----------
    device : CudaDevice
    charge : (n_atoms,) float32
        By global id, times the square root of the Coulomb factor.
    parameters : (n_atoms, 2) float32
        By global id.
    filler : int
        Bits of the first parameter of a slot without an atom.
    exclusion_offset, exclusion_atoms : (n_atoms + 1,) int64, (k,) int32
        Excluded partners by global id, symmetric.
    exact : bool
        Every pair within the list radius, and no other, acts until the next search.

    Attributes
    ----------
    slots : Slots
    list : ClusterList
    counts : ListCounts
        Of the last search.
    chunk : int
        Groups of a full entry.
    entry_room : (int, int)
        Entries of the largest class, and of each of the others, that there is room for.
    """

    def __init__(
        self,
        device: CudaDevice,
        charge: np.ndarray,
        parameters: np.ndarray,
        filler: int,
        exclusion_offset: np.ndarray,
        exclusion_atoms: np.ndarray,
        exact: bool,
    ) -> None:
        self.device, self.exact, self.n_atoms = device, exact, len(charge)
        self._charge = device.to_device(charge, np.float32)
        self._parameters = device.to_device(parameters, np.float32)
        self._exclusion_offset = device.to_device(exclusion_offset, np.int64)
        atoms = exclusion_atoms if len(exclusion_atoms) else np.zeros(1, np.int32)
        self._exclusion_atoms = device.to_device(atoms, np.int32)
        self._arrange = device.kernel(arrange_program(filler), "arrange_clusters")
        self._kernels = {
            name: device.kernel(search_program(f"{name}.cu"), name)
            for name in ("bin_atoms", "scan_bins", "fill_bins", "sort_columns")
        }
        self._box: np.ndarray | None = None
        self._r_list = 0.0
        self._filled = 1.0  # share of the box that holds atoms, as the last search saw it
        self._grid_is_stale = True
        self._n_rows = 0
        self.counters = device.zeros(16, np.int64)
        self.scale = device.empty(9, np.float32)

    @property
    def bytes_on_device(self) -> int:
        """Memory of all arrays of the search and of its results."""
        kept = [*vars(self).values(), *vars(self.slots).values(), *vars(self.list).values()]
        return sum({id(a): int(a.nbytes) for a in kept if hasattr(a, "nbytes")}.values())

    def search(self, x: Any, gid: Any, box: np.ndarray, r_list: float) -> ListCounts:
        """Put the atoms in cluster order and list the pairs within ``r_list``: `begin`, then `finish`."""
        self.begin(x, gid, box, r_list)
        return self.finish()

    def begin(self, x: Any, gid: Any, box: np.ndarray, r_list: float) -> None:
        """Launch a search without waiting; the atoms are in `slots` in stream order, the list may lack room.

        Parameters
        ----------
        x : (m, 4) int32 on the device, lattice units
            May be ``slots.x`` itself; the fourth word is ignored.
        gid : (m,) int32 on the device
            Global id of each row, each atom once; -1 for rows without an atom. May be ``slots.gid``.
        box : (3, 3) float64, nm, lattice-reduced
        r_list : float, nm

        Raises
        ------
        DomainError
            If ``r_list`` is above half the smallest width of the box.
        """
        self._set_up(box, r_list)
        self._make_room(len(gid))
        self._sort(x, gid)
        self._list_pairs()

    def finish(self, counters: np.ndarray | None = None) -> ListCounts:
        """Make the list anew, in larger arrays, where it lacked room; it can be used from then on.

        Parameters
        ----------
        counters : (16,) int64, optional
            `counters` as `begin` left them, if the caller has read them; else this waits for the device.

        Raises
        ------
        DomainError
            If an atom is missing.
        """
        counts = self._read_counts(counters)
        while self._grow(counts):
            self._list_pairs()
            counts = self._read_counts()
        self._check(counts)
        self.counts = counts
        self.slots.n_slots = SUPERCLUSTER * counts.superclusters
        self._note_density(counts)
        return counts

    # ---- preparation ----------------------------------------------------------------------------------------

    def _set_up(self, box: np.ndarray, r_list: float) -> None:
        """Choose the column grid; only what changed goes to the device."""
        known = self._box is not None and r_list == self._r_list and np.array_equal(box, self._box)
        if known and not self._grid_is_stale:
            return
        widths = widths_of(box)
        if r_list > 0.5 * widths.min():
            raise DomainError(
                f"the list cutoff {r_list:.4g} nm is above half the smallest width of the box "
                f"({widths[0]:.4g}, {widths[1]:.4g}, {widths[2]:.4g} nm); use a larger box or a shorter cutoff"
            )
        self._box, self._r_list, self._widths = np.array(box, np.float64), r_list, widths
        self._orthorhombic = is_orthorhombic(box)
        self.scale.set(lattice_scale(box), stream=self.device.stream)
        self._choose_grid()

    def _choose_grid(self) -> None:
        """Columns about as wide as a cube of 64 atoms, and slabs of few atoms."""
        self._grid_is_stale = False
        self._unbind()
        volume = abs(np.linalg.det(self._box)) * self._filled
        side = (SUPERCLUSTER * volume / self.n_atoms) ** (1.0 / 3.0)
        axes = np.argsort(self._widths, kind="stable")
        columns = np.clip(np.rint(self._widths[axes[:2]] / side), 1, _MAX_COLUMNS).astype(np.int64)
        columns = np.minimum(columns, max(1, 4 * self.n_atoms // SUPERCLUSTER))
        n_columns = int(columns.prod())
        per_column = self.n_atoms / (n_columns * self._filled)
        slabs = int(np.clip(round(per_column / _ATOMS_PER_SLAB), 1, max(1, _MAX_BINS // n_columns)))
        self._n_columns, self._n_bins = n_columns, n_columns * slabs
        self._max_super = (self.n_atoms + SUPERCLUSTER - 1) // SUPERCLUSTER + n_columns
        grid = np.array([*axes, *columns, slabs, self._n_bins, self._max_super], np.int32)
        self._grid = self.device.to_device(grid)
        reach = np.ceil(self._r_list * _ROUNDING / self._widths[axes] * 2.0**32).astype(np.int64) + 1
        settings = np.zeros(6, np.uint32)
        radius = [np.float32(self._r_list**2), self._r_list, 0.5 * self._widths.min()]
        settings[:3] = np.array(radius, np.float32).view(np.uint32)
        settings[3:] = reach
        self._settings = self.device.to_device(settings)
        self._bin_count = self.device.empty(self._n_bins, np.int32)
        self._bin_start = self.device.empty(self._n_bins + 1, np.int32)
        self._column_start = self.device.empty(n_columns + 1, np.int32)
        self._make_slots()

    def _make_slots(self) -> None:
        """Arrays of slots; kept while they are large enough."""
        capacity = SUPERCLUSTER * self._max_super
        if hasattr(self, "slots") and self.slots.capacity == capacity:
            return
        device, n_clusters = self.device, capacity // 8
        self._slot_row = device.empty(capacity, np.int32)
        self._cluster_center = device.empty((n_clusters, 4), np.int32)
        self._cluster_half = device.empty((n_clusters, 4), np.float32)
        self.super_center = device.empty((self._max_super, 4), np.int32)
        self._super_half = device.empty((self._max_super, 4), np.float32)
        self._super_extent = device.empty((self._max_super, 4), np.uint32)
        self.slots = Slots(
            capacity,
            0,
            device.empty((capacity, 4), np.int32),
            device.empty(capacity, np.int32),
            device.empty(capacity, np.int32),
            device.empty(self.n_atoms, np.int32),
            device.empty((capacity, 2), np.float32),
        )
        self.chunk = chunk_for(self._max_super)
        groups = 48 * self._max_super
        self._make_list(
            self._entries_for(groups), groups, 1 + (2 * groups if self.exact else 40 * self._max_super)
        )

    def _entries_for(self, groups: int) -> int:
        return groups // self.chunk + self._max_super + 1

    def _make_list(self, entries: int, groups: int, words: int) -> None:
        device = self.device
        self._unbind()
        self._room, self.entry_room = (entries, groups, words), (entries, self._max_super)
        self.list = ClusterList(
            device.empty((entries + (SIZES - 1) * self._max_super, 4), np.int32),
            device.empty((groups, 4), np.int32),
            device.empty((2 * groups, 2), np.uint32),
            device.empty(2 * groups, np.uint32),
            device.empty((words, 32), np.uint32),
            self.counters,
        )
        device.fill_ones(self.list.words[0])

    def _make_room(self, n_rows: int) -> None:
        if n_rows > self._n_rows:
            self._n_rows = n_rows
            self._unbind()
            self._row_x = self.device.empty((n_rows, 4), np.int32)
            self._row_gid = self.device.empty(n_rows, np.int32)
            self._row_bin = self.device.empty((n_rows, 2), np.int32)
            self._binned_row = self.device.empty(n_rows, np.int32)

    # ---- launches -------------------------------------------------------------------------------------------

    def _sort(self, x: Any, gid: Any) -> None:
        for array in (self.counters, self._bin_count):
            self.device.clear(array)
        self.device.fill_ones(self._slot_row)
        if x is not self.slots.x or gid is not self.slots.gid:
            launches = self._bind_sort(x, gid)
        elif self._bound_sort:
            launches = self._bound_sort
        else:
            launches = self._bound_sort = self._bind_sort(x, gid)
        for launch in launches:
            launch()

    def _bind_sort(self, x: Any, gid: Any) -> list[Callable[[], None]]:
        slots, kernels, n_rows, n_atoms = (
            self.slots,
            self._kernels,
            np.int32(len(gid)),
            np.int32(self.n_atoms),
        )
        row_blocks, atom_blocks = -(-len(gid) // _THREADS), -(-self.n_atoms // _THREADS)
        row_x, row_gid, row_bin = self._row_x, self._row_gid, self._row_bin
        return [
            kernels["bin_atoms"].bind(
                row_blocks, _THREADS, x, gid, n_rows, self._grid, row_x, row_gid, row_bin, self._bin_count
            ),
            kernels["scan_bins"].bind(
                1, 1024, self._grid, self._bin_count, self._bin_start, self._column_start, self.counters
            ),
            kernels["fill_bins"].bind(
                row_blocks, _THREADS, row_bin, n_rows, self._bin_start, self._binned_row
            ),
            kernels["sort_columns"].bind(
                atom_blocks, _THREADS, row_x, row_gid, row_bin, n_atoms, self._grid, self._bin_start,
                self._column_start, self._binned_row, self._slot_row,
            ),
            self._arrange.bind(
                self._max_super, SUPERCLUSTER, row_x, row_gid, self._slot_row, self._grid, self.scale,
                self._charge, self._parameters, slots.x, slots.gid, slots.source, slots.slot_of_gid,
                slots.parameters, self._cluster_center, self._cluster_half, self.super_center, self._super_half,
                self._super_extent, self.counters,
            ),
        ]  # fmt: skip

    def _list_pairs(self) -> None:
        if self._bound_list is None:
            self._bound_list = self._bind_list()
        self._bound_list()

    def _bind_list(self) -> Callable[[], None]:
        slots, pairs = self.slots, self.list
        kernel = self.device.kernel(list_program(self.chunk, self.exact, self._orthorhombic), "list_clusters")
        return kernel.bind(
            self._max_super, LIST_THREADS, self._grid, self._settings, self.scale, self._bin_start,
            self._column_start, slots.x, slots.gid, slots.slot_of_gid, self._cluster_center, self._cluster_half,
            self.super_center, self._super_half, self._super_extent, self._exclusion_offset,
            self._exclusion_atoms, pairs.entries, pairs.groups, pairs.masks, pairs.outer, pairs.words,
            self.counters, *(np.int64(room) for room in self._room),
        )  # fmt: skip

    def _unbind(self) -> None:
        """Forget prepared launches, some of whose arrays have been replaced."""
        self._bound_sort: list[Callable[[], None]] = []
        self._bound_list: Callable[[], None] | None = None

    # ---- results --------------------------------------------------------------------------------------------

    def _read_counts(self, values: np.ndarray | None = None) -> ListCounts:
        values = self.device.to_host(self.counters) if values is None else values
        radius = values[6:7].astype(np.uint32).view(np.float32)[0]
        by_size = tuple(int(value) for value in values[_ENTRIES : _ENTRIES + SIZES])
        return ListCounts(*(int(value) for value in values[:6]), float(radius), by_size)

    def _grow(self, counts: ListCounts) -> bool:
        """Enlarge what overflowed and clear the list's counters; False if everything had room."""
        need = (counts.entries_by_size[-1], counts.groups, counts.words + 1)
        if all(n <= room for n, room in zip(need, self._room, strict=True)):
            return False
        grown = [
            int(_GROWTH * n) + 64 if n > room else room for n, room in zip(need, self._room, strict=True)
        ]
        grown[0] = max(grown[0], self._entries_for(grown[1]))
        self._make_list(*grown)
        for counter in (self.counters[1:5], self.counters[_ENTRIES:]):
            self.device.clear(counter)
        return True

    def _check(self, counts: ListCounts) -> None:
        if counts.superclusters > self._max_super:
            raise DomainError(
                f"a search found {counts.superclusters} superclusters where {self._max_super} are possible: an "
                "atom was given twice; please report this"
            )

    def _note_density(self, counts: ListCounts) -> None:
        """Let the next search choose its columns for the part of the box that holds atoms."""
        filled = float(np.clip(counts.occupied_bins / self._n_bins, 1e-6, 1.0))
        if abs(filled - self._filled) > 0.25 * self._filled:
            self._filled, self._grid_is_stale = filled, True
