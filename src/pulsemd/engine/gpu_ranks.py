"""The plan-ranks of one GPU process of several: the surface of `pulsemd.engine.rank.Rank` for all of them together.

What a step launches: see `pulsemd.engine.gpu_step`. On rungs whose exchange the device starts itself, a run of steps is
one graph. How atoms change their ranks at a search: see `pulsemd.engine.gpu_search`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.device.mirror import Array, Mirror
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.domain.grid import choose_grid
from pulsemd.engine.blowup import Failure
from pulsemd.engine.cell import Cell
from pulsemd.engine.coupling import StepFlags
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, StepSums
from pulsemd.engine.gpu_barostat import cells_of_parts
from pulsemd.engine.gpu_constants import update_constants
from pulsemd.engine.gpu_failure import first_failure
from pulsemd.engine.gpu_part import DevicePart, ProcessRows, joined_rows
from pulsemd.engine.gpu_region import region_of
from pulsemd.engine.gpu_search import PartSearch
from pulsemd.engine.gpu_step import StepOfRanks
from pulsemd.engine.gpu_steps import ENERGIES_AHEAD, PRUNE_INTERVAL, GpuSteps
from pulsemd.engine.gpu_sums import SumsOfRanks, step_sums
from pulsemd.engine.lattice import add_background, gpu_lattice_sum, settle_lattice
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import inner_cutoff, start_halo
from pulsemd.engine.system import Continuation, System
from pulsemd.engine.terms import TermOwnership
from pulsemd.halo.rungs.mpi import waits_of_sum
from pulsemd.kernels.constraints.shared_moves import SharedMoves
from pulsemd.kernels.nonbonded.exclusions import self_energy
from pulsemd.kernels.update.control import as_control
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.schedule.phase import Phase, PhaseTimer
from pulsemd.schedule.trace import HOST_SPANS, Event

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport


class GpuRanks(GpuSteps):
    """State and work of the plan-ranks of one GPU process.

    Parameters
    ----------
    transport : GpuTransport
    system : System
        The same on every process.
    options : RunOptions
    r_list : float, nm
    nstlist : int
        Steps between two searches.

    Raises
    ------
    DomainError
        If no grid fits, or atoms, pairs or terms are lost or counted twice.
    TopologyError
        If constraints tie too many atoms together.
    """

    energies_ahead, frames_ahead = ENERGIES_AHEAD, 1
    all_are_well = False
    """Whether the last `failure` found that no rank failed; the same on all."""

    def __init__(
        self, transport: GpuTransport, system: System, options: RunOptions, r_list: float, nstlist: int
    ) -> None:
        self.transport, self.system, self.options, self.r_list = transport, system, options, r_list
        self.reproducible = options.precision == "reproducible"
        self.searched_cell = system.cell
        self.n_dof = system.n_dof
        self.total_mass = float(system.topology.mass.sum())
        self.device = device = transport.device
        self.device_name = f"cuda: {device.name}"
        self._ghost_stream = device.new_stream(priority=-2)
        terms = TermOwnership(system)
        extent = terms.start_extent(system)
        self._parts = self._make_parts(start_halo(system, r_list, extent, on_gpus=True))
        self._pair_constants = self._parts[0].pairs.constants
        self._lattice = gpu_lattice_sum(device, system, self._pair_constants, self.reproducible, transport)
        self._r_inner = None if self.reproducible else inner_cutoff(system, r_list, PRUNE_INTERVAL, nstlist)
        self.found = StepSums(np.zeros(N_SUMS + 9))
        self._sums = SumsOfRanks(transport, self._parts, np.int64 if self.reproducible else np.float64)
        totals = self._sums.totals
        self._box = cells_of_parts(system, self._parts, self._lattice, totals, self.reproducible)
        with_lists = system, options, r_list, self._r_inner, self.grid, terms
        self._search = PartSearch(transport, *with_lists, self._parts, self._ghost_stream)
        no_graph = "" if self._search.fields.starts_itself else f"the host starts {transport.name}"
        self._prepare_steps(options, no_graph, priorities=True)
        self._ahead: tuple[int, int] | None = None  # steps launched behind a search
        for part in self._parts:
            part.update.set_step(system.step)
            part.update.set_start(system.step)
        transport.host_spans = deque(maxlen=HOST_SPANS) if options.trace else None
        self._mirror = Mirror(
            device, [*self._search.error_words, totals, *self._box.words], ENERGIES_AHEAD + 1
        )
        self._search.start(extent)
        self._settle_lattice()
        self._share_networks()
        self._step = self._make_step()
        self._phases = self.phases()
        self._search.verify_masks()

    def _make_parts(self, halo_width: float) -> list[DevicePart]:
        """Choose the grid, and make what each rank of this process has."""
        system, options, constants = self.system, self.options, update_constants(self.system)
        self.grid = choose_grid(self.transport.size, system.box, halo_width, options.grid)
        regions = [
            region_of(self.grid, rank, system.box, self.r_list, halo_width) for rank in self.transport.ranks
        ]
        shared = constants, self._ghost_stream
        return [DevicePart(self.device, system, options.precision, region, *shared) for region in regions]

    def _make_step(self) -> StepOfRanks:
        several = self.transport.memory.n_processes > 1
        return StepOfRanks(
            self.device,
            self.system.settings,
            self._parts,
            self._search.fields,
            self._lattice,
            self._sums,
            self._box,
            self._networks,
            self._ghost_stream,
            self._trace,
            several,
            self.system.step,
        )

    def _share_networks(self) -> None:
        """Let all ranks know what those of networks of constraints do."""
        networks = [update.networks for update in self._updates if update.networks is not None]
        if not networks:
            return
        self._networks = SharedMoves(self.transport, len(networks[0].sorted.atoms))
        for each in networks:
            each.share(self._networks)
        self.transport.meet()  # loading may take longer than a peer waits on its device

    # ---- search -------------------------------------------------------------------------------------------------

    def search_ahead(self) -> None:
        """Launch a search of the positions that the steps launched so far will lead to, where it needs no host."""
        if self.system.settings.pcoupl == "no":  # the host plans for the cell of now
            self._search.ahead()

    def search(self) -> None:
        """Migrate, plan the halo, and build the pair lists; collective; completes a `search_ahead`."""
        self.searched_cell = self._box.begin_list()
        self._search.cell = self.searched_cell
        for part in self._parts:
            part.box = self.searched_cell.box
        self._search.again()
        if self._search.versions != self._referred_to:  # `failure` may have completed part of it
            self._settle_lattice()
            self._forget_graphs()
        self._step.first_step = self._first_step = self._clock

    def _settle_lattice(self) -> None:
        """Let the lattice sum refer to the arrays of all parts; the first of all ranks has its energy."""
        self._referred_to = self._search.versions
        if self._lattice is not None:
            first = self.transport.ranks.start == 0
            slots, forces = [part.slots for part in self._parts], [part.forces for part in self._parts]
            settle_lattice(self._lattice, slots, forces, self._parts[0].sums if first else None)

    @property
    def _updates(self) -> list[GpuUpdate]:
        return [part.update for part in self._parts]

    @property
    def n_searches(self) -> int:
        """Searches so far."""
        return self._search.n_searches

    @property
    def searches_on_device(self) -> int:
        """Those of them that went without the host."""
        return self._search.on_device

    @property
    def exchanges_in_steps(self) -> bool:
        """Whether the kernels that move atoms and compute forces exchange by themselves."""
        return self._search.fields.steps is not None

    def take_up(self, earlier: Continuation) -> None:
        """Go on inside a list lifetime that was built from the positions of its search; as for `Rank`."""
        self._box.put(earlier, self.searched_cell)
        self.place(earlier.x)
        for part in self._parts:
            part.update.kinetic.put_heat(earlier.thermostat_work, *earlier.extended.heat)

    def place(self, x: NDArray[np.int32]) -> None:
        """Put the atoms at positions inside a list lifetime; as for `Rank`."""
        for part in self._parts:
            part.put_positions(x)
            part.pairs.prune_all()  # the search pruned at positions that may be many steps older
            part.start_forces(energies=False, waters_started=False)

    def tolerate_overlaps(self, tolerant: bool) -> None:
        """From the next search on: whether atoms may overlap; as for `Rank`."""
        for part in self._parts:
            part.pairs.tolerate_overlaps(tolerant)

    def evaluate_at(
        self, x: NDArray[np.int32], search: bool, timer: PhaseTimer
    ) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Energies and forces at other positions; as for `Rank`. Waits for the device."""
        self.place(x)
        if search:
            timer.timed("search", self.search)
            self._search.catch_up()
        self._step.begin(StepFlags(self._step.first_step, energies=True))
        timer.run(self._step.force_phases())
        self._sums.end()
        self._sums.add_energies()
        self.take_energies()()
        found = self._owned_forces()
        self._restart_forces()
        return np.concatenate([gid for gid, _ in found]), np.concatenate([f for _, f in found])

    def take_failure(self) -> Failure | None:
        """`failure`, which is then forgotten."""
        failure = self.failure()
        for part in self._parts:
            part.update.forget_error()
            for word in (part.pairs.error_word, part.bonded.error_word):
                self.device.clear(word)
        return failure

    def searched(self) -> LocalAtoms:
        """Positions at the last search that is complete, with the velocities of its end; waits for the device."""
        self._search.catch_up()
        return joined_rows([part.searched(self._search.is_under_way) for part in self._parts])

    def failure(self) -> Failure | None:
        """What went wrong first since the start; waits for the device.

        Raises
        ------
        PeerError
            If a wait of an exchange expired.
        """
        words, n_words = self._search.words(), len(self._search.error_words)
        if words is not None and self._search.went_as_usual:
            self._warn_of_turns(words[3::3])
            self.all_are_well = True
            return None
        if words is None:
            self.transport.settle()
            words = self._mirror.take()()
        self._box.hear(words[n_words + 1 :])
        self.transport.check(words[0])
        self._warn_of_turns(words[3:n_words:3])
        steps = self.system.step, self._step.first_step, self._clock
        first = first_failure(words[1:n_words], steps, self._rows_of)
        self.all_are_well = self._search.is_under_way and self._search.share(first is not None)
        return first

    # ---- steps --------------------------------------------------------------------------------------------------

    def advance_ahead(self, step: int, n: int, timer: PhaseTimer) -> None:
        """Launch the `n` steps, without energies, that `advance` is to make next, before a `search_ahead` is complete.

        They do nothing if the search turns out not to be as usual on some rank, and `advance` launches them again.
        """
        if self._graphs is None or not self._search.can_be_followed:
            return
        before = self._first_step, self._step.first_step
        self._first_step = self._step.first_step = step
        self._run_steps(step, n, False, timer)
        self._first_step, self._step.first_step = before
        self._ahead = step, n

    def advance(self, step: int, n: int, energies: bool, timer: PhaseTimer) -> None:
        """Make `n` steps from `step` on; with `energies` those of the first."""
        if self._search.is_under_way:
            self.search()
        ahead, self._ahead = self._ahead, None
        if ahead is None or not self._search.was_usual:
            super().advance(step, n, energies, timer)
        else:
            assert (*ahead, False) == (step, n, energies)
            self._clock = step + n
        self._search.catch_up()

    def _set_step(self, step: int) -> None:
        for part in self._parts:
            part.update.set_step(step)

    def _read_control(self) -> np.void:
        return self._parts[0].update.read()

    def _end_run(self, n: int) -> None:
        self._step.end()
        for part in self._parts:
            part.update.tick(n)

    def begin_step(self, flags: StepFlags, offset: int = 0) -> None:
        """Set what this step does and how far it is from the device's step; clears the sums of energy steps."""
        self._step.begin(flags, offset)

    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""
        return self._step.phases()

    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring the forces of owned atoms up to date."""
        return self._step.force_phases()

    def update(self) -> None:
        """Move the atoms, and start the next forces."""
        self._step.update()

    def take_energies(self) -> Callable[[], None]:
        """Copy the energies of the step just launched; the function waits for them and makes them those of now."""
        read = self._mirror.take()
        return lambda: self._set_energies(read())

    def _set_energies(self, copies: list[Array]) -> None:
        """Energies and virials, kJ/mol, from a copy of the sums and of a control record."""
        part = self._parts[0]
        n_words = len(self._search.error_words)
        control, sums = as_control(copies[3]), copies[n_words]
        work, volume = self._box.of_sums(copies[n_words + 1 :])
        self_energy(self.system.topology.charge, part.excluded_constants, sums[:N_PAIR_SUMS])
        if self._lattice is not None:
            add_background(sums, self.system, self._pair_constants, volume)
        self.found = step_sums(sums, self.reproducible, control, work, volume)

    def evaluate(self, step: int, timer: PhaseTimer, coupled: bool = True) -> None:
        """Energies of the next step without moving, as for `Rank`; collective."""
        if self._search.is_under_way:
            self.search()
        super().evaluate(step, timer, coupled)

    def warm_up(self, step: int, timer: PhaseTimer) -> None:
        """Compile or load every kernel of a step; nothing moves."""
        super().warm_up(step, timer)
        self.transport.host_waited = 0.0

    def _moved_arrays(self) -> list[Any]:
        return [array for part in self._parts for array in (part.slots.x, part.update.velocities)]

    def _owned_forces(self) -> list[tuple[NDArray[np.int32], NDArray[Any]]]:
        return [part.owned_forces() for part in self._parts]

    def _restart_forces(self) -> None:
        for part in self._parts:
            part.start_forces(energies=False, waters_started=False)

    def wait(self) -> None:
        """Until everything launched is done."""
        self.transport.settle()

    # ---- what is read from outside ------------------------------------------------------------------------------

    @property
    def f(self) -> Any:
        """Forces, (K, slots, 4) float32 or int64 on the device."""
        return self._search.fields.f

    @property
    def host_waits_per_step(self) -> int:
        """Times the host waits in each step: for the device and for peers, in every pulse both ways and in sums of
        charges and of constraints across ranks, on MPI."""
        if self.transport.name != "mpi":
            return 0
        n_sums = sum(user is not None for user in (self._lattice, self._networks))
        waits = waits_of_sum(self.transport.memory.n_processes)
        return 4 * len(self._search.plan.pulses) + n_sums * waits

    @property
    def host_waited(self) -> float:
        """Seconds that the host has waited inside exchanges since the warm-up."""
        return self.transport.host_waited

    def events(self) -> list[Event] | None:
        """Times of the phases of the last steps, and of what the host did in exchanges meanwhile, if they were wanted;
        waits for the device."""
        found = super().events()
        if found is None:
            return None
        begin, end = min((e.start for e in found), default=0.0), max((e.start for e in found), default=0.0)
        host = self.transport.host_spans or ()
        return found + [Event(name, "exchange", *times) for name, *times in host if begin <= times[0] <= end]

    def rows(self) -> LocalAtoms:
        """Global ids, positions and velocities of the owned rows now; waits for the device."""
        return joined_rows([self._rows_of(k) for k in range(len(self._parts))])

    def _rows_of(self, k: int) -> LocalAtoms:
        return self._parts[k].rows(self._search.counters_of(k))

    def take_rows(self) -> Callable[[], tuple[LocalAtoms, Cell]]:
        """A function that gives rows and cell as they are after the steps launched so far; waits for the device."""
        parts, counters = self._parts, self._search.counters_of
        found = [part.rows(counters(k), reported=True) for k, part in enumerate(parts)]
        rows = joined_rows(found), self.read_cell()
        return lambda: rows

    @property
    def domain(self) -> ProcessRows:
        """What a summary says of the rows; waits for the device."""
        gid = self.rows().gid
        n_local = sum(int((self.device.to_host(part.slots.gid) >= 0).sum()) for part in self._parts)
        return ProcessRows(gid, self._search.plan, len(gid), n_local)
