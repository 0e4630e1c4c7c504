"""One rank on one GPU: the same surface as `pulsemd.engine.rank.Rank`, with all arrays on the device.

Steps only launch kernels, as one graph from one output or search to the next. The host waits for the device once in
a list lifetime: after the search at its end, for a few counters and the error words. Energies and positions that
are wanted in between are copied beside the steps and read when the host waits anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import DomainError, TransportError
from pulsemd.device.cuda import CudaDevice
from pulsemd.device.mirror import Array, Mirror, Snapshots
from pulsemd.device.overlap import Wait
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.domain.grid import choose_grid
from pulsemd.engine.blowup import Failure
from pulsemd.engine.cell import Cell
from pulsemd.engine.coupling import StepFlags, kinetic_intervals, scales_box
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, SLOTS, VIRIAL, StepSums
from pulsemd.engine.gpu_barostat import DeviceCells, gpu_cell
from pulsemd.engine.gpu_constants import gpu_annealing, update_constants
from pulsemd.engine.gpu_failure import failure_on_device
from pulsemd.engine.gpu_part import DeviceRows
from pulsemd.engine.gpu_steps import ENERGIES_AHEAD, FRAMES_AHEAD, PRUNE_INTERVAL, GpuSteps
from pulsemd.engine.gpu_sums import step_sums
from pulsemd.engine.lattice import add_background, gpu_lattice_sum, settle_lattice
from pulsemd.engine.local import exclusion_pairs
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import inner_cutoff
from pulsemd.engine.system import Continuation, System, group_reach
from pulsemd.halo import HaloPlan, Transport
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions import count_within, self_energy
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.control import as_control
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.schedule.chain import KernelChain
from pulsemd.schedule.phase import Phase, PhaseTimer


class GpuRank(GpuSteps):
    """State and work of the one rank of a run on a GPU.

    Parameters
    ----------
    transport : Transport
        Of one rank.
    system : System
    options : RunOptions
    r_list : float, nm
    nstlist : int
        Steps between two searches.

    Raises
    ------
    TransportError
        If there are several ranks, or no GPU can be used.
    TopologyError
        If constraints tie too many atoms together.
    """

    energies_ahead, frames_ahead = ENERGIES_AHEAD, FRAMES_AHEAD
    all_are_well = False  # of other ranks nothing is known
    host_waits_per_step, host_waited = 0, 0.0

    def __init__(
        self, transport: Transport, system: System, options: RunOptions, r_list: float, nstlist: int
    ) -> None:
        if transport.size != 1:
            raise TransportError(f"--device cuda: one GPU runs one rank, not {transport.size}; use --ranks 1")
        self.transport, self.system, self.options, self.r_list = transport, system, options, r_list
        self.reproducible = fixed = options.precision == "reproducible"
        self.flags = StepFlags()
        self._cells = system.cell, system.cell
        self.n_searches = 0
        topology = system.topology
        self.n_dof = system.n_dof
        self.total_mass = float(topology.mass.sum())
        self.grid = choose_grid(1, system.box, r_list + 2.0 * group_reach(system), options.grid)
        self._plan = HaloPlan(0, 1, topology.n_atoms, topology.n_atoms, ())
        self.device = CudaDevice()
        self.device_name = f"cuda: {self.device.name}"
        self._make_forces(fixed)
        self._r_inner = None if fixed else inner_cutoff(system, r_list, PRUNE_INTERVAL, nstlist)
        self.found = StepSums(np.zeros(N_SUMS + 9))
        self._update.set_step(system.step)
        self._update.set_start(system.step)
        self._beside = self._work_beside_pairs()
        # The move is then one kernel that the next step's first one can follow while it ends.
        self._move_overlaps = (
            self._lattice is None
            and self._update.is_one_kernel
            and (self._exclusions.starts_in_moves or self._adds_exclusions)
        )
        self._chain = KernelChain()
        self._prepare_steps(options, no_graph="", priorities=self._lattice is not None)
        self._phases = self.phases()
        words = (self._pairs.error_word, self._bonded.error_word, self._update.control)
        self._mirror = Mirror(self.device, (*words, self._sums, *self._box.words), ENERGIES_AHEAD + 1)
        self._snapshots = Snapshots(self.device, FRAMES_AHEAD)
        self._searched: tuple[Any, Any] | None = None
        self._earlier: tuple[Any, Any] | None = None
        self._slots = self._rows_of_files()
        self._ahead: Callable[[], list[Array]] | None = None
        self.search()
        self._verify_masks()

    def _make_forces(self, fixed: bool) -> None:
        """Everything that gives forces or uses them, and the sums of energy steps."""
        topology, settings = self.system.topology, self.system.settings
        exclusions = (topology.exclusion_offset, topology.exclusion_atoms)
        self._pairs = GpuPairForces(
            self.device,
            self.system.table,
            settings,
            self.options.precision,
            topology.type_index,
            topology.charge,
            *exclusions,
            potential=self.system.pair_potential,
            single_point=settings.nsteps == 0,
        )
        constants, update = self._pairs.constants, update_constants(self.system)
        self._excluded_constants = self.system.excluded_constants(constants)
        self._exclusions = GpuExclusions(
            self.device,
            *exclusions,
            update.molecules,
            self.system.box,
            self._excluded_constants,
            fixed,
            in_moves=update.bath is None,
        )
        self._update = GpuUpdate(self.device, update, self.system.v, fixed, self._exclusions.water_field)
        self._adds_exclusions = self._exclusions.rest_can_be_added and self._update.clears_forces
        self._bonded = GpuBonded(
            self.device,
            topology.terms,
            topology.charge,
            constants.coulomb_factor,
            SLOTS,
            VIRIAL,
            self.system.reference,
            self.system.box,
            fixed,
            self._exclusions.rest if self._adds_exclusions else None,
            self._exclusions.field,
        )
        self._lattice = gpu_lattice_sum(self.device, self.system, constants, fixed)
        self._sums = self.device.zeros(N_SUMS + 9, np.int64 if fixed else np.float64)
        self._pair_sums, self._constraint_virial = self._sums[:N_PAIR_SUMS], self._sums[N_SUMS:]
        parts = (self._pairs, self._exclusions, self._bonded, self._update, self._lattice)
        self._cell = gpu_cell(self.device, self.system, *parts, self._sums, fixed)
        self._box = DeviceCells(self.system, [self._cell])
        self._annealing = gpu_annealing(self.device, settings, self._update, self._cell, fixed)

    def _work_beside_pairs(self) -> list[tuple[str, Any, Callable[[bool], None]]]:
        """Name, stream and launch of each kind of forces that runs while the pairs do."""
        lattice = self._lattice
        return [] if lattice is None else [("lattice", lattice.stream, lambda energies: lattice.add_forces())]

    # ---- search -------------------------------------------------------------------------------------------------

    def search_ahead(self) -> None:
        """Launch a search of the positions that the steps launched so far will lead to; only a barostat waits."""
        self._cells = self._cells[1], self._box.begin_list()
        self._pairs.begin_search(
            self._slots.x, self._slots.gid, self._cells[1].box, self.r_list, self._r_inner
        )
        if self._pairs.slots is not self._slots:
            self._move_in(self._pairs.slots)
        self._ahead = self._status.take()  # what follows runs while the host reads it
        self._earlier, self._searched = self._searched, self._keep(self._earlier)
        self._update.settle_in(self._slots, self.f)
        if self._cell is not None:
            self._cell.settle_in(self._update.velocities, self._slots.gid)
        self._start_forces(energies=False, waters_started=False)
        self._pairs.prune_ahead()

    def advance_ahead(self, step: int, n: int, timer: PhaseTimer) -> None:
        """Launch what `advance` is to do next before a `search_ahead` is complete: nothing here."""

    def search(self) -> None:
        """Put the atoms in order again and build the pair list; completes a `search_ahead`."""
        if self._ahead is None:
            self.search_ahead()
        assert self._ahead is not None
        counters = self._ahead()[-1]
        version, self._ahead = self._pairs.version, None
        self._pairs.finish_search(counters)
        if self._pairs.version != version:
            self._forget_graphs()
        self._first_step = self._clock
        self.n_searches += 1

    @property
    def searches_on_device(self) -> int:
        """Searches that went without the host planning them: all, as there is no halo."""
        return self.n_searches

    def _move_in(self, slots: Slots) -> None:
        """Arrays for slots of another capacity, and whatever refers to them."""
        self._slots = slots
        self.f = self.device.zeros((slots.capacity, 4), np.int64 if self.reproducible else np.float32)
        self._exclusions.settle_in(slots, self.f, self._pair_sums, self._adds_exclusions)
        self._bonded.settle_in(slots, self.f, self._sums)
        if self._lattice is not None:
            settle_lattice(self._lattice, [slots], [self.f], self._sums)
        words = (self._pairs.error_word, self._bonded.error_word, self._update.control)
        self._status = Mirror(self.device, (*words, self._pairs.pairs.counters), 2)
        self._earlier = None
        self._forget_graphs()

    def _keep(self, room: tuple[Any, Any] | None) -> tuple[Any, Any]:
        """Copies of the positions and ids of all slots, in arrays that are not needed any more."""
        now = self._slots.x, self._slots.gid
        if room is None or room[0].shape != now[0].shape:
            room = (self.device.empty(now[0].shape, np.int32), self.device.empty(now[1].shape, np.int32))
        for copy, array in zip(room, now, strict=True):
            copy.data.copy_from_device_async(array.data, array.nbytes, self.device.stream)
        return room

    def take_up(self, earlier: Continuation) -> None:
        """Go on inside a list lifetime that was built from the positions of its search; as for `Rank`."""
        self._box.put(earlier, self._cells[1])
        self.place(earlier.x)
        self._update.kinetic.put_heat(earlier.thermostat_work, *earlier.extended.heat)

    def place(self, x: NDArray[np.int32]) -> None:
        """Put the atoms at positions inside a list lifetime; as for `Rank`."""
        rows, gid = self.device.to_host(self._slots.x), self.device.to_host(self._slots.gid)
        rows[gid >= 0, :3] = x[gid[gid >= 0]]
        with self.device.current():
            self._slots.x[...] = self.device.to_device(rows)
        self._pairs.prune()
        self._start_forces(energies=False, waters_started=False)

    def tolerate_overlaps(self, tolerant: bool) -> None:
        """From the next search on: whether atoms may overlap; as for `Rank`."""
        if self._ahead is not None:
            self.search()
        self._pairs.tolerate_overlaps(tolerant)

    def evaluate_at(
        self, x: NDArray[np.int32], search: bool, timer: PhaseTimer
    ) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Energies and forces at other positions; as for `Rank`. Waits for the device."""
        self.place(x)
        if search:
            timer.timed("search", self.search)
        self.begin_step(StepFlags(self._first_step, energies=True))
        timer.run(self.force_phases())
        self.take_energies()()
        found = self._owned_forces()[0]
        self._start_forces(energies=False, waters_started=False)
        return found

    def take_failure(self) -> Failure | None:
        """`failure`, which is then forgotten."""
        failure = self.failure()
        self._update.forget_error()
        for word in (self._pairs.error_word, self._bonded.error_word):
            self.device.clear(word)
        return failure

    def searched(self) -> LocalAtoms:
        """Positions at the last search that was completed, velocities of now; waits for the device."""
        kept = self._searched if self._ahead is None else self._earlier
        assert kept is not None
        x, gid = (self.device.to_host(array) for array in kept)
        by_gid = np.zeros((self.system.topology.n_atoms, 3), np.int32)
        by_gid[gid[gid >= 0]] = x[gid >= 0, :3]
        now = self.rows()
        return LocalAtoms(now.gid, by_gid[now.gid], now.v)

    @property
    def searched_cell(self) -> Cell:
        """The cell of those positions."""
        return self._cells[self._ahead is None]

    def failure(self) -> Failure | None:
        """What went wrong first since the start; waits for the device."""
        copies = (self._ahead or self._mirror.take())()
        if self._ahead is None:
            self._box.hear(copies[4:])
        self._warn_of_turns(copies[2:3])
        return failure_on_device(copies[:3], self.system.step, self._first_step, self._clock, self.rows)

    def _rows_of_files(self) -> Slots:
        """The atoms in the order of the files, for the first search."""
        n, to_device = self.system.topology.n_atoms, self.device.to_device
        x = np.zeros((n, 4), np.int32)
        x[:, :3] = self.system.x
        gid = to_device(np.arange(n, dtype=np.int32))
        return Slots(n, n, to_device(x), gid, source=None, slot_of_gid=None, parameters=None)

    def _verify_masks(self) -> None:
        """The excluded pairs masked in the first list must be those of the topology within the list cut-off."""
        topology, system = self.system.topology, self.system
        pairs = exclusion_pairs(topology.exclusion_offset, topology.exclusion_atoms)
        expected = count_within(system.x, pairs, system.box, self.r_list)
        found = self._pairs.pairs.counts.excluded
        if found != expected:
            raise DomainError(
                f"the pair list on the device holds {found} excluded pairs, the topology {expected}; "
                "a pair is lost or listed twice; please report this"
            )

    # ---- steps --------------------------------------------------------------------------------------------------

    def advance(self, step: int, n: int, energies: bool, timer: PhaseTimer) -> None:
        """Make `n` steps from `step` on; with `energies` those of the first."""
        if self._ahead is not None:
            self.search()
        super().advance(step, n, energies, timer)

    def _set_step(self, step: int) -> None:
        self._update.set_step(step)

    def _read_control(self) -> np.void:
        return self._update.read()

    def _end_run(self, n: int) -> None:
        self._update.tick(n)

    def begin_step(self, flags: StepFlags, offset: int = 0) -> None:
        """Set what this step does and how far it is from the device's step; clears the sums of energy steps."""
        self.flags, self._offset = flags, offset
        new_box = scales_box(self.system.settings, flags.step - 1)  # its constants are read ahead of any wait
        self._chain.begin(self._move_overlaps and self._age > 0 and not flags.sums and not new_box)
        if flags.sums:
            self.device.clear(self._sums)
        if self._annealing is not None:
            self._annealing.apply(offset)

    @property
    def _age(self) -> int:
        """Steps since the search."""
        return self.flags.step - self._first_step

    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""
        return (*self.force_phases(), self._phase("update", self.update))

    def _phase(self, name: str, call: Callable[[], None]) -> Phase:
        """A phase, with its times if they are wanted."""
        return Phase(name, call) if self._trace is None else self._trace.phase(name, call)

    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring the forces up to date; bonded terms and the lattice sum run beside the pairs."""
        start = [self._phase("forces.exclusions", lambda: self._start_forces(self.flags.sums, True))]
        pairs = self._phase("forces.pairs", self._pair_forces)
        begin = [self._phase(f"forces.{n}.begin", partial(self._begin, *how)) for n, *how in self._beside]
        if self._bonded.has_work(energies=False):
            begin.append(self._phase("forces.bonded", self._bonded_forces))
        end = [
            self._phase(f"forces.{name}.end", partial(self.device.join, branch))
            for name, branch, _ in self._beside
        ]
        if self._lattice is not None:  # adds to no forces yet, so it goes beside what starts them
            solve = partial(self._begin, self._beside[0][1], self._lattice.find_potential)
            start.insert(0, self._phase("forces.lattice.solve", solve))
        return *start, *begin, pairs, *end

    def _start_forces(self, energies: bool, waters_started: bool) -> None:
        self._exclusions.start_forces(energies, waters_started)

    def _begin(self, branch: Any, launch: Callable[[bool], None]) -> None:
        self.device.fork(branch)
        launch(self.flags.sums)

    def _bonded_forces(self) -> None:
        if self._bonded.has_work(self.flags.sums):
            self._bonded.add_forces(self.flags.sums, overlap=self._chain.join() is not None)

    def _pair_forces(self) -> None:
        """Forces of pairs, and ahead of them what needs no forces."""
        flags = self.flags
        if flags.kinetic and not self._full_steps:
            self._update.sum_kinetic(self._offset, *self._intervals, self._chain.join(first=Wait.FIRST))
        due = self._age > 0 and self._age % PRUNE_INTERVAL == 0  # a search ends with a pruning
        if due and self._pairs.prunes:
            self._pairs.prune(overlap=self._chain.join(first=Wait.FIRST, then=Wait.FIRST))
        self._pairs.forces(self.f, self._pair_sums if flags.sums else None, overlap=self._chain.join())

    @property
    def _intervals(self) -> tuple[int, int]:
        """Steps between actions on the velocities, for what sums their kinetic energy."""
        return kinetic_intervals(self.system.settings) if self.flags.couples else (0, 0)

    def update(self) -> None:
        """Thermostat, kick, drift, constraints, barostat, the start of the next forces; where wanted also the sums."""
        flags, update = self.flags, self._update
        virial = self._constraint_virial if flags.sums else None
        overlap = self._move_overlaps and not flags.sums and not flags.box_drags
        if flags.kinetic and self._full_steps:
            overlap = False
            update.complete(flags.couples, virial)
            update.sum_kinetic(self._offset, *self._intervals)
        self._box.drag(flags)
        update.move(self._offset, flags.couples, virial, overlap)
        if flags.kinetic_after(self._full_steps):
            update.sum_kinetic_after()
        self._box.finish_step(self._offset, flags)
        if flags.new_box:
            update.construct_sites()
            self._start_forces(energies=False, waters_started=False)  # the move began them in the other box

    def take_energies(self) -> Callable[[], None]:
        """Copy the energies of the step just launched; the function waits for them and makes them those of now."""
        read = self._mirror.take()
        return lambda: self._set_energies(read())

    def _set_energies(self, copies: list[Array]) -> None:
        """Energies and virials, kJ/mol, from a copy of the sums and of the control record."""
        control, sums = as_control(copies[2]), copies[3]
        self_energy(self.system.topology.charge, self._excluded_constants, sums[:N_PAIR_SUMS])
        work, volume = self._box.of_sums(copies[4:])
        if self._lattice is not None:
            add_background(sums, self.system, self._pairs.constants, volume)
        self.found = step_sums(sums, self.reproducible, control, work, volume)

    def evaluate(self, step: int, timer: PhaseTimer, coupled: bool = True) -> None:
        """Energies of the next step without moving, as for `Rank`."""
        if self._ahead is not None:
            self.search()
        super().evaluate(step, timer, coupled)

    def _owned_forces(self) -> list[tuple[NDArray[np.int32], NDArray[Any]]]:
        f, gid = self.device.to_host(self.f), self.device.to_host(self._slots.gid)
        return [(gid[gid >= 0], np.ascontiguousarray(f[gid >= 0, :3]))]

    def _moved_arrays(self) -> list[Any]:
        return [self._slots.x, self._update.velocities]

    @property
    def _updates(self) -> list[GpuUpdate]:
        return [self._update]

    def _restart_forces(self) -> None:
        self._start_forces(energies=False, waters_started=False)

    def wait(self) -> None:
        """Until everything launched is done."""
        self.device.synchronize()

    # ---- what is read from outside ------------------------------------------------------------------------------

    def take_rows(self) -> Callable[[], tuple[LocalAtoms, Cell]]:
        """Copy rows and cell as they are after the steps launched so far; the function waits for them."""
        arrays = (self._slots.gid, self._slots.x, self._update.reported_velocities, *self._box.words)
        read = self._snapshots.take(arrays)

        def rows() -> tuple[LocalAtoms, Cell]:
            gid, x, v, *cell = read()
            filled = gid >= 0
            return LocalAtoms(gid[filled], x[filled, :3], v[filled, :3]), self._box.in_copies(cell)

        return rows

    def rows(self) -> LocalAtoms:
        """Global ids, positions and velocities now; waits for the device."""
        gid, x, v = (
            self.device.to_host(a) for a in (self._slots.gid, self._slots.x, self._update.velocities)
        )
        filled = gid >= 0
        return LocalAtoms(gid[filled], x[filled, :3], v[filled, :3])

    @property
    def domain(self) -> DeviceRows:
        """What a summary says of the rows; waits for the device."""
        gid = self.device.to_host(self._slots.gid)
        return DeviceRows(gid[gid >= 0], self._plan)
