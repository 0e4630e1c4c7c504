"""Forces of all pairs within the cutoff, on one GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pulsemd.base.box import widths_of
from pulsemd.base.errors import UnstableError
from pulsemd.device.cuda import CudaDevice
from pulsemd.device.overlap import Wait
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.kernels.nonbonded.cuda_formula import pair_values
from pulsemd.kernels.nonbonded.cuda_programs import (
    PAIR_WARPS,
    PRUNE_WARPS,
    blocks_resident,
    pair_program,
    prune_program,
)
from pulsemd.kernels.nonbonded.parameters import AtomParameters, kernel_combination
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.settings import PairSettings, pair_constants
from pulsemd.kernels.nonbonded.spec import (
    FORCE_LIMIT,
    GRID_STEP,
    MINIMUM_DISTANCE2,
    SINGLE_POINT_LIMIT,
    SWITCH_CONSTANTS,
    TOLERANT_DISTANCE2,
    KernelSpec,
    Precision,
)
from pulsemd.kernels.nonbonded.user_formula import UserFormula
from pulsemd.kernels.search.gpu import GpuSearch
from pulsemd.kernels.search.gpu_grid import Region
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.search.gpu_lists import ClusterList, ListCounts
from pulsemd.kernels.search.search import is_orthorhombic, lattice_scale

_DRIFT = 0.15
"""How far, in nm, an atom may leave its supercluster's extent before the next search."""


def grid_step(box: np.ndarray) -> float:
    """Step, in nm, of the grid to which reproducible mode rounds positions; a power of two."""
    length = float(np.abs(box).max())
    return max(GRID_STEP, 2.0 ** (math.floor(math.log2(length)) - 30))


def position_grid(box: np.ndarray) -> np.ndarray:
    """The constants of `position_grid.cuh`, (10,) float32, of which the first nine are bits of integers."""
    step = grid_step(box)
    steps = np.rint(np.asarray(box, np.float64) / step).ravel().astype(np.int32)
    return np.concatenate((steps.view(np.float32), np.array([step], np.float32)))


def _bits(length: float) -> int:
    """Bits of a length, nm, a little shortened, as the counters of a search have them; of none less than 0."""
    return int(np.float32(max(length, 0.0) / (1.0 + 2e-5)).view(np.uint32))


class GpuPairForces:
    """Lennard-Jones and Coulomb forces of all pairs; the counterpart of `PairForces` for one rank on a GPU.

    Parameters
    ----------
    device : CudaDevice
    table : LennardJonesTable
    settings : PairSettings
    precision : {'fast', 'reproducible'}
        'reproducible': forces and energies are int64 sums whose bits depend on no order and no launch shape.
    type_index : (n_atoms,) int32
        By global id, as the following three.
    charge : (n_atoms,) float64, e
    exclusion_offset, exclusion_atoms : (n_atoms + 1,) int64, (k,) int32
        Excluded partners, symmetric.
    warps : int, optional
        Warps of a block of the pair kernel. Changes the launch shape only.
    region : Region, optional
        Of one of several ranks; pairs are then in two parts, see `GpuSearch`.
    potential : PairPotential, optional
        In place of Lennard-Jones; its energy is the Lennard-Jones energy.
    single_point : bool
        Nothing moves afterwards: in fast mode forces may be as large as float32 holds.

    Attributes
    ----------
    version : int
        Launches captured in a graph stay right over any number of searches until this changes: when arrays were
        enlarged or another variant of the kernel is needed.

    Notes
    -----
    Call `search`, then `forces` any number of times; `check` when it suits. `forces` neither allocates nor
    waits once it has run with the same arguments, so it can be captured in a graph. No size of a list is part of
    a launch: the kernel reads them from the device.
    """

    def __init__(
        self,
        device: CudaDevice,
        table: LennardJonesTable,
        settings: PairSettings,
        precision: Precision,
        type_index: np.ndarray,
        charge: np.ndarray,
        exclusion_offset: np.ndarray,
        exclusion_atoms: np.ndarray,
        warps: int | None = None,
        region: Region | None = None,
        potential: PairPotential | None = None,
        single_point: bool = False,
    ) -> None:
        self.device, self.precision, self._warps = device, precision, warps or PAIR_WARPS
        self.constants = pair_constants(settings)
        raised = single_point and precision == "fast"
        self._limit = SINGLE_POINT_LIMIT if raised else FORCE_LIMIT[precision]
        self._tolerant = False
        self._formula: UserFormula | None = None
        self._shifted = settings.vdw_modifier == "potential-shift"
        if potential is None:
            rule = AtomParameters(table, self.constants, kernel_combination(table))
        else:
            resolved = potential.resolve_checked(table, self.constants, precision == "reproducible")
            self._formula = resolved.formula
            rule = AtomParameters.in_table(resolved, self.constants, pair_values(resolved.formula))
        self.combination, self.n_types = rule.combination, rule.n_types
        self._table = device.to_device(rule.table)
        parameters = rule.own[type_index]
        filler = 0
        if self.combination == "table":
            parameters[:, 0] = np.asarray(type_index, np.int32).view(np.float32)
            filler = self.n_types - 1
        scaled = np.asarray(charge, np.float64) * rule.charge_scale
        exact = precision == "reproducible"
        self.pairs = GpuSearch(
            device, scaled, parameters, filler, exclusion_offset, exclusion_atoms, exact, region
        )
        self._error = device.zeros(1, np.int32)
        self._constants = device.empty(27 + len(SWITCH_CONSTANTS), np.float32)
        self._constants_now = b""
        self._no_totals = device.zeros(11, np.float64 if precision == "fast" else np.int64)
        self._launches: dict[tuple[Any, ...], Callable[[], None]] = {}
        self._prepared_for: tuple[Any, ...] = ()
        self._needs_pairwise = self._prunes = self._pruned_ahead = False
        self._asked: tuple[np.ndarray, float, float | None] | None = None
        self._limits: tuple[np.ndarray, np.ndarray] | None = None
        self._lists: list[ClusterList] = []
        self.version = 0

    def tolerate_overlaps(self, tolerant: bool) -> None:
        """From the next search on: whether atoms may overlap; see `PairForces.tolerate_overlaps`.

        Energies have to be wanted then: only kernels with energies know of a smallest distance.
        """
        self._tolerant = tolerant
        self._limits = None

    @property
    def box_constants(self) -> Any:
        """(19,) float32 on the device: the box over 2^32, and the constants of `position_grid.cuh`."""
        return self._constants[8:27]

    @property
    def slots(self) -> Slots:
        """Atoms in cluster order."""
        return self.pairs.slots

    def search(
        self, x: Any, gid: Any, box: np.ndarray, r_list: float, r_inner: float | None = None, *ghosts: Any
    ) -> ListCounts:
        """Sort the atoms into `slots` and list the pairs within ``r_list``; see `GpuSearch.begin`.

        Parameters
        ----------
        r_inner : float, nm, optional
            Radius, between the cutoff and ``r_list``, of the pairs that a pruning keeps; in fast mode this ends
            with one, so that `forces` never sees the longer list. Ignored in reproducible mode.
        *ghosts
            As the last parameters of `GpuSearch.begin`.
        """
        self.begin_search(x, gid, box, r_list, r_inner, *ghosts)
        self.finish_search()
        return self.pairs.counts

    def begin_search(
        self, x: Any, gid: Any, box: np.ndarray, r_list: float, r_inner: float | None = None, *ghosts: Any
    ) -> None:
        """`search` without waiting: from here on the atoms are in `slots`; `forces` needs `finish_search` first."""
        before, new_columns = self._asked, self.pairs.grid_is_stale
        self._asked, self._pruned_ahead = (np.array(box), r_list, r_inner), False
        self.pairs.begin(x, gid, box, r_list, *ghosts)
        same = before is not None and before[1:] == (r_list, r_inner)
        if new_columns or not same or self.pairs.lists is not self._lists:
            self._limits = None
        elif before is not None and self._limits is not None and not np.array_equal(before[0], box):
            self._constants_now = b""  # a barostat changed them on the device
            self._set_constants(box, r_list if r_inner is None else r_inner)
            self._limits = self._usual_counters(box, r_list)

    @property
    def can_prune_ahead(self) -> bool:
        """Whether `prune_all` may come before `finish_search`: what is listed will most likely be the list."""
        return self._limits is not None

    @property
    def usual_counters(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest counters with which `finish_search` has nothing more to do, if `can_prune_ahead`."""
        return self._limits

    def prune_ahead(self) -> None:
        """Between `begin_search` and `finish_search`: prune if that is likely to be right; nothing waits."""
        if self.can_prune_ahead:
            self.prune_all()
            self.note_pruned()

    def note_pruned(self) -> None:
        """Say that a graph with `begin_search` and `prune_all` was launched."""
        self._pruned_ahead = True

    def finish_search(self, counters: np.ndarray | None = None) -> None:
        """The end of a search; see `GpuSearch.finish`. Takes the host least if the counters are given and usual."""
        if counters is not None and self._limits is not None:
            low, high = self._limits
            if ((low <= counters) & (counters <= high)).all():
                self.pairs.accept(counters)
                if not self._pruned_ahead:
                    self.prune_all()
                return
        assert self._asked is not None
        counts, (box, r_list, r_inner) = self.pairs.finish(counters), self._asked
        radius, extent = counts.super_radius * (1.0 + 1e-5), counts.super_extent * (1.0 + 1e-5)
        self._needs_pairwise |= r_list + radius > 0.5 * widths_of(box).min()
        if self.precision == "reproducible":
            self._needs_pairwise |= self.constants.cutoff + extent + _DRIFT > 2.0**24 * grid_step(box)
        self.spec = KernelSpec(
            self.precision,
            self.combination,
            "pairwise" if self._needs_pairwise else "relative",
            is_orthorhombic(box),
            energies=False,
            ewald=self.constants.ewald,
            ending=self.constants.ending,
            formula=self._formula,
            shifted=self._shifted,
            capped=self._tolerant and self.precision == "reproducible",
        )
        self._set_constants(box, r_list if r_inner is None else r_inner)
        self._keep_launches()
        self._prunes = r_inner is not None and self.precision == "fast"
        self._lists, self._limits = self.pairs.lists, self._usual_counters(box, r_list)
        self.prune_all()

    def _usual_counters(self, box: np.ndarray, r_list: float) -> tuple[np.ndarray, np.ndarray]:
        """Counters with which the next search of the same box ends as this one; see `GpuSearch.usual_counters`."""
        low, high = self.pairs.usual_counters()
        if not self._needs_pairwise:
            high[6] = _bits(0.5 * widths_of(box).min() - r_list)
            if self.precision == "reproducible":
                high[8] = _bits(2.0**24 * grid_step(box) - self.constants.cutoff - _DRIFT)
        return low, high

    def prune_all(self) -> None:
        """`prune` every list, on the main stream."""
        for part in range(len(self.pairs.lists)):
            self.prune(part)

    def prune_listed(self) -> None:
        """`prune` every list where it is made; before `GpuSearch.join`."""
        for part, stream in enumerate(self.pairs.streams):
            self.prune(part, stream)

    def prune(self, part: int = 0, stream: Any = None, overlap: Wait | None = None) -> None:
        """From now on `forces` evaluates the listed tiles that have a pair within ``r_inner`` now, if that was given.

        Parameters
        ----------
        part, stream
            As for `forces`.
        overlap : Wait, optional
            Begin before the kernel ahead in the stream has ended; FIRST, or LAST if that one changes no position.
        """
        if self._prunes:
            self._launch(
                ("prune", self.spec, part, stream and stream.ptr, overlap),
                partial(self._bind_prune, part, stream, overlap),
            )

    def prune_exchanged(self, halo: Any) -> None:
        """`prune_all` by one kernel that waits for the rows of ghosts, see `exchanged_forces`."""
        if self._prunes:
            self._launch(("prune", self.spec, halo.data.ptr), partial(self._bind_prune_both, halo))

    def _launch(self, key: tuple[Any, ...], bind: Callable[[], Callable[[], None]]) -> None:
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = bind()
        launch()

    def _keep_launches(self) -> None:
        """Forget the prepared launches if an array of theirs was replaced or the variant is another."""
        lists = [array for pairs in self.pairs.lists for array in (pairs.entries, pairs.groups, pairs.words)]
        arrays = (self.slots.x, *lists)
        now = (self.spec, self.pairs.chunk, *(array.data.ptr for array in arrays))
        if now == self._prepared_for:
            return
        self._prepared_for = now
        self._entries = [int(1.02 * counts.entries) + 1 for counts in self.pairs.all_counts]
        self._launches.clear()
        self.version += 1

    def _set_constants(self, box: np.ndarray, r_inner: float) -> None:
        c = self.constants
        raised = self._tolerant and self.precision == "fast"
        limit = (SINGLE_POINT_LIMIT if raised else self._limit) ** 2
        scalars = (
            c.cutoff**2,
            *c.coulomb_arguments,
            c.shift6,
            c.shift12,
            TOLERANT_DISTANCE2 if self._tolerant else MINIMUM_DISTANCE2,
            limit,
            r_inner**2,
        )
        of_switch = np.array([getattr(c, name) for name in SWITCH_CONSTANTS], np.float32)
        values = np.concatenate(
            (np.array(scalars, np.float32), lattice_scale(box), position_grid(box), of_switch)
        )
        if values.tobytes() != self._constants_now:
            self._constants_now = values.tobytes()
            self._constants.set(values, stream=self.device.stream)

    def forces(
        self,
        forces: Any,
        energies: Any = None,
        blocks: int | None = None,
        part: int = 0,
        stream: Any = None,
        overlap: Wait | None = None,
    ) -> None:
        """Add the forces of all listed pairs at the positions ``slots.x``.

        Parameters
        ----------
        forces : (capacity, 4) float32 kJ/mol/nm, or int64 in units of 2^-32 of it
            OUTPUT, added to; by slot.
        energies : (11,) float64 kJ/mol, or int64 in units of 2^-20 of it; optional
            OUTPUT, added to: Lennard-Jones, Coulomb, and the virial sum of r_ij (x) f_ij, row by row.
        blocks : int, optional
            Blocks of the launch; any number gives the same sums. Default: about one for each entry of the list.
        part : int
            Number of the list: 0, pairs of owned atoms; 1, those with a ghost.
        stream : optional
            Stream to launch on; default the device's main one.
        overlap : Wait, optional
            Begin before the kernel ahead in the stream has ended: FIRST; LATER if that changes nothing of the list;
            LAST if neither that nor positions, but forces and `energies` at most by atomic additions.
        """
        totals = None if energies is None else energies.data.ptr
        key = (self.spec, self._prunes, forces.data.ptr, totals, blocks, part, stream and stream.ptr, overlap)
        self._launch(key, partial(self._bind, forces, energies, blocks, part, stream, overlap))

    @property
    def prunes(self) -> bool:
        """Whether `prune` does anything."""
        return self._prunes

    def exchanged_forces(self, forces: Any, energies: Any, halo: Any, overlap: bool) -> None:
        """Add the forces of both lists, on the main stream, by one kernel that waits for the rows of ghosts, and tells
        their owners when the forces on them are complete.

        Parameters
        ----------
        forces, energies
            As for `forces`.
        halo : device array
            `StepHalo.tables` of this rank.
        overlap : bool
            The kernel ahead in the stream changes nothing of the lists: begin while it ends.
        """
        totals = None if energies is None else energies.data.ptr
        key = (self.spec, self._prunes, forces.data.ptr, totals, halo.data.ptr, overlap)
        self._launch(key, partial(self._bind_both, forces, energies, halo, overlap))

    def load_exchanged(self) -> None:
        """Compile or load the kernels of `exchanged_forces` and `prune_exchanged`, which may take long."""
        for energies in (False, True):
            spec = replace(self.spec, energies=energies)
            self.device.kernel(pair_program(spec, self._warps, self.pairs.chunk, halo=True), "pair_forces")
        self.device.kernel(prune_program(self.spec, self.pairs.chunk, halo=True), "prune_pairs")

    def _bind_prune(self, part: int, stream: Any, overlap: Wait | None) -> Callable[[], None]:
        kernel = self.device.kernel(prune_program(self.spec, self.pairs.chunk), "prune_pairs")
        return kernel.bind(
            self._prune_blocks(part), 32 * PRUNE_WARPS, self.slots.x, self.pairs.super_center, self._constants,
            *self._prune_arguments(part), np.int32(overlap or Wait.FIRST), stream=stream,
            overlap=overlap is not None,
        )  # fmt: skip

    def _bind_prune_both(self, halo: Any) -> Callable[[], None]:
        kernel = self.device.kernel(prune_program(self.spec, self.pairs.chunk, halo=True), "prune_pairs")
        of_ghosts = self._prune_blocks(1)
        return kernel.bind(
            of_ghosts + self._prune_blocks(0), 32 * PRUNE_WARPS, self.slots.x, self.pairs.super_center, self._constants,
            *self._prune_arguments(1), np.int32(Wait.FIRST), np.int32(of_ghosts), *self._prune_arguments(0), halo,
        )  # fmt: skip

    def _prune_blocks(self, part: int) -> int:
        return -(-self._entries[part] // PRUNE_WARPS)

    def _prune_arguments(self, part: int) -> tuple[Any, ...]:
        pairs = self.pairs.lists[part]
        room = [np.int32(n) for n in pairs.entry_room]
        counts = np.int64(pairs.room[1]), pairs.masks, pairs.counters
        return pairs.entries, *room, pairs.groups, *counts, *pairs.kept

    def _bind(
        self, forces: Any, energies: Any, blocks: int | None, part: int, stream: Any, overlap: Wait | None
    ) -> Callable[[], None]:
        spec = replace(self.spec, energies=energies is not None)
        kernel = self.device.kernel(pair_program(spec, self._warps, self.pairs.chunk), "pair_forces")
        return kernel.bind(
            self._blocks(spec, part) if blocks is None else blocks, 32 * self._warps,
            *self._arguments(forces, energies, part), np.int32(overlap or Wait.FIRST), stream=stream,
            overlap=overlap is not None,
        )  # fmt: skip

    def _bind_both(self, forces: Any, energies: Any, halo: Any, overlap: bool) -> Callable[[], None]:
        spec = replace(self.spec, energies=energies is not None)
        program = pair_program(spec, self._warps, self.pairs.chunk, halo=True)
        of_ghosts = self._blocks(spec, 1)
        return self.device.kernel(program, "pair_forces").bind(
            of_ghosts + self._blocks(spec, 0), 32 * self._warps, *self._arguments(forces, energies, 1),
            np.int32(Wait.LATER), np.int32(of_ghosts), *self._list_arguments(0), halo, overlap=overlap,
        )  # fmt: skip

    def _arguments(self, forces: Any, energies: Any, part: int) -> tuple[Any, ...]:
        totals = self._no_totals if energies is None else energies
        return (
            self.slots.x, self.slots.parameters, self.pairs.super_center, *self._list_arguments(part),
            self._constants, self._table, np.int32(self.n_types), forces, totals, self._error,
        )  # fmt: skip

    def _list_arguments(self, part: int) -> tuple[Any, ...]:
        pairs = self.pairs.lists[part]
        entries, groups, masks = pairs.kept if self._prunes else (pairs.entries, pairs.groups, pairs.masks)
        room = [np.int32(n) for n in pairs.entry_room]
        return entries, *room, groups, masks, pairs.words, pairs.counters

    def _blocks(self, spec: KernelSpec, part: int) -> int:
        """One block for each entry that the list had when launches were last prepared, and a few more; a list that
        has since outgrown them gives some blocks two. With energies only as many as run at once, for each adds to
        the same sums."""
        if not spec.energies:
            return self._entries[part]
        return min(self._entries[part], self.device.n_multiprocessors * blocks_resident(spec, self._warps))

    @property
    def error_word(self) -> Any:
        """(1,) int32 on the device, not 0 once a force was out of range."""
        return self._error

    def check(self) -> None:
        """Report a force that was out of range since the last check; waits for the device.

        Raises
        ------
        UnstableError
            If a force was beyond `FORCE_LIMIT` or not a number.
        """
        if self.device.to_host(self._error)[0]:
            self.device.clear(self._error)
            raise UnstableError(
                f"a pair force is not a number or above {FORCE_LIMIT[self.precision]:.3g} kJ/mol/nm: atoms "
                "overlap; check the starting structure (minimise it first) and the time step"
            )
