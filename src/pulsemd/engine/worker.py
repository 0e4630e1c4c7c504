"""One rank behind a `pulsemd.Simulation`: it carries out commands until it is told to close."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from pulsemd.engine.gpu_control import control_of
from pulsemd.engine.minimise import minimise
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import Transport

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

Report = Callable[[int, Any], None]
"""Called on rank 0 with the number of a reporter and what it is to be given."""


@dataclass(frozen=True)
class Wanted:
    """What one reporter of the caller wants, every `interval` steps."""

    interval: int
    energies: bool
    frame: bool


@dataclass(frozen=True, eq=False)
class Job:
    """What a rank is started with; the pipes are descriptors of the process that started it."""

    system: System
    options: RunOptions
    process: int
    commands: tuple[int, ...]
    replies: int


class Worker:
    """Commands of a simulation on one rank. Collective: every rank gets the same commands in the same order.

    Parameters
    ----------
    transport : Transport
    system : System
    options : RunOptions
    """

    def __init__(self, transport: Transport, system: System, options: RunOptions) -> None:
        self.simulation = Simulation(transport, system, options)
        self.simulation.warm_up()

    def about(self) -> dict[str, str]:
        """What was chosen."""
        rank, transport = self.simulation.rank, self.simulation.transport
        return {
            "grid": str(self.simulation.grid),
            "transport": transport.name,
            "device": rank.device_name,
            "r_list": f"{self.simulation.r_list:.3f}",
            "nstlist": str(self.simulation.nstlist),
        }

    def do(self, command: str, arguments: tuple[Any, ...], report: Report) -> Any:
        """Carry out a command: ``run``, ``last``, ``minimize``, ``energies``, ``forces``, ``frame`` or ``hash``."""
        simulation = self.simulation
        if command == "run":
            n_steps, wanted = arguments
            simulation.reporters = _reporters(wanted, report)
            simulation.run(n_steps)
            return simulation.step
        if command == "last":
            simulation.reporters = _reporters(arguments[0], report)
            simulation.finish()
            return simulation.step
        if command == "minimize":
            return minimise(simulation, arguments[0])
        if command == "energies":
            return simulation.single_point()
        if command == "frame":
            return simulation.frame()
        if command == "forces":
            return simulation.forces()
        assert command == "hash"
        return simulation.trajectory_hash()


def _reporters(wanted: list[Wanted], report: Report) -> list[Reporter]:
    def energies(number: int, step: int, time: float, record: dict[str, float]) -> None:
        report(number, (step, time, record))

    return [
        Reporter(
            w.interval, partial(energies, k) if w.energies else None, partial(report, k) if w.frame else None
        )
        for k, w in enumerate(wanted)
    ]


def serve(transport: Transport, job: Job) -> None:
    """Carry out the commands that come through a pipe until it is closed; the target of `pulsemd.halo.launch`."""
    with ExitStack() as stack:
        number = transport.rank // job.options.ranks_per_gpu
        commands = stack.enter_context(_open(job.process, job.commands[number], os.O_RDONLY))
        first = transport.rank == 0
        replies = stack.enter_context(_open(job.process, job.replies, os.O_WRONLY)) if first else None

        def send(kind: str, value: Any) -> None:
            if replies is not None:
                replies.send((kind, value))

        def report(number: int, value: Any) -> None:
            send("report", (number, value))

        worker = Worker(transport, job.system, job.options)
        send("done", worker.about())
        while True:
            try:
                command, *arguments = commands.recv()
            except EOFError:  # the simulation was closed, or its process has ended
                return
            send("done", worker.do(command, tuple(arguments), report))


def serve_process(transport: GpuTransport, job: Job) -> None:
    """The same for a process that drives a GPU and holds one or more ranks."""
    serve(control_of(transport), job)


def _open(process: int, descriptor: int, mode: int) -> Connection:
    handle = os.open(f"/proc/{process}/fd/{descriptor}", mode | os.O_CLOEXEC)
    return Connection(handle, readable=mode == os.O_RDONLY, writable=mode == os.O_WRONLY)
