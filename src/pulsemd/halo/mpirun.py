"""The command that starts MPI ranks on this machine."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from pulsemd.base.errors import TransportError

_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
"""Open MPI 4 and 5: run as root (containers), more ranks than cores, no binding; other MPIs ignore it."""

_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGTERM)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def find_mpi_problem() -> str | None:
    """Why MPI ranks cannot be started here; None if they can, as far as files tell."""
    try:
        mpirun_command(1)
    except TransportError as error:
        return str(error)
    return None


def mpirun_command(n_ranks: int) -> tuple[list[str], dict[str, str]]:
    """Command that starts what follows it on ``n_ranks`` ranks, and the environment it needs.

    The launcher beside the interpreter is taken first: it fits the mpi4py beside it. It ends with this process.

    Raises
    ------
    TransportError
        If mpi4py or an MPI launcher is missing; says how to get them.
    """
    remedy = "pip install 'pulsemd[mpi]', or start the program under your own mpirun or srun"
    if find_spec("mpi4py") is None:
        raise TransportError(f"mpi: mpi4py is not installed; {remedy}")
    beside = str(Path(sys.executable).parent)
    found = [shutil.which(name, path=path) for path in (beside, None) for name in ("mpirun", "mpiexec")]
    for launcher in found:
        if launcher:
            return [sys.executable, "-c", _DIE_WITH_PARENT, launcher, "-n", str(n_ranks)], dict(_ENVIRONMENT)
    raise TransportError(f"mpi: no mpirun or mpiexec on PATH; {remedy}")
