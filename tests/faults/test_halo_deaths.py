"""Ranks that die, raise or are interrupted: everybody ends, the first cause is named, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pulsemd.base import cores
from pulsemd.base.errors import ConfigError, InputError, PeerError, TransportError
from pulsemd.halo import Transport, launch
from pulsemd.halo.agreement import sendable
from pulsemd.halo.conformance import ONE_PULSE, Field
from pulsemd.halo.launch import _Job

BOUND = 20.0
SHORT = 2.0
"""Time-outs in seconds, which begin when all ranks are loaded: the short one is waited for."""
needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpirun or mpiexec")


def exchange_forever(transport: Transport, folder: str) -> None:
    """Exchange until somebody fails; leave the process id when that begins, and the error that ended it, in a file."""
    plan, ids = ONE_PULSE.plan((transport.size,), transport.rank)
    field = Field(transport, plan, ids, "float32", 3, "forever")
    try:
        Path(folder, f"pid{transport.rank}").write_text(str(os.getpid()))
        while True:
            field.channel.forward()
    except BaseException as error:
        with Path(folder, f"error{transport.rank}").open("a") as file:
            print(f"{type(error).__name__}: {error}", file=file)
        raise


def raise_on_rank_two(transport: Transport, payload: Any) -> None:
    """Rank 2 refuses its input while the others wait for it."""
    if transport.rank == 2:
        raise InputError("no such atom", "topol.top", 7)
    transport.barrier()


def die(transport: Transport, payload: Any) -> None:
    """Rank 1 is killed while the other waits for it."""
    if transport.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    transport.barrier()


def vanish(transport: Transport, payload: Any) -> None:
    """Rank 1 ends without a word, and with success, while the other waits for it."""
    if transport.rank == 1:
        os._exit(0)
    transport.barrier()


def write_files(transport: Transport, dies: bool) -> str:
    """Rank 1 is busy for longer than the time-out while the others wait with patience."""
    if transport.rank == 1:
        time.sleep(1.5 * SHORT)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
    transport.barrier(patient=True)
    return "met"


def disagree(transport: Transport, payload: Any) -> None:
    """Ranks make different collective calls."""
    if transport.rank == 0:
        transport.barrier()
    else:
        transport.allgather(transport.rank)


def sum_of_ranks(transport: Transport, payload: int) -> list[int]:
    """A result for the launcher."""
    return [int(n) for n in transport.reduce(2, "int64").sum(np.array([transport.rank, payload]))]


def variable(transport: Transport, name: str) -> str:
    """A variable of a rank's environment."""
    return os.environ[name]


def shared_memory() -> set[str]:
    """Names in shared memory, without those of MPI programs that may run meanwhile."""
    return {name for name in os.listdir("/dev/shm") if "_segment." not in name}


def wait_until_gone(folder: Path) -> None:
    """Until no process whose id is in the folder exists."""
    end = time.monotonic() + BOUND
    for file in folder.glob("pid*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it is gone, perhaps since a moment
            while b"pulsemd" in Path("/proc", file.read_text(), "cmdline").read_bytes():
                assert time.monotonic() < end, f"{file.name} is still there"
                time.sleep(0.02)


def start_launcher(folder: Path, n_ranks: int) -> subprocess.Popen[str]:
    """A program that launches ranks; once they all exchange."""
    code = (
        f"from pulsemd.halo import launch; launch({n_ranks}, '{__name__}:exchange_forever', {str(folder)!r})"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path}
    program = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 3 * BOUND
    while len(list(folder.glob("pid*"))) < n_ranks:
        assert time.monotonic() < end
        time.sleep(0.05)
    return program


@pytest.mark.parametrize("transport", ["shmem", "loopback"])
def test_launch_returns_the_result_of_rank_zero(transport: str) -> None:
    assert launch(3, f"{__name__}:sum_of_ranks", 5, transport=transport) == [3, 15]


def test_killed_rank_is_named_to_all_others_and_nothing_is_left(tmp_path: Path) -> None:
    before = shared_memory()
    with pytest.raises(PeerError, match=r"rank 1 \(process \d+\) killed by SIGKILL"):
        launch(4, f"{__name__}:exchange_forever", str(tmp_path), timeout=BOUND, faults="kill rank=1 epoch=50")
    for rank in (0, 2, 3):
        text = (tmp_path / f"error{rank}").read_text()
        assert text.startswith(f"PeerError: rank {rank} stopped waiting for rank")
        assert "killed by SIGKILL" in text
    wait_until_gone(tmp_path)
    assert shared_memory() <= before


def test_rank_that_ends_without_a_result_is_named_though_its_exit_code_is_0() -> None:
    with pytest.raises(PeerError, match=r"rank 1 \(process \d+\) ended without a result"):
        launch(2, f"{__name__}:vanish", timeout=BOUND)


def test_error_of_a_rank_is_raised_where_mpirun_kills_the_others_and_ends_itself() -> None:
    job = _Job(ExitStack(), n_processes=2, per_process=1, timeout=1.0, mpi=True)
    job._control = SimpleNamespace(origin=lambda: 2)
    job.death = job.ending = "mpirun (process 1) ended with exit code 1"
    job.outcomes = {1: ("error", sendable(InputError("no such cell", "mesh", 7)), "trace")}
    with pytest.raises(InputError, match="mesh:7: no such cell"):
        job.result()
    job.outcomes = {}
    with pytest.raises(PeerError, match="one of 2 processes died: mpirun"):
        job.result()


def exit_on_rank_one(transport: Transport, payload: Any) -> None:
    """Rank 1 ends the program, as a script does that finds nothing to do."""
    if transport.rank == 1:
        sys.exit("no mesh here")
    transport.barrier()


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_exit_that_a_rank_asks_for_keeps_its_text(transport: str) -> None:
    with pytest.raises(SystemExit, match="no mesh here"):
        launch(3, f"{__name__}:exit_on_rank_one", None, transport, timeout=BOUND)


def leave_early(transport: Transport, when: str) -> None:
    """Rank 1 comes to its end while the other waits for it."""
    if when == "in a sum":
        total = transport.reduce(1, "int64")
        if transport.rank == 0:
            total.sum(np.zeros(1, np.int64))
    elif transport.rank == 0:
        transport.reduce(1, "int64")


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_rank_that_has_come_to_its_end_early_is_said_to_be_there(transport: str) -> None:
    with pytest.raises(
        TransportError, match=r"is in close while rank 0 is in allgather|is in allgather while"
    ):
        launch(2, f"{__name__}:leave_early", "before", transport, timeout=BOUND)


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_rank_that_waits_at_its_end_for_others_in_a_sum_says_so(transport: str) -> None:
    with pytest.raises(PeerError, match=r"3 s( for rank \d)?: (close, as this rank is at its end|reduce)"):
        launch(2, f"{__name__}:leave_early", "in a sum", transport, timeout=3.0)


@pytest.mark.mpi
@needs_mpi
def test_rank_killed_under_mpirun_is_named() -> None:
    with pytest.raises(
        PeerError, match=r"(rank 1|one of 2 processes) died: mpirun \(process \d+\) ended with exit code"
    ):
        launch(2, f"{__name__}:die", transport="mpi", timeout=BOUND)


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_error_of_one_rank_is_raised_with_its_type_and_rank(transport: str) -> None:
    with pytest.raises(InputError, match=r"topol.top:7: no such atom") as caught:
        launch(3, f"{__name__}:raise_on_rank_two", transport=transport)
    assert "raised on rank 2" in caught.value.__notes__


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_rank_busy_for_longer_than_the_time_out_is_awaited_by_patient_ones(transport: str) -> None:
    assert launch(2, f"{__name__}:write_files", False, transport, timeout=SHORT) == "met"


def test_rank_that_dies_ends_a_patient_wait() -> None:
    with pytest.raises(PeerError, match="rank 1"):
        launch(3, f"{__name__}:write_files", True, "shmem", timeout=SHORT)


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_ranks_in_different_collective_calls_are_named(transport: str) -> None:
    with pytest.raises(
        TransportError, match=r"is in (barrier|allgather) while rank \d is in (barrier|allgather)"
    ):
        launch(2, f"{__name__}:disagree", transport=transport)


def test_ranks_of_a_killed_launcher_die_with_it(tmp_path: Path) -> None:
    before = shared_memory()
    program = start_launcher(tmp_path, 3)
    program.kill()
    program.communicate()
    wait_until_gone(tmp_path)
    assert shared_memory() <= before


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_signal_to_the_launcher_reaches_the_ranks_once(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    program = start_launcher(tmp_path, 2)
    program.send_signal(number)
    _, text = program.communicate(timeout=BOUND)
    assert program.returncode == code, text
    errors = [(tmp_path / f"error{rank}").read_text().splitlines() for rank in range(2)]
    assert [len(lines) for lines in errors] == [1, 1]
    assert any(lines[0].startswith(("KeyboardInterrupt", "SystemExit")) for lines in errors)
    wait_until_gone(tmp_path)


def test_ranks_that_would_stall_the_machine_are_refused_with_a_number_that_would_not(monkeypatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(cores, "_QUOTA", Path("no quota"))
    with pytest.raises(ConfigError, match=r"129 ranks: .* 2 usable core\(s\); use at most 128, better 2"):
        launch(129, "os:getpid")


def test_rank_has_one_thread_of_linear_algebra_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert launch(1, "test_halo_deaths:variable", "OPENBLAS_NUM_THREADS") == "1"
    assert launch(1, "test_halo_deaths:variable", "OMP_NUM_THREADS") == "3"
