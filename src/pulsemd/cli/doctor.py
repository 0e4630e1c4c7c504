"""``pulsemd doctor``: what works on this machine, and why the rest does not."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pulsemd.base.cores import usable_cores
from pulsemd.base.errors import PulseMDError
from pulsemd.base.version import VERSION
from pulsemd.device.cuda import count_devices, describe_devices, find_device_problem, processes_per_gpu
from pulsemd.halo.launch import launch_gpus
from pulsemd.halo.mpirun import find_mpi_problem
from pulsemd.halo.rungs.ladder import LADDER, open_rung

_PACKAGES = (
    "numpy",
    "numba",
    "mpi4py",
    "cuda-core",
    "cupy-cuda13x",
    "nvshmem4py-cu13",
    "nvidia-nvshmem-cu13",
)


def doctor(args: argparse.Namespace) -> int:
    """Print what works; 0 whatever it is."""
    found: dict[str, str] = {"pulsemd": f"{VERSION}, Python {platform.python_version()}"}
    found["processor"] = f"{usable_cores()} usable cores"
    found["packages"] = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    found["MPI ranks"] = _works(find_mpi_problem())
    problem = find_device_problem()
    found["GPUs"] = describe_devices() if problem is None else f"no: {problem}"
    if problem is None:
        found |= _gpu_rungs()
    if args.json:
        print(json.dumps(found))
    else:
        width = max(map(len, found))
        print("\n".join(f"{name.ljust(width)}  {text}" for name, text in found.items()))
    return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _works(problem: str | None) -> str:
    return "yes" if problem is None else f"no: {problem}"


def _gpu_rungs() -> dict[str, str]:
    """Each rung of the ladder between the GPUs of this machine, tried."""
    count = count_devices() * processes_per_gpu()
    if count < 2:
        return {"between GPUs": "nothing to try: this machine has one GPU"}
    try:
        tried: dict[str, str] = launch_gpus(count, f"{__name__}:try_rungs", transport=None)
    except PulseMDError as error:
        return {"between GPUs": f"no: {error}"}
    return tried


def try_rungs(world: Any, payload: Any) -> dict[str, str]:
    """Open each rung in a world; a target of `launch_gpus`."""
    return {name: _try(lambda name=name: open_rung(world, name)) for name in LADDER}  # type: ignore[misc]


def _try(open_: Callable[[], Any]) -> str:
    try:
        transport = open_()
    except PulseMDError as error:
        return f"no: {error}"
    reasons = "; ".join(getattr(transport, "reasons", ()))
    return f"yes, {transport.path}" + (f" ({reasons})" if reasons else "")
