"""The ranks of a `pulsemd.Simulation`: one inside this process, or several behind it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Protocol

from pulsemd.base.errors import PeerError
from pulsemd.device.cuda import free_memory
from pulsemd.engine.options import RunOptions
from pulsemd.engine.system import System
from pulsemd.engine.worker import Job, Report, Worker
from pulsemd.halo import launch, launch_gpus, open_transport

_POLL = 0.1


class Ranks(Protocol):
    """Carries out commands on all ranks."""

    about: dict[str, str]

    def call(self, command: str, *arguments: Any, report: Report) -> Any:
        """Carry out a command; the result of rank 0. Errors of a rank are raised here."""

    def close(self) -> None:
        """End the ranks; nothing of them is left."""


class OwnRank:
    """One rank in this process."""

    def __init__(self, system: System, options: RunOptions) -> None:
        self._stack, self._on_gpu = ExitStack(), options.device == "cuda"
        with ExitStack() as stack:
            transport = stack.enter_context(open_transport(options.rung, timeout=options.timeout))
            self._worker: Worker | None = Worker(transport, system, options)
            self._stack = stack.pop_all()
        self.about = self._worker.about()

    def call(self, command: str, *arguments: Any, report: Report) -> Any:
        assert self._worker is not None
        return self._worker.do(command, arguments, report)

    def close(self) -> None:
        self._stack.close()
        self._worker = None
        if self._on_gpu:
            free_memory()


class RanksBehind:
    """Ranks that `pulsemd.halo.launch` starts and watches from a thread, alive from one command to the next.

    Commands and results go through pipes, which the ranks open among our descriptors: a rank that waits for a command
    uses no time and no time-out, and ends when our ends of the pipes are closed, whatever becomes of this process.
    """

    def __init__(self, system: System, options: RunOptions) -> None:
        pipes = [os.pipe() for _ in range(options.n_processes)]
        reading, writing = os.pipe()
        self._commands = [Connection(write, readable=False) for _, write in pipes]
        self._replies = Connection(reading, writable=False)
        self._end = weakref.finalize(self, _close_all, [*self._commands, self._replies])
        self._error: BaseException | None = None
        job = Job(system, options, os.getpid(), tuple(read for read, _ in pipes), writing)
        self._thread = threading.Thread(
            target=_supervise, args=(weakref.ref(self), job), name="pulsemd ranks", daemon=True
        )
        self._thread.start()
        try:
            self.about: dict[str, str] = self._result(_nothing)
        finally:
            for handle in (*job.commands, job.replies):  # the ranks have opened them, or never will
                os.close(handle)

    def call(self, command: str, *arguments: Any, report: Report) -> Any:
        for pipe in self._commands:
            try:
                pipe.send((command, *arguments))
            except BrokenPipeError:
                self._raise()
        return self._result(report)

    def _result(self, report: Report) -> Any:
        while True:
            ended = not self._thread.is_alive()
            if self._replies.poll(_POLL):
                try:
                    kind, value = self._replies.recv()
                except (EOFError, OSError):  # rank 0 is gone, perhaps while it wrote
                    self._raise()
                if kind == "done":
                    return value
                report(*value)
            elif ended:
                self._raise()

    def _raise(self) -> NoReturn:
        """Raise what ended the ranks."""
        self._thread.join()
        self._end()
        raise self._error or PeerError("the ranks have ended; make a new simulation")

    def close(self) -> None:
        self._end()
        self._thread.join()


def _supervise(owner: weakref.ref[RanksBehind], job: Job) -> None:
    error: BaseException | None = None
    try:
        options = job.options
        where: dict[str, Any] = {"transport": options.rung, "timeout": options.timeout}
        if options.several_on_gpus:
            n, k = options.n_processes, options.ranks_per_gpu
            launch_gpus(n, "pulsemd.engine.worker:serve_process", job, ranks_per_gpu=k, **where)
        else:
            launch(options.ranks, "pulsemd.engine.worker:serve", job, **where)
    except BaseException as problem:
        error = problem
    if (ranks := owner()) is not None:
        ranks._error = error


def _close_all(pipes: list[Connection]) -> None:
    for pipe in pipes:
        pipe.close()


def _nothing(*_: object) -> None:
    """No reporter is due while ranks start."""


def start_ranks(system: System, options: RunOptions) -> Ranks:
    """The ranks that the options ask for, ready to step."""
    make: Callable[[System, RunOptions], Ranks] = OwnRank
    if options.ranks > 1 or options.rung != "loopback":
        make = RanksBehind
    return make(system, options)
