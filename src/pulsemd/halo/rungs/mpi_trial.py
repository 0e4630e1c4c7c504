"""Whether MPI can send from the memory of a GPU, found out by doing it in child processes that may crash.

``mpirun -n 2 python -m pulsemd.halo.rungs.mpi_trial`` sends 1 KiB between the GPUs of two processes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from pulsemd.base.errors import TransportError
from pulsemd.device.cuda import CudaDevice, load_cupy
from pulsemd.halo.mpirun import mpirun_command

SECONDS: Final = 40.0
_N_BYTES: Final = 1024
_OF_THE_JOB: Final = re.compile(
    r"PULSEMD_SHMEM|PMI_|PMIX_(?!MCA_)|PRTE_(?!MCA_)|OMPI_(?!MCA_)"
    r"|OMPI_MCA_(ess|orte_|pmix|initial_wdir|shmem_RUNTIME)|PRTE_MCA_(ess|prte_)"
)
"""Variables by which mpirun describes the job that this process belongs to; the others are a user's settings."""


@cache
def find_mpi_problem(n_processes: int) -> str | None:
    """Why MPI cannot send from a GPU to another here; None if it can. Takes a few seconds, once."""
    if n_processes == 1:
        return None
    try:
        command, extra = mpirun_command(2)
    except TransportError as error:
        return f"not tried: {error}"
    command += [sys.executable, "-m", __name__]
    environment = {name: value for name, value in os.environ.items() if not _OF_THE_JOB.match(name)}
    environment |= extra | {"PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path)}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a send of {_N_BYTES} bytes between two GPUs did not end within {SECONDS:g} s"
    if done.returncode == 0 and done.stdout.count("arrived") == 2:
        return None
    signs = ("rror", "failed", "egmentation", "wrong")
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    found = next((line for line in lines if any(sign in line for sign in signs)), f"code {done.returncode}")
    return f"a send of {_N_BYTES} bytes between two GPUs failed: {found[:200]}"


def main() -> int:
    """One of the two processes."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    device = CudaDevice(world.rank % int(load_cupy().cuda.runtime.getDeviceCount()))
    sent = device.full(_N_BYTES, world.rank + 1, np.uint8)
    received = device.zeros(_N_BYTES, np.uint8)
    device.synchronize()
    peer = 1 - world.rank
    MPI.Request.Waitall([world.Irecv(received, peer), world.Isend(sent, peer)])
    whole = bool((device.to_host(received) == peer + 1).all())
    print("arrived" if whole else "wrong bytes arrived", flush=True)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
