"""One plan-rank on a GPU: its atoms in slots, its pair lists, and everything that gives or uses forces there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.device.cuda import CudaDevice
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.domain.gpu import Inbox, Storage
from pulsemd.domain.plan import LocalDomain
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.gpu_region import device_leaders
from pulsemd.engine.system import System
from pulsemd.halo import HaloPlan
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.nonbonded.spec import Precision
from pulsemd.kernels.search.gpu_grid import Region
from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER, Slots
from pulsemd.kernels.search.gpu_lists import OWNED_SUPERCLUSTERS, ListCounts
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.kernels.update.gpu_cell import GpuCell
from pulsemd.kernels.update.gpu_tables import UpdateConstants


@dataclass(frozen=True)
class DeviceRows:
    """What is read of a rank's rows, gid (n_owned,) int32: all are owned, and the plan sends nothing."""

    gid: NDArray[np.int32]
    plan: HaloPlan

    @property
    def n_owned(self) -> int:
        """Atoms of this rank: all."""
        return self.plan.n_owned

    @property
    def n_local(self) -> int:
        """The same; there are no ghosts."""
        return self.plan.n_local


@dataclass(frozen=True)
class ProcessRows:
    """What a summary says of the rows of a process.

    Parameters
    ----------
    gid : (n_owned,) int32
    plan : HaloPlan
        Of the first plan-rank, as the host planned last.
    n_owned, n_local : int
        Of all plan-ranks of the process.
    """

    gid: NDArray[np.int32]
    plan: HaloPlan
    n_owned: int
    n_local: int


class DevicePart:
    """A plan-rank of a GPU process.

    Parameters
    ----------
    device : CudaDevice
    system : System
    precision : {'fast', 'reproducible'}
    region : Region
    constants : UpdateConstants
    ghost_stream : stream of the device
        Where everything runs that needs ghosts.

    Attributes
    ----------
    box : (3, 3) float64, nm, of the next search
    cell : GpuCell or None
        Where a barostat scales it.
    is_fixed : bool
        Forces and sums are in fixed point.
    version : int
        Changes with whatever a recorded graph refers to.
    sums : (N_SUMS + 9,) float64 or int64, device
        Energies and virials of this rank on energy steps, then the virial of constraints.
    """

    def __init__(
        self,
        device: CudaDevice,
        system: System,
        precision: Precision,
        region: Region,
        constants: UpdateConstants,
        ghost_stream: Any,
    ) -> None:
        self.device, self.system, self._ghost_stream = device, system, ghost_stream
        topology, fixed = system.topology, precision == "reproducible"
        self.is_fixed = fixed
        exclusions = topology.exclusion_offset, topology.exclusion_atoms
        self.pairs = GpuPairForces(
            device,
            system.table,
            system.settings,
            precision,
            topology.type_index,
            topology.charge,
            *exclusions,
            region=region,
            potential=system.pair_potential,
            single_point=system.settings.nsteps == 0,
        )
        self.excluded_constants = system.excluded_constants(self.pairs.constants)
        self.exclusions = GpuExclusions(
            device,
            *exclusions,
            constants.molecules,
            system.box,
            self.excluded_constants,
            fixed,
            in_moves=constants.bath is None,
        )
        no_velocities = np.zeros((1, 3), np.float32)
        self.update = GpuUpdate(device, constants, no_velocities, fixed, self.exclusions.water_field)
        self.bonded = GpuBonded(
            device,
            topology.terms,
            topology.charge,
            self.pairs.constants.coulomb_factor,
            SLOTS,
            VIRIAL,
            system.reference,
            system.box,
            fixed,
        )
        self.sums = device.zeros(N_SUMS + 9, np.int64 if fixed else np.float64)
        self.pair_sums, self.constraint_virial = self.sums[:N_PAIR_SUMS], self.sums[N_SUMS:]
        self.version = 0
        self.box = system.box
        self.cell: GpuCell | None = None
        self._slots: Slots | None = None
        self.forces: Any = None

    @property
    def slots(self) -> Slots:
        """Atoms in cluster order."""
        return self.pairs.slots

    # ---- search -------------------------------------------------------------------------------------------------

    def slots_needed(self, domain: LocalDomain, r_list: float) -> int:
        """Slots that a search of these rows takes at most."""
        self.pairs.pairs.allow_reach(0.5 * (domain.halo_width - r_list))
        return self.pairs.pairs.prepare(self.box, r_list, domain.n_local)

    def begin_search(
        self, domain: LocalDomain, rows: Any, r_list: float, r_inner: float | None, forces: Any
    ) -> None:
        """Put the rows into slots and list the pairs; does not wait.

        Parameters
        ----------
        domain : LocalDomain
        rows : (capacity, 4) int32, device
            Positions of the local rows, ghosts included.
        forces : (slots, 4) float32 or int64, device
            Where forces go from now on.
        """
        device, box = self.device, self.box
        gid = device.to_device(domain.gid)
        leader = device_leaders(device, domain)
        self.pairs.begin_search(rows[: domain.n_local], gid, box, r_list, r_inner, domain.n_owned, leader)
        self.pairs.pairs.join()
        v = np.zeros((max(domain.n_owned, 1), 4), np.float32)
        v[: domain.n_owned, :3] = domain.atoms.v
        self._settle_in(forces, device.to_device(v))

    def begin_search_of(
        self, inbox: Inbox, n_owned: int, r_list: float, r_inner: float | None, forces: Any
    ) -> None:
        """The same of the rows of an inbox, of which ``n_owned`` have room for owned atoms; the lists go on beside what
        follows until `GpuSearch.join`."""
        rows = (inbox.x, inbox.gid)
        self.pairs.begin_search(*rows, self.box, r_list, r_inner, n_owned, inbox.leader, 0)
        self._settle_in(forces, inbox.v)

    def _settle_in(self, forces: Any, velocities: Any) -> None:
        if self.slots is not self._slots or forces is not self.forces:
            self._move_in(forces)
        self.update.settle_in(self.slots, forces, velocities)
        if self.cell is not None:
            self.cell.settle_in(self.update.velocities, self.slots.gid)

    def _move_in(self, forces: Any) -> None:
        """Let everything refer to new arrays."""
        self._slots, self.forces = self.slots, forces
        slots, stream = self._slots, self._ghost_stream
        self.exclusions.settle_in(slots, forces, self.pair_sums)
        self.exclusions.settle_in_ghosts(slots, forces, self.pair_sums, stream)
        if self.bonded.n_terms:
            self.bonded.settle_in_part(slots, forces, self.sums, stream)
        shapes = (slots.x, np.int32), (slots.gid, np.int32), (slots.x, np.float32)
        self._kept = [self.device.empty(like.shape, kind) for like, kind in shapes[:2]]
        self._aside = [self.device.empty(like.shape, kind) for like, kind in shapes]
        self.version += 1

    def count_terms(self) -> None:
        """Take and count this rank's terms."""
        self.bonded.choose()
        self.exclusions.count_pairs()

    @property
    def counters(self) -> tuple[Any, ...]:
        """What the host reads of a search: counters of the lists, then of terms."""
        chosen = (self.bonded.chosen,) if self.bonded.n_terms else ()
        return (self.pairs.pairs.counters, *chosen, self.exclusions.pairs_found)

    @property
    def counts_of_work(self) -> list[Any]:
        """Numbers on the device that all of a step goes by: of lists, of terms, and of what moves."""
        chosen = [self.bonded.chosen] if self.bonded.n_terms else []
        return [self.pairs.pairs.counters, *chosen, self.update.counts]

    @property
    def goes_by_counts(self) -> bool:
        """Whether steps leave positions and velocities alone as long as those are 0."""
        system, one_bath = self.system, self.update.kinetic.n_baths == 1
        stops_groups = system.held_group_of_atom is not None
        return not (stops_groups or system.settings.full_steps) and one_bath and self.update.noise is None

    @property
    def carried(self) -> list[Any]:
        """What one step leaves to the next one besides positions, velocities and forces, on the device."""
        chains = self.update.kinetic.chains
        return [self.update.control, *([] if chains is None else [chains.variables])]

    @staticmethod
    def terms_in(counts: list[NDArray[Any]]) -> NDArray[np.int64]:
        """Number of terms of each kind and of excluded pairs, from all `counters` but the first."""
        *chosen, pairs = counts
        kinds = [n.sum(0, dtype=np.int64) for n in chosen]
        return np.concatenate([*kinds, pairs.astype(np.int64)])

    def finish_search(self, counters: NDArray[np.int64]) -> list[ListCounts]:
        """Make the lists anew where they lacked room; the counts of each."""
        before = self.pairs.version
        self.pairs.finish_search(counters)
        self.version += self.pairs.version - before
        return self.pairs.pairs.all_counts

    def places_of(self, domain: LocalDomain) -> NDArray[np.int32]:
        """Slot of each local row, (n_local,); waits for the device."""
        places: NDArray[np.int32] = self.device.to_host(self.slots.slot_of_gid)[domain.gid]
        return places

    @property
    def storage(self) -> Storage:
        """Where the atoms are, for the next search on the device."""
        slots, owned = self.slots, self.pairs.pairs.counters[OWNED_SUPERCLUSTERS:]
        return Storage(slots.x, self.update.velocities, slots.gid, slots.slot_of_gid, owned, slots.source)

    def set_aside(self) -> None:
        """Before a search, keep what `searched` gives until the search is complete; on the stream of ghosts."""
        self._copy([*self._kept, self.update.velocities], self._aside, self._ghost_stream)

    def keep(self) -> None:
        """Keep a copy of the positions of this search."""
        self._copy([self.slots.x, self.slots.gid], self._kept, self.device.stream)

    def note_kept(self) -> None:
        """The search whose positions were kept is complete."""
        self._kept_owned = self.pairs.pairs.all_counts[0].owned_superclusters

    @staticmethod
    def _copy(sources: list[Any], targets: list[Any], stream: Any) -> None:
        for source, target in zip(sources, targets, strict=True):
            target.data.copy_from_device_async(source.data, source.nbytes, stream)

    def prepare_steps(self) -> None:
        """What comes between a search and the first step."""
        self.clear_ghost_forces()
        self.keep()
        self.start_forces(energies=False, waters_started=False)

    # ---- a step -------------------------------------------------------------------------------------------------

    def start_forces(self, energies: bool, waters_started: bool) -> None:
        """Begin the forces of owned atoms, with what excluded pairs of them give."""
        self.exclusions.start_forces(energies, waters_started)

    def local_forces(self, energies: bool, prune: bool) -> None:
        """Add what needs no ghost."""
        if prune:
            self.pairs.prune()
        self.pairs.forces(self.forces, self.pair_sums if energies else None)
        if self.bonded.n_terms:
            self.bonded.add_part(0, energies)

    @property
    def can_exchange(self) -> bool:
        """Whether the kernels of a step can exchange with other ranks by themselves: all forces are of pairs and of
        what moves start, and one kernel moves all atoms."""
        return self.bonded.n_terms == 0 and self.exclusions.starts_in_moves and self.update.can_exchange

    def clear_ghost_forces(self) -> None:
        """Start the forces of ghosts of the next step on their stream, where that needs no position."""
        if self.exclusions.ghosts_start_at_zero:
            self.exclusions.start_ghost_forces(energies=False)

    def exchanged_forces(self, energies: bool, prune: bool, halo: Any, overlap: bool) -> None:
        """Add all forces by kernels that exchange by themselves, see `GpuPairForces.exchanged_forces`."""
        if prune:
            self.pairs.prune_exchanged(halo)
        self.pairs.exchanged_forces(self.forces, self.pair_sums if energies else None, halo, overlap)

    def ghost_forces(self, energies: bool, prune: bool) -> None:
        """Begin the forces of ghosts and add what needs ghosts, on the stream of ghosts."""
        if not self.exclusions.ghosts_start_at_zero:
            self.exclusions.start_ghost_forces(energies)
        totals = self.pair_sums if energies else None
        if prune:
            self.pairs.prune(1, self._ghost_stream)
        self.pairs.forces(self.forces, totals, part=1, stream=self._ghost_stream)
        if self.bonded.n_terms:
            self.bonded.add_part(1, energies)

    # ---- what the host reads ------------------------------------------------------------------------------------

    def rows(self, counters: NDArray[np.int64] | None = None, reported: bool = False) -> LocalAtoms:
        """The owned atoms now, in the order of slots; waits for the device. ``counters``: of a search that is not
        complete yet; ``reported``: with the velocities that frames have."""
        if counters is None:
            owned = self.pairs.pairs.all_counts[0].owned_superclusters
        else:
            owned = int(counters[OWNED_SUPERCLUSTERS])
        v = self.update.reported_velocities if reported else self.update.velocities
        return self._rows(owned, self.slots.gid, self.slots.x, v)

    def searched(self, under_way: bool) -> LocalAtoms:
        """The same with the positions of the last search that is complete; ``under_way``: there is another."""
        x, gid, v = self._aside if under_way else (*self._kept, self.update.velocities)
        return self._rows(self._kept_owned, gid, x, v)

    def _rows(self, owned: int, *arrays: Any) -> LocalAtoms:
        gid, x, v = (self.device.to_host(array[: SUPERCLUSTER * owned]) for array in arrays)
        filled = gid >= 0
        return LocalAtoms(gid[filled], x[filled, :3], v[filled, :3])

    def owned_forces(self) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Global ids of the owned atoms, and forces on them (n_owned, 3), float32 or int64; waits for the device."""
        end = SUPERCLUSTER * self.pairs.pairs.all_counts[0].owned_superclusters
        gid, f = self.device.to_host(self.slots.gid[:end]), self.device.to_host(self.forces[:end])
        return gid[gid >= 0], np.ascontiguousarray(f[gid >= 0, :3])

    def put_positions(self, x: NDArray[np.int32]) -> None:
        """Take the positions (n_atoms, 3) of all atoms, by global id; waits for the device."""
        rows, gid = self.device.to_host(self.slots.x), self.device.to_host(self.slots.gid)
        rows[gid >= 0, :3] = x[gid[gid >= 0]]
        self.slots.x.set(rows, stream=self.device.stream)
        self.device.synchronize()


def joined_rows(parts: list[LocalAtoms]) -> LocalAtoms:
    """The rows of several ranks, one after the other."""
    return LocalAtoms(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("gid", "x", "v"))
    )
