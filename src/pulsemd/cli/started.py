"""Whether mpirun or srun started this process, from what they leave in the environment."""

from __future__ import annotations

import os

_RANK_AND_SIZE = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


def started_as() -> tuple[int, int] | None:
    """(rank, size) given by mpirun (Open MPI, MPICH) or srun; None outside of them."""
    for rank, size in _RANK_AND_SIZE:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return None
