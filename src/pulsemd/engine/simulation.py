"""A simulation on one rank: steps, searches, energies and frames. Every method is collective."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import UnstableError
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.domain.lattice import check_cutoff
from pulsemd.engine.barostat import check_barostat
from pulsemd.engine.blowup import describe_failure
from pulsemd.engine.cell import Cell
from pulsemd.engine.device import fit_device, new_rank
from pulsemd.engine.energies import energy_record
from pulsemd.engine.gpu_control import take_fields
from pulsemd.engine.options import RunOptions
from pulsemd.engine.rank import Rank
from pulsemd.engine.reporters import Frame, PendingReports, Report, Reporter, steps_to_next
from pulsemd.engine.setup import choose_list_cutoff, choose_nstlist
from pulsemd.engine.system import System
from pulsemd.halo import Transport
from pulsemd.schedule.phase import PhaseTimer
from pulsemd.schedule.trace import Event

log = logging.getLogger(__name__)

NO_STEP = "no step is possible from here, and temperature and pressure mean nothing:"
"""Warns of a single point."""


class Simulation:
    """Runs a system on the ranks of a transport.

    Parameters
    ----------
    transport : Transport
    system : System
        The same on every rank.
    options : RunOptions
    reporters : list of Reporter
        Equal on every rank, as gathering is collective; called on rank 0 only.
    crashed : function of a `Frame`, optional
        Called on rank 0 with the positions of the last search when the simulation blows up; what it returns is
        added to the error.

    Attributes
    ----------
    step : int
    r_list : float, nm
    nstlist : int
        Steps between two searches.

    Raises
    ------
    DomainError
        If the cut-off does not fit the box, or no grid fits the ranks.
    """

    def __init__(
        self,
        transport: Transport,
        system: System,
        options: RunOptions,
        reporters: list[Reporter] | None = None,
        crashed: Callable[[Frame], str] | None = None,
    ) -> None:
        options = fit_device(options, system.topology, system.settings, started=True)
        self.transport, self.system, self.options = transport, system, options
        self.reporters = list(reporters or [])
        self.timer = PhaseTimer(options.trace)
        self.step = system.step
        self._crashed = crashed
        earlier = system.continuation
        self.nstlist = choose_nstlist(system, options)
        self.r_list = choose_list_cutoff(system, self.nstlist) if earlier is None else earlier.list_cutoff
        check_cutoff(self.r_list, system.box)
        check_barostat(system.settings, system.topology, system.user_box)
        self.require_fields = take_fields(transport)
        self.rank = new_rank(transport, system, options, self.r_list, self.nstlist)
        self.grid = self.rank.grid
        self._pending = PendingReports(self.rank.energies_ahead, self.rank.frames_ahead)
        self._searched = self.step
        self._list_is_older = earlier is not None and not self.search_is_next
        self._at_full_step = system.settings.full_steps and earlier is None
        if earlier is not None:
            self.rank.take_up(earlier)

    def report_to(self, reporters: list[Reporter], crashed: Callable[[Frame], str]) -> None:
        """Take other reporters, equal on every rank, and another function for a blow-up; see the class."""
        self.reporters, self._crashed = list(reporters), crashed

    @property
    def search_is_next(self) -> bool:
        """Whether the next step begins with a search, so that the pair list follows from the positions now."""
        return self.step % self.nstlist == 0

    @property
    def time(self) -> float:
        """Time of the current positions, ps."""
        return self.system.settings.time_of(self.step)

    def run(
        self,
        n_steps: int,
        at_search: Callable[[int], bool] | None = None,
        wants: Callable[[int], bool] | None = None,
    ) -> int:
        """Make `n_steps` steps; energies and frames of the first positions are included, of the last ones not.

        Parameters
        ----------
        n_steps : int
        at_search : function of the step, optional
            Called on every rank before each search; True, on all ranks alike, ends the run.
        wants : function of the step, optional
            Whether `at_search` is to be called this time, the same on all ranks; called while a device still works.

        Returns
        -------
        int
            Steps made.

        Raises
        ------
        UnstableError
            On every rank, if the simulation blew up on any.
        ConfigError
            If a transport between GPUs has another simulation now.
        """
        first, last = self.step, self.step + n_steps
        self.require_fields()
        self.go_to_half_step()
        while self.step < last:
            if self.search_is_next:
                fresh = self.step != self._searched
                if fresh:
                    self.timer.timed("search", self.rank.search_ahead)
                asked = at_search if wants is None or wants(self.step) else None
                if fresh and asked is None:
                    self._advance_ahead(last)
                self._deliver()
                if asked is not None and asked(self.step):
                    break
                if fresh:
                    self.timer.timed("search", self.rank.search)
                    self._searched = self.step
            with self.timer.between_searches():
                self._run_to(self._end_of_list(last))
        self.timer.timed("wait", self.rank.wait)
        self._deliver()
        return self.step - first

    def _end_of_list(self, last: int) -> int:
        """The next step that begins with a search, or the last one."""
        return min(last, self.step - self.step % self.nstlist + self.nstlist)

    def _advance_ahead(self, last: int) -> None:
        """Let steps follow the search under way at once, unless somebody is to be told of the first of them."""
        if not any(r.due(self.step) for r in self.reporters):
            n = steps_to_next(self.reporters, self.step, self._end_of_list(last))
            with self.timer.between_searches():
                self.rank.advance_ahead(self.step, n, self.timer)

    def _run_to(self, end: int) -> None:
        """Make the steps before `end`, none of which begins with a search."""
        while self.step < end:
            due = [r for r in self.reporters if r.due(self.step)]
            energies = any(r.energies for r in due)
            if any(r.frame for r in due):
                self._take_frame(due)
            n = 1 if energies else steps_to_next(self.reporters, self.step, end)
            self.rank.advance(self.step, n, energies, self.timer)
            if energies:
                self._take_energies(due)
            self.step += n

    def _take_frame(self, reporters: list[Reporter]) -> None:
        """Have the positions of now reported."""
        step, rows = self.step, self._take_rows()
        self._report(Report(step, True, lambda: self._report_frame(reporters, step, *rows())))

    def _take_rows(self) -> Callable[[], tuple[LocalAtoms, Cell]]:
        """A function that gives rows and cell of now; velocities of full steps need the forces of now."""
        self.require_fields()
        if self.system.settings.full_steps:
            self._try_step(coupled=False)
        return self.rank.take_rows()

    def _take_energies(self, reporters: list[Reporter]) -> None:
        """Have the energies of the last step reported."""
        step, read = self.step, self.rank.take_energies()

        def deliver() -> None:
            read()
            self._report_energies(reporters, step)

        self._report(Report(step, False, deliver))

    def _report(self, report: Report) -> None:
        if self._pending.add(report):
            self._deliver()

    def _deliver(self) -> None:
        """Give the reporters what is pending, once it is known that nothing failed; waits for the device."""
        self.timer.timed("wait", self._require_stable)
        self.timer.timed("output", self._give_reports)

    def _give_reports(self, before: int | None = None) -> None:
        """Give the reporters what is pending, of all steps or of those before one."""
        if self._pending.deliver(before):
            self._wait_for_reporters()

    def _wait_for_reporters(self) -> None:
        """Let no rank wait for rank 0 in an exchange while that writes files or calls somebody's functions, which may
        take longer than any time-out."""
        if self.transport.size > 1:
            self.transport.barrier(patient=True)

    def _require_stable(self) -> None:
        """Raise the same UnstableError on every rank if one of them failed; collective."""
        failure = self.rank.failure()
        if self.rank.all_are_well:
            return
        failures = enumerate(self.transport.allgather(failure))
        found = [(failure, rank) for rank, failure in failures if failure is not None]
        if not found and not self.rank.strained:
            return
        if not found:
            raise UnstableError(self.rank.strained)
        failure, rank = min(found, key=lambda f: f[0].urgency)
        self._give_reports(before=failure.step)
        frame = self.gather_searched()
        told: tuple[str, list[str]] | None = None
        if frame is not None:
            message, lines = describe_failure(self.system.in_cell(frame.cell), failure, frame.x)
            if self.transport.size > 1:
                message = f"rank {rank}, {message}"
            if self._crashed is not None:
                lines.append(self._crashed(frame))
            told = message, lines
        self._wait_for_reporters()
        message, lines = self.transport.broadcast(told)
        error = UnstableError(message)
        error.stuck = failure.stuck
        for line in lines:
            error.add_note(line)
        raise error

    def warm_up(self) -> None:
        """Compile or load every kernel of the run: a search, forces with energies and without; nothing moves."""
        if not self._list_is_older:
            self.rank.search()
        self.rank.warm_up(self.step, self.timer)
        self.timer.reset()

    def settle(self) -> None:
        """Begin a new list lifetime at positions that did not come from steps, and forget failures on the way there."""
        self.rank.tolerate_overlaps(False)
        self.rank.search()
        self.rank.take_failure()
        self._searched, self._list_is_older = self.step, False

    def trace(self) -> list[Event]:
        """Begin and duration of the phases of the last steps of this rank or process, if `RunOptions.trace`."""
        found = self.rank.events()
        host = [Event(name, "host", *times) for name, *times in self.timer.events]
        if not found:
            return host
        begin, end = min(e.start for e in found), max(e.start for e in found)
        return found + [e for e in host if e.start <= end and e.start + e.duration >= begin]

    def finish(self) -> None:
        """Report the last positions, without moving: energies always, frames where due or wanted at the end only."""
        if any(r.energies for r in self.reporters):
            self.evaluate()
            self._report_energies(self.reporters, self.step)
        last = [r for r in self.reporters if r.frame and (r.due(self.step) or r.interval == 0)]
        if last:
            self._report_frame(last, self.step, *self._take_rows()())
        self._wait_for_reporters()

    def evaluate(self) -> dict[str, float]:
        """Energies of the current positions, those that the next step has, the same on every rank."""
        self._try_step(coupled=True)
        return self.energies()

    def single_point(self) -> dict[str, float]:
        """Energies as of `evaluate`, from positions too that no step is possible from; a warning says why."""
        try:
            return self.evaluate()
        except UnstableError as error:
            if not error.stuck:
                raise
            self.rank.take_failure()
            if self.transport.rank == 0:
                log.warning("%s", "\n  ".join([NO_STEP, str(error), *error.__notes__]))
            return self.energies()

    def forces(self) -> NDArray[np.float64] | None:
        """Forces on all atoms at the current positions, (n, 3) kJ/mol/nm, on rank 0, None elsewhere; on CPUs alone."""
        assert isinstance(self.rank, Rank)
        self.single_point()
        gid, forces = (self.to_root(array) for array in self.rank.forces())
        if self.transport.rank != 0:
            return None
        found = np.empty((self.system.topology.n_atoms, 3))
        found[np.concatenate(gid)] = np.concatenate(forces)
        found[self.system.topology.virtual_sites.sites] = 0.0  # theirs act on the atoms that they are made of
        return found

    def _try_step(self, coupled: bool) -> None:
        """Make the next step, with a new pair list if it begins one, for energies or velocities, and take it back."""
        self.require_fields()
        self.go_to_half_step()
        if self.search_is_next and self.step != self._searched:
            self.timer.timed("search", self.rank.search)
            self._searched = self.step
        self.rank.evaluate(self.step, self.timer, coupled)
        self._require_stable()

    def go_to_half_step(self) -> None:
        """Let velocities that a start has for the time of its positions be those of half a step before, as between
        steps, once and for all."""
        if self._at_full_step:
            self.rank.begin_at_full_step(self.step, self.timer)
            self._at_full_step = False

    def energies(self) -> dict[str, float]:
        """Energies of the last step that computed them."""
        rank, system = self.rank, self.system
        mass = rank.total_mass + system.frozen_mass
        return energy_record(
            rank.found, system.energy_names, rank.n_dof, mass, system.dispersion, system.temperatures
        )

    def gather(self) -> Frame | None:
        """The current frame as steps have it, on rank 0, None elsewhere."""
        self.require_fields()
        return self._frame(self.step, self.rank.rows(), self.rank.read_cell())

    def frame(self) -> Frame | None:
        """The current frame as it is reported, on rank 0, None elsewhere."""
        return self._frame(self.step, *self._take_rows()())

    def gather_searched(self) -> Frame | None:
        """Positions and box crossings at the last search, with the velocities of now; on rank 0, None elsewhere."""
        return self._frame(self._searched, self.rank.searched(), self.rank.searched_cell)

    def _frame(self, step: int, atoms: LocalAtoms, cell: Cell) -> Frame | None:
        columns = [atoms.gid, atoms.x, atoms.v]
        columns += [] if atoms.image is None else [atoms.image]
        parts = [self.to_root(array) for array in columns]
        if self.transport.rank != 0:
            return None
        gid, *arrays = (np.concatenate(part) for part in parts)
        order = np.argsort(gid, kind="stable")
        x, v, *image = (array[order] for array in arrays)
        return Frame(step, self.system.settings.time_of(step), x, v, cell, *image)

    def trajectory_hash(self) -> str | None:
        """SHA-256 of step, box, positions and velocities in the files' frame, on rank 0 (see the file formats)."""
        self.go_to_half_step()
        frame = self.gather()
        if frame is None:
            return None
        digest = hashlib.sha256()
        digest.update(np.array([frame.step, len(frame.x)], "<i8").tobytes())
        digest.update(frame.cell.user_box.astype("<f8").tobytes())
        digest.update(self.system.user_lattice(frame.x).astype("<i4").tobytes())
        digest.update(frame.v.astype("<f4").tobytes())
        return digest.hexdigest()

    def to_root(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """The arrays of all ranks on rank 0, empty ones elsewhere."""
        empty = array[:0]
        return self.transport.alltoall([array] + [empty] * (self.transport.size - 1))

    def _report_frame(self, reporters: list[Reporter], step: int, atoms: LocalAtoms, cell: Cell) -> None:
        frame = self._frame(step, atoms, cell)
        if frame is not None:
            for reporter in reporters:
                if reporter.frame is not None:
                    reporter.frame(frame)

    def _report_energies(self, reporters: list[Reporter], step: int) -> None:
        if self.transport.rank == 0:
            record = self.energies()
            for reporter in reporters:
                if reporter.energies is not None:
                    reporter.energies(step, self.system.settings.time_of(step), record)
