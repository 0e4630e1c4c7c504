"""When a run writes checkpoints, and when it stops before its last step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pulsemd.base.errors import PulseMDError
from pulsemd.engine.checkpoint import hash_topology, take_checkpoint
from pulsemd.engine.simulation import Simulation
from pulsemd.io.checkpoint import write_checkpoint


@dataclass(frozen=True)
class Limits:
    """Wall-clock limits of a run.

    Parameters
    ----------
    checkpoint_minutes : float
        Between two checkpoints; 0: at every search.
    stop_at : float or None
        Reading of `time.monotonic` on rank 0 from which on the run stops at the next search.
    """

    checkpoint_minutes: float = 15.0
    stop_at: float | None = None


class CheckpointKeeper:
    """Writes the checkpoints of a run and decides, for all ranks alike, whether it goes on.

    Parameters
    ----------
    simulation : Simulation
    folder : Path
    limits : Limits
    asked_to_stop : function without arguments
        Whether this rank's process was asked to end, as by a signal.
    sync : function without arguments
        Makes the other results safe on the disk; called on rank 0 before each checkpoint.

    Attributes
    ----------
    stopped : str
        Why the run ended early: '', 'interrupted' or 'time'; the same on every rank.
    """

    def __init__(
        self,
        simulation: Simulation,
        folder: Path,
        limits: Limits,
        asked_to_stop: Callable[[], bool],
        sync: Callable[[], None],
    ) -> None:
        self._simulation, self._folder, self._limits = simulation, folder, limits
        self._asked_to_stop, self._sync = asked_to_stop, sync
        system, self._first = simulation.system, simulation.transport.rank == 0
        groups = system.group_of_atom, system.held_group_of_atom
        self._topology = hash_topology(system.topology, system.table, *groups) if self._first else ""
        self._saved_step, self._saved_at = -1, monotonic()
        self.stopped = ""

    def wants(self) -> bool:
        """Whether there is anything to do `at_search`, the same on all ranks; waits for no device. Collective."""
        stop, due = "", False
        if self._asked_to_stop():
            stop = "interrupted"
        elif self._first:
            now, limits = monotonic(), self._limits
            stop = "time" if limits.stop_at is not None and now >= limits.stop_at else ""
            due = now - self._saved_at >= 60.0 * limits.checkpoint_minutes
        found = self._simulation.transport.allgather((stop, due))
        answers = [answer for answer in found if answer is not None]  # one of ranks that share a process
        reasons = {reason for reason, _ in answers}
        self.stopped = next((reason for reason in ("interrupted", "time") if reason in reasons), "")
        return bool(self.stopped) or answers[0][1]

    def at_search(self, step: int) -> bool:
        """Write a checkpoint; True if the run is to stop here. Collective, after `wants`."""
        self._simulation.timer.timed("checkpoint", self.save)
        return bool(self.stopped)

    def save(self) -> None:
        """Write a checkpoint of this step unless there is one already; collective."""
        if self._saved_step == self._simulation.step:
            return
        checkpoint = take_checkpoint(self._simulation, self._topology)
        error: PulseMDError | None = None
        if checkpoint is not None:
            try:
                self._sync()
                write_checkpoint(self._folder, checkpoint)
            except PulseMDError as problem:
                error = problem
        self._simulation.transport.barrier(patient=True)
        self._simulation.transport.agree(error)
        self._saved_step, self._saved_at = self._simulation.step, monotonic()
