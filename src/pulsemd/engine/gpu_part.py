"""One plan-rank on a GPU: its atoms in slots, its pair lists, and everything that gives or uses forces there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.device.cuda import CudaDevice
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.domain.plan import LocalDomain
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.gpu_region import device_leaders
from pulsemd.engine.system import System
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.nonbonded.spec import Precision
from pulsemd.kernels.search.gpu_grid import Region
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.search.gpu_lists import ListCounts
from pulsemd.kernels.update.gpu import GpuUpdate, UpdateConstants


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
    domain : LocalDomain
        Of the last search.
    places : (n_local,) int32
        Slot of each local row.
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
        )
        self.excluded_constants = system.excluded_constants(self.pairs.constants)
        self.exclusions = GpuExclusions(
            device, *exclusions, constants.molecules, system.box, self.excluded_constants, fixed
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
        return self.pairs.pairs.prepare(self.system.box, r_list, domain.n_local)

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
        self.domain, device = domain, self.device
        gid = device.to_device(domain.gid)
        leader = device_leaders(device, domain)
        box = self.system.box
        self.pairs.begin_search(rows[: domain.n_local], gid, box, r_list, r_inner, domain.n_owned, leader)
        v = np.zeros((max(domain.n_owned, 1), 4), np.float32)
        v[: domain.n_owned, :3] = domain.atoms.v
        if self.slots is not self._slots or forces is not self.forces:
            self._move_in(forces)
        self.update.settle_in(self.slots, forces, device.to_device(v))

    def _move_in(self, forces: Any) -> None:
        """Let everything refer to new arrays."""
        self._slots, self.forces = self.slots, forces
        slots, stream = self._slots, self._ghost_stream
        self.exclusions.settle_in(slots, forces, self.pair_sums)
        self.exclusions.settle_in_ghosts(slots, forces, self.pair_sums, stream)
        if self.bonded.n_terms:
            self.bonded.settle_in_part(slots, forces, self.sums, stream)
        self.version += 1

    def finish_search(self) -> tuple[list[ListCounts], NDArray[np.int64]]:
        """Wait for the search; returns the counts of the lists and the number of bonded terms of each kind."""
        before = self.pairs.version
        self.pairs.finish_search()
        self.version += self.pairs.version - before
        self.places = self.device.to_host(self.slots.slot_of_gid)[self.domain.gid]
        return self.pairs.pairs.all_counts, self.bonded.choose()

    # ---- a step -------------------------------------------------------------------------------------------------

    def start_forces(self, energies: bool, waters_started: bool) -> None:
        """Begin the forces of owned atoms, with what excluded pairs of them give."""
        self.exclusions.start_forces(energies, waters_started)

    def local_forces(self, energies: bool, prune: bool) -> None:
        """Add what needs no ghost."""
        self.pairs.forces(self.forces, self.pair_sums if energies else None, prune)
        if self.bonded.n_terms:
            self.bonded.add_part(0, energies)

    def ghost_forces(self, energies: bool, prune: bool) -> None:
        """Begin the forces of ghosts and add what needs ghosts, on the stream of ghosts."""
        self.exclusions.start_ghost_forces(energies)
        totals = self.pair_sums if energies else None
        self.pairs.forces(self.forces, totals, prune, part=1, stream=self._ghost_stream)
        if self.bonded.n_terms:
            self.bonded.add_part(1, energies)

    # ---- what the host reads ------------------------------------------------------------------------------------

    def rows(self) -> LocalAtoms:
        """The owned rows now, in the order of the domain; waits for the device."""
        domain, owned = self.domain, self.places[: self.domain.n_owned]
        x = self.device.to_host(self.slots.x)[owned, :3]
        v = self.device.to_host(self.update.velocities)[owned, :3]
        return LocalAtoms(domain.gid[: domain.n_owned], np.ascontiguousarray(x), np.ascontiguousarray(v))

    def put_positions(self, x: NDArray[np.int32]) -> None:
        """Take the positions (n_atoms, 3) of all atoms, by global id, for the owned rows; waits for the device."""
        domain, owned = self.domain, self.places[: self.domain.n_owned]
        rows = self.device.to_host(self.slots.x)
        rows[owned, :3] = x[domain.gid[: domain.n_owned]]
        self.slots.x.set(rows, stream=self.device.stream)
        self.device.synchronize()
