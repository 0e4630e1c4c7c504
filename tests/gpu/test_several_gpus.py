"""Two GPUs, one process each: every rung under the suite, a process that dies, the example."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pulsemd.base.errors import InputError, PeerError, TransportError
from pulsemd.device.cuda import count_devices, find_device_problem, processes_per_gpu
from pulsemd.halo import launch_gpus
from pulsemd.halo.conformance import ONE_PULSE
from pulsemd.halo.transport import wait_limit
from pulsemd.io.checkpoint import read_checkpoint
from rungs import skipped_where_missing

ROOT = Path(__file__).parents[2]
BOUND = 25.0


@pytest.fixture(autouse=True)
def _two_gpus() -> None:
    problem = find_device_problem()
    if problem is None:
        count = count_devices() * processes_per_gpu()
        problem = (
            None if count >= 2 else f"needs 2 GPUs, or PULSEMD_PROCESSES_PER_GPU=2; has {count_devices()}"
        )
    if problem is not None:
        pytest.skip(problem)


DELAYS = "delay pulse=1 us=50; delay rank=0 us=30"
BY_THE_DEVICE: dict[str, tuple[str, dict[str, Any]]] = {
    "nvshmem-fused": ("nvshmem-fused", {}),
    "nvshmem-pulse": ("nvshmem-pulse", {}),
    # Other processes are reached by puts and the own ranks by stores, in the same launches.
    "puts": ("nvshmem-fused", {"peer_pointers": False}),
    "delays": ("nvshmem-fused", {"faults": DELAYS}),
}
BY_THE_HOST = {rung: (rung, {}) for rung in ("nvshmem-stream", "nccl", "mpi")}
SUITES = BY_THE_DEVICE | BY_THE_HOST
CONFORM = "pulsemd.halo.rungs.conformance:conform_on_rungs"


@pytest.mark.gpu
@pytest.mark.parametrize("per_gpu", [4, 1])
@pytest.mark.parametrize("names", [tuple(BY_THE_DEVICE), tuple(BY_THE_HOST)], ids=["device", "host"])
def test_conformance_of_rungs_driven_by_device_or_host_passes(names: tuple[str, ...], per_gpu: int) -> None:
    """In 1, 2 and 3 dimensions; about ten seconds for a rung and eight ranks."""
    options = {"suites": {name: SUITES[name] for name in names}, "thorough": False, "brief": per_gpu > 1}
    found = launch_gpus(2, CONFORM, options, None, ranks_per_gpu=per_gpu, rungs=names)
    assert tuple(found) == names
    for name, (count, path) in found.items():
        if count == 0:
            assert f"--transport {SUITES[name][0]}" in path  # not installed here
        else:
            assert count >= 36, name
            assert ("puts" in path) == (name == "puts")


def exchange_until_killed(transport: Any, folder: str) -> None:
    """Process 1 dies in the middle of exchanges that the others wait for. Each leaves its number in a folder."""
    (Path(folder) / str(os.getpid())).touch()
    plans = [ONE_PULSE.plan((transport.size,), rank)[0] for rank in transport.ranks]
    rows = max(transport.each(lambda k, control: control.allgather(plans[k].n_local))[0])
    channel = transport.channel(plans, transport.allocate("x", rows, 4, "float32"))
    for turn in range(1_000_000):
        channel.forward()
        channel.reverse()
        if transport.ranks.start != 0 and turn == 200:
            os.kill(os.getpid(), signal.SIGKILL)
        if turn % 50 == 0:
            transport.check()


def _using_gpus() -> set[str]:
    """Numbers of the processes that use a GPU."""
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    return set(subprocess.run(query, capture_output=True, text=True).stdout.split())


@pytest.mark.gpu
@pytest.mark.parametrize("rung", ["nvshmem-fused", "nvshmem-stream", "nccl", "mpi"])
def test_process_killed_in_an_exchange_is_named_and_the_gpus_are_free(tmp_path: Path, rung: str) -> None:
    begin = time.monotonic()
    ending = r"died: mpirun \(process \d+\) ended" if rung == "mpi" else r"\(process \d+\) killed by SIGKILL"
    with skipped_where_missing(rung), pytest.raises(PeerError, match=f"^rank 1 {ending}") as caught:
        launch_gpus(2, f"{__name__}:exchange_until_killed", str(tmp_path), rung, timeout=10.0)
    assert caught.value.exit_code == 5
    assert time.monotonic() - begin < BOUND + 10.0
    processes = {path.name for path in tmp_path.iterdir()}
    assert len(processes) == 2
    assert not _using_gpus() & processes


def run_water(out: Path, *more: str, steps: int = 12_000) -> subprocess.Popen[str]:
    """A run with a checkpoint at every search."""
    flags = ("--precision", "reproducible", "--seed", "3", "--steps", str(steps), "--checkpoint-minutes", "0")
    command = [sys.executable, "-m", "pulsemd.cli.main", "run", "water", *flags, *more, "-o", str(out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.gpu
@pytest.mark.slow
def test_trajectories_on_all_rungs_and_numbers_of_ranks_have_the_hash_of_one_gpu() -> None:
    """2,000 steps with 50 searches on 1, 2, 4 and 8 ranks."""
    words = (
        "--gpus 2 --ranks-per-gpu 1 2 4 --grid 1x2x2 2x2x2 --atoms 6000 --nstlist 40 --check 2000 --repeats 0"
    )
    command = [sys.executable, "-m", "pulsemd.cli.main", "bench", "md", *words.split(), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    found = {(row["transport"], row["n_ranks"]): row["trajectory_hash"] for row in rows}
    for case, row in zip(found, rows, strict=True):
        assert found[case] or row["path"].startswith(f"failed: --transport {case[0]}"), row["path"]
    assert {("loopback", 1), *(("nvshmem-fused", n) for n in (2, 4, 8))} <= {c for c in found if found[c]}
    assert len(set(found.values()) - {""}) == 1, found


@pytest.mark.gpu
@pytest.mark.parametrize(("rung", "waits"), [("nvshmem-fused", 0), ("mpi", 12)])
def test_host_waits_of_a_step_with_three_pulses_are_reported(tmp_path: Path, rung: str, waits: int) -> None:
    where = "--device cuda --ranks 8 --ranks-per-gpu 4 --grid 2x2x2 --plan staged --transport"
    run = run_water(tmp_path, *where.split(), rung, steps=400)
    _, message = run.communicate()
    if run.returncode == TransportError.exit_code and f"--transport {rung}" in message:
        pytest.skip(message)  # the rung is not installed here
    assert run.returncode == 0, message
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["host_blocking_waits_per_step"] == waits
    assert 0.0 < summary["launch_share"] < 1.0


def finish(run: subprocess.Popen[str], out: Path) -> str:
    """Trajectory hash of a run that has to end well."""
    _, message = run.communicate()
    assert run.returncode == 0, message
    found: str = json.loads((out / "summary.json").read_text())["trajectory_hash"]
    return found


def children_of(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def last_saved(folder: Path) -> int:
    """Step of the last checkpoint; -1: none yet, or just being replaced."""
    try:
        return read_checkpoint(folder).step
    except InputError:
        return -1


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("per_gpu", [1, 4])
def test_a_rank_killed_at_a_random_step_stops_the_run_and_the_checkpoint_leads_to_the_same_end(
    tmp_path: Path, per_gpu: int
) -> None:
    two = ("--device", "cuda", "--ranks", str(2 * per_gpu), "--ranks-per-gpu", str(per_gpu))
    whole = finish(run_water(tmp_path / "whole", *two), tmp_path / "whole")
    run = run_water(tmp_path / "killed", *two)
    step = random.randrange(1, 3000)  # of 12,000: also on a busy machine the kill comes before the end
    while last_saved(tmp_path / "killed") < step:
        assert run.poll() is None, run.communicate()[1]
    time.sleep(random.uniform(0.0, 0.005))
    os.kill(children_of(run.pid)[1], signal.SIGKILL)
    begin = time.monotonic()
    _, message = run.communicate()
    assert run.returncode == 5, f"killed after step {step}: {message}"
    assert "killed by SIGKILL" in message
    assert time.monotonic() - begin < wait_limit(None) + 10.0
    rest = run_water(tmp_path / "rest", *two, "--restart", str(tmp_path / "killed"))
    assert finish(rest, tmp_path / "rest") == whole, f"killed after step {step}"


@pytest.mark.gpu
def test_more_processes_than_gpus_are_refused_with_the_remedy() -> None:
    with pytest.raises(TransportError, match="--ranks-per-gpu"):
        launch_gpus(5, f"{__name__}:exchange_until_killed", "", "nccl")


@pytest.mark.gpu
def test_stencil_on_two_gpus_equals_one_array() -> None:
    command = [sys.executable, str(ROOT / "examples" / "halo_stencil_gpu.py"), "--shape", "101", "64"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
