"""What a step of the plan-ranks of a GPU process launches.

Between searches a step has two branches. The main stream computes the forces among owned atoms. Beside it, on a stream
of high priority, positions go to the ghosts, the forces that need ghosts follow, and ghost forces go back. The two
join before the atoms move. With few atoms the kernels of forces and moves exchange by themselves, and a step is
these two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pulsemd.device.cuda import CudaDevice
from pulsemd.engine.coupling import StepFlags, kinetic_intervals, scales_box
from pulsemd.engine.gpu_barostat import DeviceCells
from pulsemd.engine.gpu_constants import gpu_annealing
from pulsemd.engine.gpu_fields import DeviceFields
from pulsemd.engine.gpu_part import DevicePart
from pulsemd.engine.gpu_steps import PRUNE_INTERVAL
from pulsemd.engine.gpu_sums import SumsOfRanks
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.constraints.shared_moves import SharedMoves, move_together
from pulsemd.kernels.pme.gpu import GpuLatticeSum
from pulsemd.schedule.phase import Phase
from pulsemd.schedule.trace import DeviceTrace


class StepOfRanks:
    """The phases of a step.

    Parameters
    ----------
    device : CudaDevice
    settings : RunSettings
    parts : sequence of DevicePart
    fields : DeviceFields
        After the first search.
    lattice : GpuLatticeSum or None
    sums : SumsOfRanks
    box : DeviceCells
    networks : SharedMoves or None
        Of networks of constraints.
    ghost_stream : stream of the device
    trace : DeviceTrace or None
    several : bool
        Whether there are other processes.
    first_step : int

    Attributes
    ----------
    flags : StepFlags
        What the step does.
    first_step : int
        Step of the last search.
    """

    def __init__(
        self,
        device: CudaDevice,
        settings: RunSettings,
        parts: Sequence[DevicePart],
        fields: DeviceFields,
        lattice: GpuLatticeSum | None,
        sums: SumsOfRanks,
        box: DeviceCells,
        networks: SharedMoves | None,
        ghost_stream: Any,
        trace: DeviceTrace | None,
        several: bool,
        first_step: int,
    ) -> None:
        self._device, self._settings, self._parts, self._fields = device, settings, parts, fields
        self._lattice, self._sums, self._box, self._trace = lattice, sums, box, trace
        self._networks, self._ghost_stream, self._several = networks, ghost_stream, several
        self.flags, self._offset, self.first_step = StepFlags(), 0, first_step
        self._annealing = [
            gpu_annealing(device, settings, part.update, part.cell, part.is_fixed) for part in parts
        ]

    def begin(self, flags: StepFlags, offset: int = 0) -> None:
        """Set what this step does and how far it is from the device's step; clears the sums of energy steps."""
        self.flags, self._offset = flags, offset
        if flags.sums:
            for part in self._parts:
                self._device.clear(part.sums)
        for annealing in self._annealing:
            if annealing is not None:
                annealing.apply(offset)

    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""
        if self._fields.steps is None:
            return (*self.force_phases(), self._phase("update", self.update))
        return (
            Phase("coupling.begin", self._begin_coupling),
            self._phase("forces.pairs", self._exchanged_forces),
            self._phase("update", partial(self.update, exchange=True)),
        )

    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring the forces of owned atoms up to date."""
        ghosts = "ghosts", self._ghost_stream
        before, beside, after = self._lattice_phases()
        coupling = [Phase("coupling.begin", self._begin_coupling)] if self._fields.starts_itself else []
        return (
            *coupling,
            self._fork("halo.forward.begin", lambda: self._fields.channel_x.forward_begin(), *ghosts),
            *before,
            self._phase("forces.start", self._start_forces),
            *beside,
            self._phase("forces.local", self._local_forces),
            *after,
            self._end_phase("halo.forward.end", lambda: self._fields.channel_x.forward_end()),
            self._phase("forces.nonlocal", self._ghost_forces, *ghosts),
            self._phase("halo.reverse.begin", lambda: self._fields.channel_f.reverse_begin(), *ghosts),
            self._end_phase("halo.reverse.end", self._take_forces),
        )

    def _lattice_phases(self) -> tuple[list[Phase], list[Phase], list[Phase]]:
        """Phases of the lattice sum: before forces begin, before local forces, and after them.

        Its forces are added to those that have begun. Where the host waits for the charges of other processes, it has
        launched the local forces before.
        """
        lattice = self._lattice
        if lattice is None:
            return [], [], []
        stream = "lattice", lattice.stream
        solve = [self._phase("forces.lattice.solve", lambda: lattice.solve(self.flags.sums), *stream)]
        if self._several:
            solve.insert(0, self._phase("halo.charges", lattice.sum_charges, *stream))
        spread = self._fork("forces.lattice.spread", lattice.spread, *stream)
        add = self._phase("forces.lattice.add", lattice.add_forces, *stream)
        if self._fields.stops_host:
            return [spread], [], [*solve, add]
        return [spread, *solve], [add], []

    def _end_phase(self, name: str, call: Callable[[], None]) -> Phase:
        """The end of an exchange: mere order between streams where the device drives it, and then not marked."""
        if self._fields.starts_itself:
            return Phase(name, call)
        return self._phase(name, call, "ghosts", self._ghost_stream)

    def _phase(self, name: str, call: Callable[[], None], lane: str = "main", stream: Any = None) -> Phase:
        """A phase; times, if they are wanted, are those of its stream, by default the main one."""
        return Phase(name, call) if self._trace is None else self._trace.phase(name, call, lane, stream)

    def _fork(self, name: str, call: Callable[[], None], lane: str, stream: Any) -> Phase:
        """A phase of another stream that begins after what the main stream has so far."""
        phase = self._phase(name, call, lane, stream)

        def begin() -> None:
            self._device.fork(stream)
            phase.call()

        return Phase(name, begin)

    def _start_forces(self) -> None:
        for part in self._parts:
            part.start_forces(self.flags.sums, waters_started=True)
        self._device.fork(self._ghost_stream)  # what needs ghosts is added to forces that have begun
        if self._lattice is not None:
            self._device.fork(self._lattice.stream)

    @property
    def _prunes(self) -> bool:
        age = self.flags.step - self.first_step  # a search ends with a pruning
        return age > 0 and age % PRUNE_INTERVAL == 0

    def _local_forces(self) -> None:
        for part in self._parts:
            part.local_forces(self.flags.sums, self._prunes)

    def _ghost_forces(self) -> None:
        for part in self._parts:
            part.ghost_forces(self.flags.sums, self._prunes)

    def _exchanged_forces(self) -> None:
        """All forces by kernels that wait for ghosts themselves."""
        steps, prune, energies = self._fields.steps, self._prunes, self.flags.sums
        assert steps is not None
        for part in self._parts:
            part.start_forces(energies, waters_started=True)
        new_box = scales_box(
            self._settings, self.flags.step - 1
        )  # whose constants are read ahead of any wait
        overlap = self._overlaps and self.flags.step > self.first_step and not prune and not new_box
        for part, halo in zip(self._parts, steps.tables, strict=True):
            part.exchanged_forces(energies, prune, halo, overlap)

    @property
    def _overlaps(self) -> bool:
        """Whether this step is two kernels that exchange, one behind the other."""
        return len(self._parts) == 1 and not self.flags.sums

    def _take_forces(self) -> None:
        self._fields.channel_f.reverse_end()
        self._device.join(self._ghost_stream)
        if self._lattice is not None:
            self._device.join(self._lattice.stream)
        for part in self._parts:
            part.clear_ghost_forces()  # beside the update

    def _begin_coupling(self) -> None:
        """Sums of velocities, beside the forces: they need none, but at full steps, where they come later."""
        if self.flags.kinetic and not self._settings.full_steps:
            self._sum_kinetic()

    def _sum_kinetic(self) -> None:
        intervals = kinetic_intervals(self._settings) if self.flags.couples else (0, 0)
        self._sums.begin(self._offset, False, *intervals)

    def update(self, exchange: bool = False) -> None:
        """Thermostat, kick, drift, constraints, barostat, the start of the next forces; where wanted also the sums.
        ``exchange``: take forces back from the ghosts of other ranks, and send new positions there."""
        flags = self.flags
        if not self._fields.starts_itself:
            self._begin_coupling()  # where the host takes part it would wait before it has launched the forces
        if flags.kinetic and self._settings.full_steps:
            completed = [
                part.update.completing(flags.couples, part.constraint_virial if flags.sums else None)
                for part in self._parts
            ]
            move_together(completed, self._networks)
            self._sum_kinetic()
        if flags.kinetic:
            self._sums.end()
        steps = self._fields.steps if exchange else None
        self._box.drag(flags)
        overlap = exchange and self._overlaps and not flags.couples and not flags.box_drags
        moves = [
            part.update.moving(
                self._offset,
                flags.couples,
                part.constraint_virial if flags.sums else None,
                overlap,
                steps and steps.tables[k],
            )
            for k, part in enumerate(self._parts)
        ]
        move_together(moves, self._networks)
        if flags.kinetic_after(self._settings.full_steps):
            self._sums.begin(0, True, 0, 0)
            self._sums.end()
        if flags.sums:
            self._sums.add_energies()
        self._box.finish_step(self._offset, flags)
        if flags.new_box:
            for part in self._parts:
                part.update.construct_sites()
                part.start_forces(False, waters_started=False)  # the move began them in the other box

    def end(self) -> None:
        """Let the main stream go on only after all of the steps before."""
        if self._fields.steps is None:
            self._device.join(self._ghost_stream)
