"""One rank on one GPU: the same surface as `pulsemd.engine.rank.Rank`, with all arrays on the device.

Steps only launch kernels. The host waits for the device at searches, where it reads a few counters and the error
word, and on steps whose energies or positions are wanted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import DomainError, TransportError, UnstableError
from pulsemd.base.units import BOLTZMANN
from pulsemd.device.cuda import CudaDevice
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.domain.grid import choose_grid
from pulsemd.engine.blowup import BONDED_OUT_OF_RANGE, CANNOT_MOVE, OVERLAPS, Failure
from pulsemd.engine.coupling import degrees_of_freedom
from pulsemd.engine.energies import ENERGY_SCALE, N_PAIR_SUMS, N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.local import exclusion_pairs
from pulsemd.engine.movers import ConstrainedGroups, water_kinds
from pulsemd.engine.options import RunOptions
from pulsemd.engine.rank import StepFlags
from pulsemd.engine.setup import inner_cutoff
from pulsemd.engine.system import System, group_reach
from pulsemd.halo import HaloPlan, Transport
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions import count_within, self_energy
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.gpu import NO_ERROR, GpuUpdate, UpdateConstants
from pulsemd.schedule.phase import Phase, PhaseTimer

PRUNE_INTERVAL = 10
"""Steps between two prunings of the pair list, in fast mode."""


@dataclass(frozen=True)
class DeviceRows:
    """What is read of a rank's rows: all atoms are owned and nothing is sent.

    Parameters
    ----------
    gid : (n_owned,) int32, in the order of `GpuRank.x`
    plan : HaloPlan, without pulses
    """

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


class GpuRank:
    """State and work of the one rank of a run on a GPU.

    Parameters
    ----------
    transport : Transport
        Of one rank.
    system : System
    options : RunOptions
    r_list : float, nm

    Raises
    ------
    TransportError
        If there are several ranks, or no GPU can be used.
    TopologyError
        If constraints tie too many atoms together.
    """

    def __init__(self, transport: Transport, system: System, options: RunOptions, r_list: float) -> None:
        if transport.size != 1:
            raise TransportError(f"--device cuda: one GPU runs one rank, not {transport.size}; use --ranks 1")
        self.transport, self.system, self.options, self.r_list = transport, system, options, r_list
        self.reproducible = fixed = options.precision == "reproducible"
        self.flags = StepFlags()
        self.thermostat_work = 0.0
        self.n_searches = 0
        topology, settings = system.topology, system.settings
        self.n_dof = degrees_of_freedom(topology, settings)
        self.total_mass = float(topology.mass.sum())
        self.grid = choose_grid(1, system.box, r_list + 2.0 * group_reach(system), options.grid)
        self._plan = HaloPlan(0, 1, topology.n_atoms, topology.n_atoms, ())
        self.device = CudaDevice()
        self.device_name = f"cuda: {self.device.name}"
        exclusions = (topology.exclusion_offset, topology.exclusion_atoms)
        self._pairs = GpuPairForces(
            self.device,
            system.table,
            settings,
            options.precision,
            topology.type_index,
            topology.charge,
            *exclusions,
        )
        constants = self._pairs.constants
        self._exclusions = GpuExclusions(
            self.device, *exclusions, topology.settle_atoms, system.box, constants, fixed
        )
        self._update = GpuUpdate(
            self.device, self._update_constants(), system.v, fixed, self._exclusions.water_field
        )
        self._waters_started = False
        self._bonded = GpuBonded(
            self.device,
            topology.terms,
            topology.charge,
            constants.coulomb_factor,
            SLOTS,
            VIRIAL,
            system.reference,
            system.box,
            fixed,
        )
        self._sums = self.device.zeros(N_SUMS + 9, np.int64 if fixed else np.float64)
        self._pair_sums, self._constraint_virial = self._sums[:N_PAIR_SUMS], self._sums[N_SUMS:]
        self._r_inner = None if fixed else inner_cutoff(system, r_list, PRUNE_INTERVAL)
        self.sums: NDArray[np.float64] = np.zeros(N_SUMS + 9)
        self.kinetic = 0.0
        self._first_step, self._fresh = system.step, True
        self._slots = self._rows_of_files()
        self._settle_in()
        self._verify_masks()

    def _update_constants(self) -> UpdateConstants:
        s, topology = self.system.settings, self.system.topology
        interval = s.nsttcouple * s.dt
        return UpdateConstants(
            box=self.system.box,
            dt=s.dt,
            mass=topology.mass,
            waters=water_kinds(topology),
            groups=ConstrainedGroups(topology),
            target=0.5 * self.n_dof * BOLTZMANN * s.ref_t,
            n_dof=self.n_dof,
            keep=math.exp(-interval / s.tau_t) if s.tau_t > 0 else 0.0,
            seed=s.ld_seed,
        )

    # ---- search -------------------------------------------------------------------------------------------------

    def search(self) -> None:
        """Put the atoms in order again and build the pair list."""
        self._settle_in()

    def take_up(self, x: NDArray[np.int32], thermostat_work: float) -> None:
        """Go on inside a list lifetime that was built from the positions of its search; as for `Rank`."""
        rows, gid = self.device.to_host(self._slots.x), self.device.to_host(self._slots.gid)
        rows[gid >= 0, :3] = x[gid[gid >= 0]]
        with self.device.current():
            self._slots.x[...] = self.device.to_device(rows)
        self._update.set_work(thermostat_work)
        self.thermostat_work = thermostat_work

    def searched(self) -> LocalAtoms:
        """The rows at the last search; waits for the device."""
        return LocalAtoms(self.domain.gid, self._rows(self._searched_x), self.velocities)

    def images(self) -> None:
        """Box crossings are not counted on a GPU."""
        return None

    def read_work(self) -> float:
        """Work of the thermostat so far, kJ/mol; waits for the device."""
        return float(self._update.read()["work"])

    def failure(self) -> Failure | None:
        """What went wrong first since the last search; waits for the device."""
        error = int(self._update.read()["error"])
        if error != NO_ERROR:
            step, gid = self._first_step + (error >> 32), error & 0xFFFFFFFF
            return self._new_failure(step, gid, CANNOT_MOVE)
        try:
            self._pairs.check()
        except UnstableError:
            return self._new_failure(self.flags.step, self._strongest(), OVERLAPS)
        gid = self._bonded.bad_atom() if self._bonded.n_terms else -1
        if gid >= 0:
            return self._new_failure(self.flags.step, gid, BONDED_OUT_OF_RANGE)
        return None

    @staticmethod
    def _new_failure(step: int, gid: int, reason: str) -> Failure:
        return Failure(
            step, gid, reason, float("nan"), None, np.zeros(0, np.int32), np.zeros((0, 3), np.int32)
        )

    def _strongest(self) -> int:
        """Global id of the atom with the largest force; one that is not finite counts as largest."""
        f = self._rows(self.f).astype(np.float64)
        return int(self.domain.gid[np.argmax(np.nan_to_num((f * f).sum(1), nan=np.inf))])

    def _rows_of_files(self) -> Slots:
        """The atoms in the order of the files, for the first search."""
        n, to_device = self.system.topology.n_atoms, self.device.to_device
        x = np.zeros((n, 4), np.int32)
        x[:, :3] = self.system.x
        gid = to_device(np.arange(n, dtype=np.int32))
        return Slots(n, n, to_device(x), gid, source=None, slot_of_gid=None, parameters=None)

    def _settle_in(self) -> None:
        """Search, and take over the slots that it leaves."""
        self._counts = self._pairs.search(
            self._slots.x, self._slots.gid, self.system.box, self.r_list, self._r_inner
        )
        if self._pairs.slots is not self._slots:
            self._slots = slots = self._pairs.slots
            self._searched_x = self.device.empty(slots.x.shape, np.int32)
            self.f = self.device.zeros((slots.capacity, 4), np.int64 if self.reproducible else np.float32)
            self._exclusions.settle_in(slots, self.f, self._pair_sums)
            self._bonded.settle_in(slots, self.f, self._sums)
        x = self._slots.x
        self._searched_x.data.copy_from_device_async(x.data, x.nbytes, self.device.stream)
        self._update.settle_in(self._slots, self.f)
        self._waters_started, self._fresh = False, True
        self.n_searches += 1

    def _verify_masks(self) -> None:
        """The excluded pairs masked in the first list must be those of the topology within the list cut-off."""
        topology, system = self.system.topology, self.system
        pairs = exclusion_pairs(topology.exclusion_offset, topology.exclusion_atoms)
        expected = count_within(system.x, pairs, system.box, self.r_list)
        if self._counts.excluded != expected:
            raise DomainError(
                f"the pair list on the device holds {self._counts.excluded} excluded pairs, the topology {expected}; "
                "a pair is lost or listed twice; please report this"
            )

    # ---- a step -------------------------------------------------------------------------------------------------

    def begin_step(self, flags: StepFlags) -> None:
        """Set what this step does; clears the sums of energy steps."""
        self.flags = flags
        if self._fresh:
            self._first_step, self._fresh = flags.step, False
            self._update.set_first_step(flags.step)
        if flags.energies:
            self.device.clear(self._sums)

    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""
        return (*self.force_phases(), Phase("update", self.update))

    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring the forces up to date; the first one also clears them."""
        bonded = self._bonded
        phases = (
            Phase("forces.exclusions", self._start_forces),
            Phase("forces.pairs", self._pair_forces),
        )
        if not bonded.n_terms:
            return phases
        return (*phases, Phase("forces.bonded", lambda: bonded.add_forces(self.flags.energies)))

    def _start_forces(self) -> None:
        self._exclusions.start_forces(self.flags.energies, self._waters_started)
        self._waters_started = False

    def _pair_forces(self) -> None:
        prune = self._r_inner is not None and (self.flags.step - self._first_step) % PRUNE_INTERVAL == 0
        self._pairs.forces(self.f, self._pair_sums if self.flags.energies else None, prune)

    def update(self) -> None:
        """Thermostat, kick, drift, constraints; on energy steps also the sums, for which the host waits."""
        flags, update = self.flags, self._update
        offset = flags.step - self._first_step
        coupled = flags.thermostat or flags.remove_com
        if coupled or flags.energies:
            update.sum_kinetic(offset, flags.thermostat, flags.remove_com)
        update.move(offset, coupled, self._constraint_virial if flags.energies else None)
        self._waters_started = True
        if flags.energies:
            update.sum_kinetic_after()
            self._read_energies()

    def _read_energies(self) -> None:
        """Energies and virials of this step, kJ/mol."""
        control, sums = self._update.read(), self.device.to_host(self._sums)
        self_energy(self.system.topology.charge, self._pairs.constants, sums[:N_PAIR_SUMS])
        self.sums = sums.astype(np.float64) / (ENERGY_SCALE if self.reproducible else 1.0)
        self.kinetic = 0.5 * float(control["before"] + control["after"])
        self.thermostat_work = float(control["work"])

    def evaluate(self, step: int, timer: PhaseTimer) -> None:
        """Energies of the current positions without moving: a whole step that is then taken back."""
        self.begin_step(StepFlags(step, energies=True))
        timer.run(self.force_phases())
        with self.device.current():
            kept = [(array, array.copy()) for array in (self._slots.x, self._update.velocities)]
        timer.timed("update", self.update)
        with self.device.current():
            for array, copy in kept:
                array[...] = copy
        self._waters_started = False

    def wait(self) -> None:
        """Until everything launched is done."""
        self.device.synchronize()

    # ---- what is read from outside ------------------------------------------------------------------------------

    @property
    def domain(self) -> DeviceRows:
        """Global ids of the rows of `x` and `velocities`; waits for the device."""
        gid = self.device.to_host(self._slots.gid)
        return DeviceRows(gid[gid >= 0], self._plan)

    @property
    def x(self) -> NDArray[np.int32]:
        """(n, 3) int32, lattice units, in the order of ``domain.gid``; waits for the device."""
        return self._rows(self._slots.x)

    @property
    def velocities(self) -> NDArray[np.float32]:
        """(n, 3) float32, nm/ps, in the order of ``domain.gid``; waits for the device."""
        return self._rows(self._update.velocities)

    def _rows(self, array: Any) -> NDArray[Any]:
        filled = self.device.to_host(self._slots.gid) >= 0
        return np.ascontiguousarray(self.device.to_host(array)[filled, :3])
