"""One rank of a run: its rows, its channels, the search, and the phases of a step."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.fixed_point import ENERGY_SCALE, FORCE_SCALE
from pulsemd.domain.atoms import LocalAtoms, UpdateGroups, select_owned
from pulsemd.domain.grid import balanced_grid, choose_grid
from pulsemd.domain.lattice import LATTICE
from pulsemd.domain.migrate import migrate
from pulsemd.domain.plan import LocalDomain, build_halo
from pulsemd.engine.barostat import Stress
from pulsemd.engine.bath import bath_of, with_temperatures
from pulsemd.engine.blowup import (
    BONDED_OUT_OF_RANGE,
    CANNOT_MOVE,
    OVERLAPS,
    Failure,
    fastest,
    find_overlap,
    longest,
    places_before,
    speeds,
)
from pulsemd.engine.cell import Cell
from pulsemd.engine.coupling import StepFlags, step_flags, trial_flags
from pulsemd.engine.coupling_groups import CouplingGroups
from pulsemd.engine.energies import N_SUMS, Kinetic, StepSums
from pulsemd.engine.ensemble import Ensemble
from pulsemd.engine.extended import Extended, Friction, with_half_kick
from pulsemd.engine.forces import Forces, Sums
from pulsemd.engine.movers import Movers
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import start_halo
from pulsemd.engine.system import Continuation, System
from pulsemd.halo import Channel, Transport
from pulsemd.kernels.update.noise import Bath
from pulsemd.schedule.phase import Phase, PhaseTimer

GROWTH = 1.2
"""Arrays grow to this multiple of the largest need of any rank, so that few searches reallocate."""


class Rank:
    """State and work of one rank.

    Parameters
    ----------
    transport : Transport
    system : System
        The same on every rank.
    options : RunOptions
    r_list : float, nm

    Attributes
    ----------
    grid : Grid
        Its planes follow the work at searches.
    domain : LocalDomain
        Rows and plan of the current list lifetime.
    positions, forces : Channel-backed arrays (capacity, 3)
    velocities : (n_owned, 3) float32
    device_name : str
    device_bytes : int
        Memory held on the GPU that this rank shares; none here.
    """

    device_name = "cpu"
    device_bytes = searches_on_device = 0
    energies_ahead = frames_ahead = 1
    all_are_well = False  # of other ranks nothing is known

    def __init__(self, transport: Transport, system: System, options: RunOptions, r_list: float) -> None:
        self.transport, self.system, self.options, self.r_list = transport, system, options, r_list
        self.reproducible = options.precision == "reproducible"
        self.flags = StepFlags()
        self.n_searches = 0
        self._force_type = np.int64 if self.reproducible else np.float32
        self._sum_type = np.dtype(np.int64 if self.reproducible else np.float64)
        self._f_scale = 1.0 / FORCE_SCALE if self.reproducible else 1.0
        self._virial_scale = ENERGY_SCALE if self.reproducible else 0.0
        topology, settings = system.topology, system.settings
        self.n_dof = system.n_dof
        self._ensemble, self._followed = Ensemble(system), system.cell
        self.total_mass = float(topology.mass.sum())
        self._coupling = CouplingGroups(transport, system, self.reproducible)
        self._movers = Movers(topology, system.box, settings)
        self._bath = bath_of(settings, topology, system.group_of_atom)
        self._forces = Forces(transport, system, options)
        extent = self._forces.terms.start_extent(system)
        halo_width = start_halo(system, r_list, extent, on_gpus=False)
        self.grid = choose_grid(transport.size, system.box, halo_width, options.grid)
        self._groups = UpdateGroups(topology.group_offset, topology.group_atoms)
        self._single_point = settings.nsteps == 0
        self._constraint_virial: Sums = np.zeros(9, self._sum_type)
        self._energies = transport.reduce(N_SUMS + 9, self._sum_type)
        self.found = StepSums(np.zeros(N_SUMS + 9))
        self.capacity = 0
        self._failure: Failure | None = None
        self._phases = self.phases()
        image = system.start_images() if options.count_images else None
        atoms = select_owned(self.grid, transport.rank, self._groups, system.x, system.v, image)
        self._settle_in(atoms, extent)

    # ---- search -------------------------------------------------------------------------------------------------

    def search_ahead(self) -> None:
        """Nothing: here a search begins when it is made."""

    def advance_ahead(self, step: int, n: int, timer: PhaseTimer) -> None:
        """Launch what `advance` is to do next before a `search_ahead` is complete: nothing here."""

    def search(self) -> None:
        """Migrate, plan the halo, build the pair list; collective.

        Raises
        ------
        DomainError
            If the counts of excluded pairs, summed over ranks, differ from the topology.
        """
        extent, terms = 0.0, self._forces.terms
        if terms.span_groups:
            self.channel_x.forward()
            extent = terms.extent(self.domain, self.x[: self.domain.n_local], self.cell.box)
        self._ensemble.searched_cell = self.cell
        self.grid = balanced_grid(self.grid, self._forces.work, self.cell.box, self.domain.halo_width)
        self._settle_in(migrate(self.transport, self.grid, self._groups, self.rows()), extent)

    def _settle_in(self, atoms: LocalAtoms, extent: float) -> None:
        self.domain = build_halo(
            self.transport,
            self.grid,
            self._groups,
            atoms,
            self.cell.box,
            self.r_list,
            extent,
            self.options.plan_kind,
        )
        self._bind(self.domain)
        self._movers.bind(self.domain.gid, self.domain.local_row, self.domain.n_owned, self.transport)
        self._coupling.bind(self.domain.gid[: self.domain.n_owned])
        self.channel_x.forward()
        x = self.x[: self.domain.n_local]
        self._forces.search(self.n_searches, self.domain, self.grid, x, self.cell, self.r_list)
        self.n_searches += 1

    def place(self, x: NDArray[np.int32]) -> None:
        """Put the owned atoms at positions, (n_atoms, 3) by global id, inside a list lifetime."""
        n = self.domain.n_owned
        self.x[:n] = x[self.domain.gid[:n]]

    def take_up(self, earlier: Continuation) -> None:
        """Go on inside a list lifetime that was built from the positions of its search."""
        self.place(earlier.x)
        self._ensemble.take_up(earlier)
        self._follow_cell()

    def rows(self) -> LocalAtoms:
        """The owned rows now."""
        n = self.domain.n_owned
        return LocalAtoms(self.domain.gid[:n], self.x[:n], self.velocities, self.images())

    def take_rows(self) -> Callable[[], tuple[LocalAtoms, Cell]]:
        """A function that gives the rows and the cell, called before the next step."""
        return lambda: (self.rows(), self.cell)

    def searched(self) -> LocalAtoms:
        """The owned rows at the last search, with the velocities of now."""
        return self.domain.atoms

    def images(self) -> NDArray[np.int32] | None:
        """Box crossings of the owned rows, (n_owned, 3) int32; None where they are not counted."""
        start = self.domain.atoms
        if start.image is None:
            return None
        now = self.x[: self.domain.n_owned]
        moved = now - start.x  # wraps around: the true displacement, which is below half the box
        crossed: NDArray[np.int64] = (start.x.astype(np.int64) + moved - now) // LATTICE
        images: NDArray[np.int32] = start.image + crossed.astype(np.int32)
        return images

    @property
    def cell(self) -> Cell:
        """The cell now."""
        return self._ensemble.cell

    @property
    def searched_cell(self) -> Cell:
        """The cell at the last search."""
        return self._ensemble.searched_cell

    @property
    def strained(self) -> str:
        """Why the barostat stopped scaling the box, the same on every rank; '': it did not."""
        return self._ensemble.strained

    def read_work(self) -> tuple[float, float]:
        """Work of the thermostat and of the barostat so far, kJ/mol."""
        return self._ensemble.thermostat_work, self._ensemble.barostat_work

    def read_extended(self) -> Extended:
        """Variables of thermostat and barostat now."""
        return self._ensemble.extended

    def read_cell(self) -> Cell:
        """The cell now."""
        return self.cell

    def _bind(self, domain: LocalDomain) -> None:
        """Put the rows into symmetric arrays, growing them by a rule all ranks evaluate alike."""
        if domain.most_local > self.capacity:
            self.capacity = int(domain.most_local * GROWTH) + 64
            self.x = self.transport.allocate("positions", self.capacity, 3, np.int32)
            self.f = self.transport.allocate("forces", self.capacity, 3, self._force_type)
            self.channel_x: Channel = self.transport.channel(domain.plan, self.x)
            self.channel_f: Channel = self.transport.channel(domain.plan, self.f)
        else:
            self.channel_x.rebind(domain.plan)
            self.channel_f.rebind(domain.plan)
        self.x[: domain.n_owned] = domain.atoms.x
        self.velocities = domain.atoms.v

    # ---- a step -------------------------------------------------------------------------------------------------

    def advance(self, step: int, n: int, energies: bool, timer: PhaseTimer) -> None:
        """Make `n` steps from `step` on; with `energies` those of the first."""
        for offset in range(n):
            flags = step_flags(self.system.settings, step + offset, energies and offset == 0)
            self.begin_step(flags)
            timer.run(self._phases)

    def begin_step(self, flags: StepFlags) -> None:
        """Set what this step does; clears the sums of energy steps."""
        self.flags = flags
        self._forces.begin(flags.sums)
        self._constraint_virial[:] = 0

    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""
        return (*self.force_phases(), Phase("update", self.update))

    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring ``forces`` of the owned rows up to date."""
        lattice = (Phase("forces.lattice", self.lattice_forces),) if self._forces.has_lattice else ()
        return (
            Phase("halo.forward.begin", lambda: self.channel_x.forward_begin()),
            Phase("forces.local", self.local_forces),  # reads no ghost row
            Phase("halo.forward.end", lambda: self.channel_x.forward_end()),
            Phase("forces.nonlocal", self.nonlocal_forces),
            Phase("halo.reverse.begin", lambda: self.channel_f.reverse_begin()),
            Phase("forces.local.rest", self.rest_of_local_forces),
            *lattice,
            Phase("halo.reverse.end", lambda: self.channel_f.reverse_end()),
        )

    def local_forces(self) -> None:
        """Clear the forces and add half of the pairs of two owned rows."""
        x, f = self._local_rows()
        f[:] = 0
        self._forces.local(x, f, half=0)

    def rest_of_local_forces(self) -> None:
        """Add the other half, while ghost forces are on their way."""
        self._forces.local(*self._local_rows(), half=1)

    def lattice_forces(self) -> None:
        """Add the reciprocal-space part of electrostatics; collective."""
        self._forces.lattice(*self._local_rows())

    def nonlocal_forces(self) -> None:
        """Add the pairs with a ghost row, the corrections of excluded pairs, and the bonded terms."""
        self._forces.nonlocal_(*self._local_rows(), self.cell)
        self.channel_x.release()

    def _local_rows(self) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Positions and forces of owned and ghost rows."""
        n = self.domain.n_local
        return self.x[:n], self.f[:n]

    def update(self) -> None:
        """Thermostat, kick, drift, constraints, barostat; where they are wanted also the global sums."""
        flags, com, friction = self.flags, np.zeros(3), self._ensemble.free
        if flags.kinetic:
            velocities, mass = self.velocities, self._movers.mass
            com, before = self._coupling.sum_and_stop(velocities, mass, flags.remove_com)
            if flags.thermostat:
                friction, before = self._ensemble.couple(flags.step, before)
            self._kinetic_before = before
        if flags.box_drags:
            self.velocities[...] = self.velocities * self._ensemble.drag(friction)[self._coupling.rows]
        self._move(friction, com, self._constraint_virial if flags.sums else None)
        stress, after = None, np.zeros(3)
        if flags.sums:
            before, now = self._kinetic_before, self._sum_kinetic()
            energy, after = 0.5 * (before.energy + now.energy), now.diagonal
            stress = self._finish_sums(energy, 0.5 * (before.diagonal + after), self._ensemble.works())
        self._finish_step(stress, after)

    def _finish_sums(
        self, kinetic: NDArray[np.float64], along: NDArray[np.float64], works: tuple[float, float]
    ) -> Stress:
        """Global sums of the step, and what pressure follows from; kinetic energies by group and along each axis."""
        volume, by_group = self.cell.volume, kinetic if self._coupling.several else np.zeros(0)
        found = StepSums(self._sum_energies(), float(kinetic.sum()), *works, volume, by_group)
        if self.flags.energies:
            self.found = found
        return Stress(along, found.virial, volume)

    def _finish_step(self, stress: Stress | None, after: NDArray[np.float64]) -> None:
        """Barostat; `after`: kinetic energy along each axis of the velocities of now."""
        divisors = self._ensemble.finish_step(self.flags, stress, after)
        if divisors is not None:
            self.velocities[...] = self.velocities / divisors
        self._follow_cell()

    def _follow_cell(self) -> None:
        """Let everything that depends on the cell take that of now; lattice positions stay, so atoms scale with it."""
        cell = self.cell
        if cell is self._followed:
            return
        self._followed = cell
        self._forces.rescale(cell)
        self._movers.rescale(cell.box)
        self._movers.construct(self.x)

    def _move(self, friction: Friction, com: NDArray[np.float64], virial: NDArray[Any] | None = None) -> None:
        scale, kick, coupled = float(friction.scale[0]), float(friction.kick[0]), None
        if self._coupling.several and self.flags.thermostat:
            scale, kick, coupled = 1.0, 1.0, (self._coupling.rows, friction.scale, friction.kick)
        bad = self._movers.advance(
            self.x,
            self.velocities,
            self.f,
            self._f_scale,
            self.system.settings.dt,
            scale,
            com,
            virial,
            self._virial_scale,
            kick,
            coupled,
        )
        if self._bath is not None:
            later = self._add_noise(self._bath)
            bad = later if bad < 0 else bad
        if bad >= 0:
            box, dt = self.cell.box, self.system.settings.dt
            before = places_before(self.x[: self.domain.n_local], self.velocities, box, dt)
            self._note(fastest(self.velocities, bad, box, dt), CANNOT_MOVE, before)

    def _add_noise(self, bath: Bath) -> int:
        """Friction and noise for half a step of the way; what they add to the velocities is constrained like a move.

        The result is that of `Movers.advance`.
        """
        s = self.system.settings
        n, dt = self.domain.n_owned, s.dt
        if s.annealing:
            bath = with_temperatures(bath, s.at_step(self.flags.step))
        added = bath.change(self.velocities, self.domain.gid, self._movers.mass, self.flags.step)
        bad = self._movers.advance(self.x, added, np.zeros((n, 3), np.float32), 1.0, 0.5 * dt)
        self.velocities += added
        return bad

    def _sum_kinetic(self) -> Kinetic:
        return self._coupling.sum_kinetic(self.velocities, self._movers.mass)

    def _sum_energies(self) -> NDArray[np.float64]:
        """Energies and virials of all ranks, kJ/mol."""
        mine = np.concatenate([self._forces.sums, self._constraint_virial])
        total = self._energies.sum(mine).astype(np.float64)
        if self.reproducible:
            total /= ENERGY_SCALE
        return total

    def failure(self) -> Failure | None:
        """What went wrong first on this rank since the start; not collective."""
        if self._forces.pairs_out_of_range():
            self._note(longest(self.f[: self.domain.n_owned]), OVERLAPS)
        row = self._forces.bad_bonded_row()
        if row >= 0:
            self._note(row, BONDED_OUT_OF_RANGE)
        return self._failure

    def _note(self, row: int, reason: str, x: NDArray[np.int32] | None = None) -> None:
        if self._failure is None:
            n, domain = self.domain.n_local, self.domain
            force, speed = self.f[row].astype(np.float64) * self._f_scale, float(speeds(self.velocities)[row])
            x = self.x[:n].copy() if x is None else x
            self._failure = Failure(
                self.flags.step, int(domain.gid[row]), reason, speed, force, domain.gid, x
            )

    def evaluate(self, step: int, timer: PhaseTimer, coupled: bool = True) -> None:
        """Energies of the next step without moving: a whole step that is then taken back. Not `coupled`: without what
        it would do to the velocities that it finds, for those of full steps that are reported."""
        self.begin_step(trial_flags(self.system.settings, step, coupled))
        n, ensemble = self.domain.n_owned, self._ensemble
        self._ensemble = copy(ensemble)
        timer.run(self.force_phases())
        x, v, failure = self.x[:n].copy(), self.velocities[:n].copy(), self._failure
        timer.timed("update", self.update)
        self.x[:n], self.velocities[:n] = x, v
        self._ensemble = ensemble
        self._forgive_overlap(failure)

    def _forgive_overlap(self, failure: Failure | None) -> None:
        """Go back to an earlier failure, or none, in a run without steps from an overlapping start."""
        n = self.domain.n_owned
        if self._single_point and find_overlap(self.system, self.domain.gid[:n], self.f[:n] * self._f_scale):
            self._failure = failure  # it could not have moved, but it does not have to

    def begin_at_full_step(self, step: int, timer: PhaseTimer) -> None:
        """Take velocities that belong to the time of the positions back by half a step: half of a step from
        velocities that are reversed, of which the positions are taken back."""
        n, failure = self.domain.n_owned, self._failure
        self.begin_step(StepFlags(step))
        timer.run(self.force_phases())
        x = self.x[:n].copy()
        self.velocities[...] = -self.velocities
        self._move(with_half_kick(self._ensemble.free), np.zeros(3))
        self.velocities[...] = -self.velocities
        self.x[:n] = x
        self._forgive_overlap(failure)

    def tolerate_overlaps(self, tolerant: bool) -> None:
        """From the next search on: whether atoms may overlap, as in minimisation."""
        self._forces.tolerate_overlaps(tolerant)

    def evaluate_at(
        self, x: NDArray[np.int32], search: bool, timer: PhaseTimer
    ) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Energies, and global ids and forces of the owned atoms, at other positions, where they then are; collective.

        Parameters
        ----------
        x : (n_atoms, 3) int32, lattice units, by global id
        search : bool
            Whether the pair list may be too old for them.
        """
        self.place(x)
        if search:
            timer.timed("search", self.search)
        self.begin_step(StepFlags(energies=True))
        timer.run(self.force_phases())
        self.found = StepSums(self._sum_energies(), 0.0, *self.read_work(), self.cell.volume)
        n = self.domain.n_owned
        return self.domain.gid[:n], self.f[:n]

    def forces(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Global ids of the owned atoms, and the forces on them that were computed last, kJ/mol/nm."""
        n = self.domain.n_owned
        return self.domain.gid[:n], self.f[:n].astype(np.float64) * self._f_scale

    def take_failure(self) -> Failure | None:
        """`failure`, which is then forgotten."""
        failure, self._failure = self.failure(), None
        return failure

    def take_energies(self) -> Callable[[], None]:
        """A function after which the energies of the last energy step are those of now: they are already."""
        return lambda: None

    def warm_up(self, step: int, timer: PhaseTimer) -> None:
        """Compile or load every kernel of a step; nothing moves."""
        self.evaluate(step, timer)
        self.begin_step(StepFlags(step))
        timer.run(self.force_phases())

    host_waited = 0.0
    """s; only what drives a GPU launches and waits."""

    @property
    def host_waits_per_step(self) -> int:
        """Waits for another rank: two for each pulse."""
        return 2 * len(self.domain.plan.pulses) if self.transport.size > 1 else 0

    def events(self) -> None:
        """None: the host times the phases."""

    def graph_report(self) -> str:
        """Why there is no CUDA graph."""
        return "none: CUDA graphs need a GPU"

    def wait(self) -> None:
        """Until everything launched is done: at once, on a CPU."""
