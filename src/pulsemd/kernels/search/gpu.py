"""A neighbor search on the device: atoms into cluster order, then the list of cluster pairs.

Everything runs on the device's stream; the host waits once, at the end, for the counters of `pair_list.cuh`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pulsemd.base.box import widths_of
from pulsemd.base.errors import DomainError
from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.search.cuda_programs import (
    LIST_THREADS,
    arrange_program,
    bin_program,
    chunk_for,
    list_program,
    search_program,
)
from pulsemd.kernels.search.gpu_grid import LATTICE, Region, choose_columns
from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER, Slots
from pulsemd.kernels.search.gpu_lists import (
    FIRST_OF_ENTRIES,
    N_COUNTERS,
    ClusterList,
    ListCounts,
    entries_for,
)
from pulsemd.kernels.search.search import is_orthorhombic, lattice_scale

_THREADS = 256
_ROUNDING = 1.0 + 1e-6
_SAME_COLUMNS = 0.01  # change of the box, which a barostat scales, up to which its columns stay
_MORE_ATOMS = 1.1  # room for the atoms of later searches of one rank of several
_MORE_REACH = 1.1
_FEW = 8  # superclusters that need no better columns: for an atom alone ever more bins would be taken
_MOST_SPARE = 1.5  # arrays larger than this multiple of the need are replaced


class GpuSearch:
    """Search of one rank's atoms: all of them owned, or with ghosts behind them.

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
    region : Region, optional
        Of one of several ranks: atoms may be missing, and ghosts are here.

    Attributes
    ----------
    slots : Slots
        Owned atoms in the first superclusters, ghosts in the others.
    lists : list of ClusterList
        Pairs of two owned atoms; and with a region those with a ghost that belong to this rank.
    streams : list
        Where each is made: with a region on a stream of its own, which `join` ends, else on the main one (None).
    chunk : int
        Groups of a full entry.
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
        region: Region | None = None,
    ) -> None:
        self.device, self.exact, self.n_atoms, self._region = device, exact, len(charge), region
        self._charge = device.to_device(charge, np.float32)
        self._parameters = device.to_device(parameters, np.float32)
        self._exclusion_offset = device.to_device(exclusion_offset, np.int64)
        atoms = exclusion_atoms if len(exclusion_atoms) else np.zeros(1, np.int32)
        self._exclusion_atoms = device.to_device(atoms, np.int32)
        ghosts = region is not None
        self._kernels = {
            name: device.kernel(program, name)
            for name, program in (
                ("bin_atoms", bin_program(ghosts)),
                *(
                    (name, search_program(f"{name}.cu"))
                    for name in ("scan_bins", "fill_bins", "sort_columns")
                ),
                ("arrange_clusters", arrange_program(filler, ghosts)),
            )
        }
        self._box: np.ndarray | None = None
        self._r_list = 0.0
        self._grid_for = 0.0, np.zeros(3)  # list cut-off and widths that the columns were chosen for
        self._filled = 1.0  # share of the box or region that holds atoms, as the last search saw it
        self._grid_is_stale = True
        self._row_capacity = 0
        self._most_atoms = 0 if ghosts else self.n_atoms
        self._storage: Any = None
        self.counters = device.zeros((1 + ghosts) * N_COUNTERS, np.int64)
        self.scale = device.empty(9, np.float32)
        self.lists: list[ClusterList] = []
        self.streams = [device.new_stream() for _ in range(2)] if ghosts else [None]

    @property
    def grid_is_stale(self) -> bool:
        """Whether the next search chooses its columns anew, and may need more slots."""
        return self._grid_is_stale

    @property
    def bytes_on_device(self) -> int:
        """Memory of all arrays of the search and of its results."""
        parts = [self, self.slots, *self.lists]
        kept = [array for part in parts for array in vars(part).values()]
        return sum({id(a): int(a.nbytes) for a in kept if hasattr(a, "nbytes")}.values())

    def allow_reach(self, reach: float) -> None:
        """With a region: atoms may be this far from their leaders, nm, from the next search on."""
        assert self._region is not None
        if reach > self._region.reach:
            self._region = replace(self._region, reach=_MORE_REACH * reach)
            self._grid_is_stale = True

    def prepare(self, box: np.ndarray, r_list: float, n_atoms: int) -> int:
        """Slots that a search of so many atoms takes at most.

        Parameters
        ----------
        n_atoms : int
            Owned and ghosts.
        """
        if n_atoms > self._most_atoms:
            self._most_atoms = int(_MORE_ATOMS * n_atoms) + SUPERCLUSTER
            self._grid_is_stale = True
        self._set_up(box, r_list)
        return SUPERCLUSTER * self._columns.max_super

    def use_slots(self, x: Any) -> None:
        """Keep positions in this array, (capacity, 4) int32, from the next search on."""
        self._storage = x

    def search(self, x: Any, gid: Any, box: np.ndarray, r_list: float, *ghosts: Any) -> ListCounts:
        """Put the atoms in cluster order and list the pairs within ``r_list``: `begin`, then `finish`."""
        self.begin(x, gid, box, r_list, *ghosts)
        return self.finish()

    def begin(
        self,
        x: Any,
        gid: Any,
        box: np.ndarray,
        r_list: float,
        n_owned: int | None = None,
        leader: Any = None,
        most: int | None = None,
    ) -> None:
        """Launch a search without waiting; the atoms are in `slots` in stream order, the lists, which may lack room,
        after `join`.

        Parameters
        ----------
        x : (m, 4) int32 on the device, lattice units
            May be ``slots.x`` itself; the fourth word is ignored.
        gid : (m,) int32 on the device
            Global id of each row, each atom once; -1 for rows without an atom. May be ``slots.gid``.
        box : (3, 3) float64, nm, lattice-reduced
        r_list : float, nm
        n_owned : int, optional
            With a region: rows from there on are ghosts.
        leader : (m, 4) int32 on the device, optional
            With a region: leader of each row, and its home bits.
        most : int, optional
            With a region: most rows that are not empty; default: all.

        Raises
        ------
        DomainError
            If ``r_list`` is above half the smallest width of the box.
        """
        n_atoms = self.n_atoms if leader is None else len(gid)
        self.prepare(box, r_list, n_atoms if most is None else most)
        self._make_slots()
        self._make_room(max(1, len(gid)))  # a rank in empty space has none
        self._sort(x, gid, len(gid) if n_owned is None else n_owned, n_atoms, leader)
        self._list_pairs()

    def finish(self, counters: np.ndarray | None = None) -> ListCounts:
        """Make the lists anew, in larger arrays, where they lacked room; they can be used from then on.

        Parameters
        ----------
        counters : (16 * lists,) int64, optional
            `counters` as `begin` left them, if the caller has read them; else this waits for the device.

        Returns
        -------
        ListCounts
            Of the first list.

        Raises
        ------
        DomainError
            If an atom was given twice; with a region see `fits`.
        """
        values = self._read_counters() if counters is None else counters
        while self._grow(self._as_counts(values)):
            self._list_pairs()
            values = self._read_counters()
        self.accept(values)
        self._check()
        self._note_density(self.counts)
        return self.counts

    def join(self) -> None:
        """Let the main stream go on only after the lists and what else was launched on their streams."""
        for stream in self.streams:
            if stream is not None:
                self.device.join(stream)

    def _read_counters(self) -> np.ndarray:
        self.join()
        return self.device.to_host(self.counters)

    def accept(self, counters: np.ndarray) -> None:
        """The end of a search whose counters are within `usual_counters`: lists and columns stay as they are."""
        self._accepted = counters
        self.slots.n_slots = SUPERCLUSTER * max(0, int(counters[0]))

    def usual_counters(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest counters of searches that find room everywhere and need no other columns."""
        low = np.zeros((len(self.lists), N_COUNTERS), np.int64)
        high = np.full_like(low, np.iinfo(np.int64).max)
        filled, few = self._filled * self._columns.bins_inside, self.counts.superclusters <= _FEW
        if not few:
            low[0, 5], high[0, 5] = math.ceil(0.76 * filled), math.floor(1.24 * filled)
        high[0, 0] = min(_FEW, self._max_super) if few else self._max_super
        for of_list, pairs in zip(high, self.lists, strict=True):
            of_list[-1], of_list[1], of_list[2] = pairs.room[0], pairs.room[1], pairs.room[2] - 1
        return low.ravel(), high.ravel()

    @property
    def all_counts(self) -> list[ListCounts]:
        """Counters of each list in the last search."""
        return self._as_counts(self._accepted)

    @property
    def fits(self) -> bool:
        """Whether the last search had slots for all its atoms; else it left all of them out. Ranks of several ask, as
        more atoms may come to one than it was prepared for."""
        return self.counts.superclusters >= 0

    @property
    def counts(self) -> ListCounts:
        """Those of the first list."""
        return self.all_counts[0]

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
        chosen_for, of_widths = self._grid_for
        scaled = np.abs(widths / np.where(of_widths > 0, of_widths, np.inf) - 1.0).max()
        if self._grid_is_stale or r_list != chosen_for or scaled > _SAME_COLUMNS:
            self._choose_grid()
        else:
            self._settings.set(self._reach(), stream=self.device.stream)

    def _reach(self) -> np.ndarray:
        """The struct of radii and of reaches in lattice units that the search reads."""
        reach = self._r_list + (0.0 if self._region is None else self._region.reach)
        steps = np.ceil(reach * _ROUNDING / self._widths[self._columns.axes] * LATTICE).astype(np.int64) + 1
        settings = np.zeros(6, np.uint32)
        radius = [np.float32(self._r_list**2), self._r_list, 0.5 * self._widths.min()]
        settings[:3] = np.array(radius, np.float32).view(np.uint32)
        settings[3:] = np.minimum(steps, LATTICE - 1)
        return settings

    def _choose_grid(self) -> None:
        self._grid_is_stale = False
        self._grid_for = self._r_list, self._widths
        self._unbind()
        region, volume = self._region, float(abs(np.linalg.det(self._box)))
        self._columns = columns = choose_columns(self._widths, volume, self._filled, self._most_atoms, region)
        self._grid = self.device.to_device(columns.words)
        self._settings = self.device.to_device(self._reach())
        n_bins, n_columns = columns.n_sets * columns.n_bins, columns.n_sets * columns.n_columns
        self._bin_count = self.device.empty(n_bins, np.int32)
        self._bin_start = self.device.empty(n_bins + 1, np.int32)
        self._column_start = self.device.empty(n_columns + 1, np.int32)

    def _make_slots(self) -> None:
        """Arrays of slots; kept while they are large enough, and not much too large."""
        need, given = SUPERCLUSTER * self._columns.max_super, self._storage
        now = self.slots.capacity if self.lists else 0
        if given is None and need <= now <= _MOST_SPARE * need:
            return
        if given is not None and self.lists and self.slots.x is given and need <= now:
            return
        capacity = need if given is None else len(given)
        if capacity < need:
            raise DomainError(f"a search needs {need} slots and was given {capacity}; please report this")
        device, n_clusters, n_super = self.device, capacity // 8, capacity // SUPERCLUSTER
        self._unbind()
        self._slot_row = device.empty(capacity, np.int32)
        self._cluster_center = device.empty((n_clusters, 4), np.int32)
        self._cluster_half = device.empty((n_clusters, 4), np.float32)
        self.super_center = device.empty((n_super, 4), np.int32)
        self._super_half = device.empty((n_super, 4), np.float32)
        self._super_extent = device.empty((n_super, 4), np.uint32)
        self.slots = Slots(
            capacity,
            0,
            device.empty((capacity, 4), np.int32) if given is None else given,
            device.empty(capacity, np.int32),
            device.empty(capacity, np.int32),
            device.empty(self.n_atoms, np.int32),
            device.empty((capacity, 2), np.float32),
            *(() if self._region is None else (device.empty((capacity, 4), np.int32), self.counters)),
        )
        self._max_super, self.chunk = n_super, chunk_for(n_super)
        groups = 48 * n_super
        words = 1 + (2 * groups if self.exact else 40 * n_super)
        room = entries_for(groups, self.chunk, n_super), groups, words
        self.lists = [self._make_list(counters, room, n_super) for counters in self._of_lists()]

    def _make_list(self, counters: Any, room: tuple[int, int, int], n_super: int) -> ClusterList:
        return ClusterList.make(self.device, counters, room, n_super, pruned=not self.exact)

    def _of_lists(self) -> list[Any]:
        """The counters of each list."""
        return [
            self.counters[first : first + N_COUNTERS] for first in range(0, len(self.counters), N_COUNTERS)
        ]

    def _make_room(self, n_rows: int) -> None:
        if max(1, n_rows) > self._row_capacity:
            self._row_capacity = n_rows = max(1, n_rows)
            self._unbind()
            self._row_x = self.device.empty((n_rows, 4), np.int32)
            self._row_gid = self.device.empty(n_rows, np.int32)
            self._row_bin = self.device.empty((n_rows, 2), np.int32)
            self._binned_row = self.device.empty(n_rows, np.int32)

    # ---- launches -------------------------------------------------------------------------------------------

    def _sort(self, x: Any, gid: Any, n_owned: int, n_atoms: int, leader: Any) -> None:
        for array in (self.counters, self._bin_count):
            self.device.clear(array)
        self.device.fill_ones(self._slot_row)
        if leader is not None:
            self.device.fill_ones(self.slots.slot_of_gid)
        rows = (x.data.ptr, gid.data.ptr, len(gid), n_owned, None if leader is None else leader.data.ptr)
        if not self._bound_sort or rows != self._bound_rows:
            self._bound_rows = rows
            self._bound_sort = self._bind_sort(x, gid, n_owned, n_atoms, leader)
        for launch in self._bound_sort:
            launch()

    def _bind_sort(
        self, x: Any, gid: Any, n_owned: int, n_atoms: int, leader: Any
    ) -> list[Callable[[], None]]:
        slots, kernels, n_rows = self.slots, self._kernels, np.int32(len(gid))
        row_blocks, atom_blocks = -(-len(gid) // _THREADS), -(-n_atoms // _THREADS)
        row_x, row_gid, row_bin, counters = self._row_x, self._row_gid, self._row_bin, self.counters
        return [
            kernels["bin_atoms"].bind(
                row_blocks, _THREADS, x, gid, n_rows, self._grid, row_x, row_gid, row_bin, self._bin_count,
                leader, np.int32(n_owned),
            ),
            kernels["scan_bins"].bind(
                1, 1024, self._grid, self._bin_count, self._bin_start, self._column_start, counters,
                np.int32(self._max_super),
            ),
            kernels["fill_bins"].bind(
                row_blocks, _THREADS, row_bin, n_rows, self._bin_start, self._binned_row
            ),
            kernels["sort_columns"].bind(
                atom_blocks, _THREADS, row_x, row_gid, row_bin, np.int32(n_atoms), self._grid, self._bin_start,
                self._column_start, self._binned_row, self._slot_row, np.int32(len(self._slot_row)),
            ),
            kernels["arrange_clusters"].bind(
                self._max_super, SUPERCLUSTER, row_x, row_gid, self._slot_row, self._grid, self.scale,
                self._charge, self._parameters, slots.x, slots.gid, slots.source, slots.slot_of_gid,
                slots.parameters, self._cluster_center, self._cluster_half, self.super_center, self._super_half,
                self._super_extent, counters, leader, slots.leader,
            ),
        ]  # fmt: skip

    def _list_pairs(self) -> None:
        if not self._bound_lists:
            self._bound_lists = [self._bind_list(pairs, part > 0) for part, pairs in enumerate(self.lists)]
        for stream, launch in zip(self.streams, self._bound_lists, strict=True):
            if stream is not None:
                self.device.fork(stream)
            launch()

    def _bind_list(self, pairs: ClusterList, with_ghosts: bool) -> Callable[[], None]:
        slots = self.slots
        program = list_program(self.chunk, self.exact, self._orthorhombic, with_ghosts)
        return self.device.kernel(program, "list_clusters").bind(
            self._max_super, LIST_THREADS, self._grid, self._settings, self.scale, self._bin_start,
            self._column_start, slots.x, slots.gid, slots.slot_of_gid, self._cluster_center, self._cluster_half,
            self.super_center, self._super_half, self._super_extent, self._exclusion_offset,
            self._exclusion_atoms, pairs.entries, pairs.groups, pairs.masks, pairs.words,
            pairs.counters, *(np.int64(room) for room in pairs.room), np.int32(self._max_super),
            self.counters, slots.leader, stream=self.streams[with_ghosts],
        )  # fmt: skip

    def _unbind(self) -> None:
        """Forget prepared launches, some of whose arrays have been replaced."""
        self._bound_sort: list[Callable[[], None]] = []  # its arrays are kept alive by it
        self._bound_rows: tuple[Any, ...] = ()
        self._bound_lists: list[Callable[[], None]] = []

    # ---- results --------------------------------------------------------------------------------------------

    @staticmethod
    def _as_counts(values: np.ndarray) -> list[ListCounts]:
        return [ListCounts.read(of_list) for of_list in values.reshape(-1, N_COUNTERS)]

    def _grow(self, counts: list[ListCounts]) -> bool:
        """Enlarge the lists that overflowed and clear the counters of all; False if everything had room."""
        rooms = [pairs.grown_room(n, self.chunk) for pairs, n in zip(self.lists, counts, strict=True)]
        if not any(rooms):
            return False
        for part, room in enumerate(rooms):
            if room is not None:
                self.lists[part] = self._make_list(self.lists[part].counters, room, self._max_super)
        self._unbind()
        for pairs in self.lists:
            for counter in (pairs.counters[1:5], pairs.counters[FIRST_OF_ENTRIES:]):
                self.device.clear(counter)
        return True

    def _check(self) -> None:
        if self._region is None and not self.fits:
            raise DomainError(
                f"a search found {-self.counts.superclusters} superclusters where {self._max_super} are possible: an "
                "atom was given twice; please report this"
            )

    def _note_density(self, counts: ListCounts) -> None:
        """Let the next search choose its columns for the part of the box that holds atoms."""
        if counts.superclusters <= _FEW:
            return
        filled = float(np.clip(counts.occupied_bins / self._columns.bins_inside, 1e-6, 1.0))
        if abs(filled - self._filled) > 0.25 * self._filled:
            self._filled, self._grid_is_stale = filled, True
