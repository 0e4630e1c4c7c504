"""Runs of steps on a GPU, as graphs or kernel by kernel: what one rank alone and the ranks of a process share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.fixed_point import FORCE_SCALE
from pulsemd.device.cuda import CudaDevice
from pulsemd.engine.blowup import find_overlap
from pulsemd.engine.cell import Cell
from pulsemd.engine.coupling import StepFlags, coupling_phase, step_flags, trial_flags
from pulsemd.engine.extended import Extended
from pulsemd.engine.gpu_barostat import DeviceCells
from pulsemd.engine.networks import warn_of_turn
from pulsemd.engine.options import RunOptions
from pulsemd.engine.system import System
from pulsemd.kernels.constraints.shared_moves import SharedMoves, move_together
from pulsemd.kernels.update.control import as_control
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.schedule.graphs import StepGraphs
from pulsemd.schedule.phase import Phase, PhaseTimer
from pulsemd.schedule.trace import DeviceTrace, Event

PRUNE_INTERVAL = 5
"""Steps between two prunings of the pair list, in fast mode, by measurement."""

ENERGIES_AHEAD, FRAMES_AHEAD = 32, 2
"""Records of energies and of positions that may be under way to the host."""


class GpuSteps(ABC):
    """The steps of all that one process drives on its GPU."""

    system: System
    device: CudaDevice
    _box: DeviceCells
    _phases: tuple[Phase, ...]
    _networks: SharedMoves | None = None

    def _prepare_steps(self, options: RunOptions, no_graph: str, priorities: bool) -> None:
        """Be ready to launch steps, but for their phases.

        Parameters
        ----------
        no_graph : str
            Why steps cannot be graphs; '': they can.
        priorities : bool
            Kernels in graphs keep the priorities of their streams.
        """
        self._no_graph = no_graph if options.graph else "not wanted"
        self._graphs = None if self._no_graph else StepGraphs(self.device, priorities)
        self._trace = DeviceTrace(self.device) if options.trace else None
        self._first_step = self._clock = self.system.step
        self._full_steps = self.system.settings.full_steps
        self._silent = PhaseTimer()
        self._warned = False

    # ---- what a step is -----------------------------------------------------------------------------------------

    @abstractmethod
    def begin_step(self, flags: StepFlags, offset: int = 0) -> None:
        """Set what this step does and how far it is from the device's step; clears the sums of energy steps."""

    @abstractmethod
    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring the forces up to date."""

    @abstractmethod
    def update(self) -> None:
        """Move the atoms, and start the next forces."""

    @abstractmethod
    def take_energies(self) -> Callable[[], None]:
        """Copy the energies of the step just launched; the function waits for them and makes them those of now."""

    @abstractmethod
    def _set_step(self, step: int) -> None:
        """The step of the device."""

    @abstractmethod
    def _end_run(self, n: int) -> None:
        """Finish a run of ``n`` steps."""

    @abstractmethod
    def _read_control(self) -> np.void:
        """The record of `pulsemd.kernels.update.control` of any rank here; waits for the device."""

    @abstractmethod
    def _moved_arrays(self) -> list[Any]:
        """What an update changes but for forces: positions and velocities of each rank here."""

    @property
    @abstractmethod
    def _updates(self) -> list[GpuUpdate]:
        """What moves the atoms of each rank here."""

    @abstractmethod
    def _owned_forces(self) -> list[tuple[NDArray[np.int32], NDArray[Any]]]:
        """Global ids of the owned atoms of each rank here, and forces on them (n_owned, 3); waits for the device."""

    @abstractmethod
    def _restart_forces(self) -> None:
        """Start the forces of the positions there are now."""

    @abstractmethod
    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""

    # ---- runs of steps ------------------------------------------------------------------------------------------

    def advance(self, step: int, n: int, energies: bool, timer: PhaseTimer) -> None:
        """Make `n` steps from `step` on; with `energies` those of the first."""
        self._set_clock(step)
        self._run_steps(step, n, energies, timer)
        self._clock = step + n

    def _run_steps(self, step: int, n: int, energies: bool, timer: PhaseTimer) -> None:
        """Launch them; the device is at the first of them by then."""
        phases = (step == self._first_step, (step - self._first_step) % PRUNE_INTERVAL)
        pattern = (n, energies, *phases, *coupling_phase(self.system.settings, step))
        if self._graphs is None:
            self._launch_steps(pattern, step, timer)
        else:
            work = partial(self._launch_steps, pattern, step, self._silent)
            timer.timed("steps", partial(self._graphs.run, pattern, n, work))

    def _launch_steps(self, pattern: tuple[Any, ...], first: int, timer: PhaseTimer) -> None:
        n, energies = pattern[:2]
        if self._trace is not None:
            self._trace.begin(pattern)
        for offset in range(n):
            flags = step_flags(self.system.settings, first + offset, energies and offset == 0)
            self.begin_step(flags, offset)
            timer.run(self._phases)
        self._end_run(n)

    def _set_clock(self, step: int) -> None:
        if step != self._clock:
            self._set_step(step)
            self._clock = step

    def _forget_graphs(self) -> None:
        """Something that graphs refer to was replaced."""
        if self._graphs is not None:
            self._graphs.clear()

    def evaluate(self, step: int, timer: PhaseTimer, coupled: bool = True) -> None:
        """Energies of the next step without moving, as for `Rank`; collective."""
        self._try_step(trial_flags(self.system.settings, step, coupled), timer)
        self.take_energies()()
        if self.system.settings.nsteps == 0:
            self._forgive_overlaps(step, timer)

    def _forgive_overlaps(self, step: int, timer: PhaseTimer) -> None:
        """In a run without steps from an overlapping start: an atom could not have moved, but it does not have to."""
        self.begin_step(StepFlags(step))
        timer.run(self.force_phases())
        for update, (gid, forces) in zip(self._updates, self._owned_forces(), strict=True):
            scale = 1.0 / FORCE_SCALE if forces.dtype == np.int64 else 1.0
            if find_overlap(self.system, gid, forces.astype(np.float64) * scale):
                update.forget_error()
        self._restart_forces()

    def warm_up(self, step: int, timer: PhaseTimer) -> None:
        """Compile or load every kernel of a step; nothing moves."""
        for coupled in (False, True):
            self.evaluate(step, timer, coupled)
        for later in range(2):  # the first step of a list lifetime, and another
            self._try_step(StepFlags(step + later), timer)
        self._set_clock(step)

    def _try_step(self, flags: StepFlags, timer: PhaseTimer) -> None:
        """A whole step that is then taken back."""
        if self._trace is not None:
            self._trace.end()
        self._set_clock(flags.step)
        heat = [array for update in self._updates for array in update.kinetic.heat]
        work = self._copies([*heat, *self._box.works])
        self.begin_step(flags)
        timer.run(self.force_phases())  # with them thermostats begin to act
        kept = self._copies(self._moved_arrays()) + work
        timer.timed("update", self.update)
        with self.device.current():
            for array, copy in kept:
                array[...] = copy
        self._restart_forces()

    def begin_at_full_step(self, step: int, timer: PhaseTimer) -> None:
        """Take velocities that belong to the time of the positions back by half a step; as for `Rank`."""
        self._set_clock(step)
        self.begin_step(StepFlags(step))
        timer.run(self.force_phases())
        kept = self._copies(self._moved_arrays()[::2])
        for update in self._updates:
            self._reverse(update.velocities)
        moves = [update.moving(0, coupled=True) for update in self._updates]
        move_together(moves, self._networks)  # nothing was coupled yet: half a kick
        for update in self._updates:
            self._reverse(update.velocities)
        with self.device.current():
            for array, copy in kept:
                array[...] = copy
        self._restart_forces()

    def _copies(self, arrays: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Each of the arrays with a copy of now."""
        with self.device.current():
            return [(array, array.copy()) for array in arrays]

    def _reverse(self, velocities: Any) -> None:
        velocities.set(-self.device.to_host(velocities), stream=self.device.stream)

    def _warn_of_turns(self, controls: Sequence[np.ndarray]) -> None:
        """Say once in a run that a constraint turned by more than lincs-warnangle in a step; copies of all records."""
        for update, words in zip(self._updates, controls, strict=True):
            if self._warned or update.networks is None:
                return
            found = update.networks.turned(as_control(words))
            if found is not None:
                self._warned = True
                limit = self.system.settings.lincs_warnangle
                warn_of_turn(self.system.topology.describe_atom, *found, limit)

    # ---- what is read from outside ------------------------------------------------------------------------------

    def read_work(self) -> tuple[float, float]:
        """Work of the thermostat and of the barostat so far, kJ/mol; waits for the device."""
        return float(self._read_control()["work"]), self._box.read()[1]

    def read_extended(self) -> Extended:
        """Variables of thermostat and barostat now; waits for the device."""
        return Extended(rates=self._box.read()[2]).with_heat(*self._updates[0].kinetic.read_heat())

    def read_cell(self) -> Cell:
        """The cell now; waits for the device."""
        return self._box.read()[0]

    @property
    def strained(self) -> str:
        """Why the barostat stopped scaling the box, the same on all ranks; '': it did not."""
        return self._box.strained

    @property
    def device_bytes(self) -> int:
        """Memory held on the GPU."""
        return self.device.bytes_held

    def events(self) -> list[Event] | None:
        """Times of the phases of the last steps, if they were wanted; waits for the device."""
        return None if self._trace is None else self._trace.events()

    def graph_report(self) -> dict[str, int] | str:
        """What the graph of most steps holds, or why there is none."""
        return f"none: {self._no_graph}" if self._graphs is None else self._graphs.report()
