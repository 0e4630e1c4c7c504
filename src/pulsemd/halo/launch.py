"""Start ranks, watch over them, and say which one failed and why."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pulsemd.base.cores import usable_cores
from pulsemd.base.errors import ConfigError, PeerError, TransportError
from pulsemd.device.cuda import find_device_problem
from pulsemd.halo.agreement import received
from pulsemd.halo.control import JOINED, Control
from pulsemd.halo.heap import SharedHeap
from pulsemd.halo.mpirun import find_mpi_problem, mpirun_command
from pulsemd.halo.target import check_not_imported, find_function, is_name, know_script
from pulsemd.halo.transport import FOR_GPUS, TRANSPORTS, faults_text, wait_limit

_POLL: Final = 0.01
_GRACE: Final = 10.0
_MOST_PER_CORE: Final = 64
_ONE_THREAD: Final = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
"""A rank has one core: more threads of linear algebra would wait for each other. The setting of the user prevails."""


def launch(
    n_ranks: int,
    target: str,
    payload: Any = None,
    transport: str = "shmem",
    timeout: float | None = None,
    faults: str | None = None,
) -> Any:
    """Run a function on every one of ``n_ranks`` new ranks.

    Ranks are processes of this interpreter (threads for ``loopback``; processes under mpirun for ``mpi``). They end
    with this process, and leave no shared memory behind, whatever happens.

    Parameters
    ----------
    n_ranks : int
    target : str
        ``module:function``; called as ``function(transport, payload)`` on each rank. The module is found as here; a
        script can name itself, and then calls this below ``if __name__ == "__main__":``.
    payload : object
        Anything that can be pickled.
    transport : str
        Row of `pulsemd.halo.TRANSPORTS`.
    timeout, faults : optional
        As in `pulsemd.halo.open_transport`.

    Returns
    -------
    object
        What the function returned on rank 0.

    Raises
    ------
    ConfigError
        If there are far more ranks than cores, the module has no such function or starts ranks when imported, or the
        result cannot be pickled.
    TransportError
        If the transport cannot be used here; says why and what to do.
    PeerError
        If a rank died; names it and the signal or exit code.
    Exception
        The error of the rank that failed first, of its own type, with notes that name the rank and show its traceback.
    KeyboardInterrupt, SystemExit
        If SIGINT or SIGTERM came, was passed on to the ranks, and they did not end well.
    """
    if transport not in TRANSPORTS or n_ranks < 1 or not is_name(target):
        raise ConfigError(
            f"launch: {n_ranks} ranks of {target!r} on {transport!r}; needs 1 or more ranks of "
            f"'module:function', a string, on one of {', '.join(TRANSPORTS)}{FOR_GPUS}"
        )
    check_not_imported(target)
    know_script(target)
    check_crowd(n_ranks)
    limit, text = wait_limit(timeout), faults_text(faults)
    if transport == "loopback":
        return _run_threads(n_ranks, target, payload, limit, text)
    if transport != "mpi":
        for module in (TRANSPORTS[transport], "pulsemd.halo.transports.heap_channel"):
            import_module(module)  # compiles what is not in the cache once, before the ranks load it
    ticket = {
        "target": target,
        "payload": payload,
        "transport": transport,
        "timeout": limit,
        "faults": text,
    }
    return _run_job(n_ranks, limit, ticket, mpi=transport == "mpi")


def check_crowd(n_ranks: int) -> None:
    """Refuse far more ranks than cores.

    Raises
    ------
    ConfigError
    """
    cores = usable_cores()
    if n_ranks > _MOST_PER_CORE * cores:
        raise ConfigError(
            f"{n_ranks} ranks: so many would stall this machine, which has {cores} usable core(s); use at most "
            f"{_MOST_PER_CORE * cores}, better {cores}"
        )


def require_gpu() -> None:
    """Raise a TransportError that says why and what would help, where no GPU can be used."""
    problem = find_device_problem()
    if problem is not None:
        raise TransportError(f"no GPU can be used: {problem}")


def launch_gpus(
    n_processes: int,
    target: str,
    payload: Any = None,
    transport: str | None = "auto",
    ranks_per_gpu: int = 1,
    timeout: float | None = None,
    faults: str | None = None,
    rungs: Collection[str] = ("mpi",),
) -> Any:
    """Run a function on ``n_processes`` new processes that drive one GPU each and hold ``ranks_per_gpu`` plan-ranks.

    Parameters
    ----------
    n_processes : int
    target : str
        ``module:function``; called as ``function(transport, payload)`` in each process, with a `GpuTransport`.
    payload : object
    transport : str or None
        'auto' or one of `pulsemd.halo.rungs.ladder.GPU_RUNGS`. None: the function gets the `GpuWorld`, in which it can
        open one rung after the other.
    ranks_per_gpu : int
    timeout, faults : optional
        As in `launch`.
    rungs : collection of str
        With None, what may be opened: for ``mpi`` the processes are started by mpirun, where there is one.

    Returns
    -------
    object
        What the function returned in process 0.

    Raises
    ------
    TransportError
        If there are too few GPUs, or the transport cannot be used.
    PeerError, Exception, KeyboardInterrupt, SystemExit
        As in `launch`.
    """
    from pulsemd.halo.rungs.ladder import GPU_RUNGS
    from pulsemd.halo.rungs.mpi_trial import find_mpi_problem as find_device_mpi_problem

    if n_processes < 1 or ranks_per_gpu < 1 or not is_name(target):
        raise ConfigError(
            f"launch: {n_processes} processes of {target!r} with {ranks_per_gpu} ranks each; needs 1 or more of both, "
            "and 'module:function', a string"
        )
    if transport not in (None, "auto", *GPU_RUNGS):
        raise ConfigError(
            f"transport: {transport!r} does not exist on GPUs; use one of {', '.join(GPU_RUNGS)}"
        )
    check_not_imported(target)
    know_script(target)
    require_gpu()
    wanted = transport is None and n_processes > 1 and "mpi" in rungs
    mpi = transport == "mpi" or (wanted and find_mpi_problem() is None)
    import_module(TRANSPORTS["shmem"])
    limit = wait_limit(timeout)
    ticket = {
        "target": target,
        "payload": payload,
        "transport": transport,
        "timeout": limit,
        "faults": faults_text(faults),
        "ranks_per_gpu": ranks_per_gpu,
        # Tried from here: inside a job, mpirun may wait for the job that it is part of.
        "mpi_trial": (find_device_mpi_problem(n_processes),) if mpi else None,
    }
    return _run_job(n_processes, limit, ticket, mpi=mpi)


def _run_job(n_processes: int, timeout: float, ticket: dict[str, Any], mpi: bool) -> Any:
    with ExitStack() as stack:
        job = _Job(stack, n_processes, ticket.get("ranks_per_gpu", 1), timeout, mpi)
        with _passed_on(job):
            job.start(ticket)
            job.supervise()
        return job.result()


@dataclass
class _Job:
    """Processes of one launch and what is known of them."""

    stack: ExitStack
    n_processes: int
    per_process: int
    timeout: float
    mpi: bool
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    outcomes: dict[int, Any] = field(default_factory=dict)
    signalled: int = 0
    deadline: float = float("inf")
    death: str = ""
    ending: str = ""

    def start(self, ticket: dict[str, Any]) -> None:
        """Start the processes. They find ticket, control block and a place for their outcome among our descriptors."""
        self._handles = [self._memory() for _ in range(self.n_processes)]
        heap, n_ranks = SharedHeap(), self.n_processes * self.per_process
        control, memory = heap.create(Control.n_bytes(n_ranks))
        self.stack.callback(os.close, control)
        self._control = Control(memory, n_ranks)
        ticket_handle = self._memory()
        payload = pickle.dumps(ticket["payload"], 5)
        ticket |= {"payload": payload, "outcomes": self._handles, "mpi": self.mpi}
        os.pwrite(ticket_handle, pickle.dumps(ticket, 5), 0)
        command = [sys.executable, "-m", "pulsemd.halo.worker", str(os.getpid()), str(ticket_handle)]
        environment = {
            **_ONE_THREAD,
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path),
        }
        self.stack.callback(self._kill)
        join = f"{os.getpid()}:{control}:{n_ranks}"
        if self.mpi:
            mpirun, extra = mpirun_command(self.n_processes)
            if "ranks_per_gpu" in ticket:
                extra["PULSEMD_SHMEM"] = f"{join}:-1"
            self._start(0, [*mpirun, *command], environment | extra)
        else:
            for process in range(self.n_processes):
                if self.signalled:
                    return
                place = {"PULSEMD_SHMEM": f"{join}:{process * self.per_process}"}
                self._start(process, [*command, str(process)], environment | place)

    def _memory(self) -> int:
        handle = os.memfd_create("pulsemd-launch", os.MFD_CLOEXEC)
        self.stack.callback(os.close, handle)
        return handle

    def _start(self, rank: int, command: list[str], environment: dict[str, str]) -> None:
        # A process group of its own: a Ctrl-C at the terminal reaches us alone, and we pass it on once.
        self.running[rank] = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, process_group=0
        )

    def pass_on(self, number: int) -> None:
        """Give a signal to every process once; by the second one, or one before all have joined, `supervise` kills
        them."""
        if self.signalled or not self._all_joined():
            self.signalled, self.deadline = number, 0.0
            return
        self.signalled = number
        self.deadline = time.monotonic() + max(self.timeout, _GRACE)
        for process in self.running.values():
            process.send_signal(number)

    def _all_joined(self) -> bool:
        """Whether the functions of all ranks may have begun, and have something to bring to an end; of those under MPI
        that is not known."""
        control: Control | None = getattr(self, "_control", None)  # made by `start`
        return self.mpi or (control is not None and bool(control.headers[0, :, JOINED].all()))

    def supervise(self) -> None:
        """Until all have ended: note deaths, tell the others, and kill those that do not react."""
        while self.running:
            for rank, process in list(self.running.items()):
                code = process.poll()
                if code is not None:
                    del self.running[rank]
                    if code != 0 or (not self.mpi and not self._has_outcome(rank)):
                        self._note_failure(rank, process.pid, code)
            if time.monotonic() > self.deadline:
                self._kill()
            time.sleep(_POLL)
        for rank, handle in enumerate(self._handles):
            size = os.fstat(handle).st_size
            if size:
                self.outcomes[rank] = pickle.loads(os.pread(handle, size, 0))

    def _note_failure(self, rank: int, pid: int, code: int) -> None:
        ending = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        ending = ending if code else "ended without a result"
        cause = f"{self._name(rank)} (process {pid}) {ending}"
        self.ending = self.ending or cause
        if not self._has_outcome(rank) and not self.death:
            self.death = cause
        self._control.stop(self.n_processes * self.per_process, cause)
        self.deadline = min(self.deadline, time.monotonic() + max(self.timeout, _GRACE))

    def _has_outcome(self, rank: int) -> bool:
        return os.fstat(self._handles[rank]).st_size > 0

    def _name(self, process: int) -> str:
        return "mpirun" if self.mpi else self._names(process)

    def _names(self, process: int) -> str:
        first, last = process * self.per_process, (process + 1) * self.per_process - 1
        return f"rank {first}" if first == last else f"ranks {first} to {last}"

    def _kill(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def result(self) -> Any:
        """Result of rank 0, or the error that came first."""
        errors = {rank: text for rank, (kind, *text) in self.outcomes.items() if kind == "error"}
        if not errors and not self.death:
            return self.outcomes[0][1]
        if self.signalled:
            raise KeyboardInterrupt if self.signalled == signal.SIGINT else SystemExit(128 + self.signalled)
        silent = [process for process in range(self.n_processes) if process not in self.outcomes]
        known = self.mpi and _found(errors)
        if self.mpi and silent and not known:
            # mpirun told the others to end, and ended itself: who died is whoever left nothing. MPICH's kills all.
            who = self._names(silent[0]) if len(silent) == 1 else f"one of {len(silent)} processes"
            raise PeerError(f"{who} died: {self.ending}")
        rank = self._control.origin()
        origin = None if rank is None else rank // self.per_process
        if self.death and origin not in errors and not known:  # MPICH kills the others of a rank that failed
            raise PeerError(self.death)
        first = origin if origin in errors else _first(errors)
        blob, trace = errors[first]
        error = received(blob, first * self.per_process)
        error.add_note(trace)
        raise error


def _found(errors: dict[int, list[Any]], *besides: type[BaseException]) -> list[int]:
    """Ranks whose error is neither of the types ``besides`` nor an end by SIGTERM, which mpirun sends to all."""
    told = repr(SystemExit(128 + signal.SIGTERM))
    found = {rank: pickle.loads(blob) for rank, (blob, _) in errors.items()}
    return [rank for rank, error in found.items() if not isinstance(error, besides) and repr(error) != told]


def _first(errors: dict[int, list[Any]]) -> int:
    """Lowest rank whose error is its own, not the consequence of another rank's, if there is one."""
    return min(_found(errors, PeerError) or errors)


@contextmanager
def _passed_on(job: _Job) -> Iterator[None]:
    """Pass SIGINT and SIGTERM on to the ranks; Python lets only the main thread do that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pass_on(number: int, frame: FrameType | None) -> None:
        job.pass_on(number)

    earlier = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _run_threads(n_ranks: int, target: str, payload: Any, timeout: float, faults: str) -> Any:
    """Run the ranks as threads of this process."""
    from pulsemd.halo.transports.loopback import loopback_world

    function, blob = find_function(target), pickle.dumps(payload, 5)
    results: list[Any] = [None] * n_ranks
    errors: dict[int, BaseException] = {}
    world = loopback_world(n_ranks, timeout, faults)

    def run(rank: int) -> None:
        try:
            with world[rank]:
                results[rank] = function(world[rank], pickle.loads(blob))
        except BaseException as error:
            errors[rank] = error

    threads = [
        threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(n_ranks)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        world[0].control.stop(0, f"the launcher was interrupted: {type(error).__name__}")
        raise
    if errors:
        origin = world[0].control.origin()
        first = origin if origin in errors else min(errors)
        errors[first].add_note(f"raised on rank {first}")
        raise errors[first]
    return results[0]
