"""What a search on the device is told of a rank's domain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.device.cuda import CudaDevice
from pulsemd.domain.grid import Grid, lattice_halo
from pulsemd.domain.lattice import LATTICE
from pulsemd.domain.plan import LocalDomain
from pulsemd.kernels.search.gpu_grid import Region


def region_of(grid: Grid, rank: int, box: NDArray[np.float64], r_list: float, halo_width: float) -> Region:
    """The cell of a rank and the shell of its ghosts.

    Parameters
    ----------
    box : (3, 3) float64, nm
    r_list, halo_width : float, nm
        The halo is at least the list cut-off and twice the reach of an update group.
    """
    cell = grid.cell_of_rank(rank)
    lower, width = [], []
    for bounds, c in zip(grid.bounds, cell, strict=True):
        lower.append(bounds[c] % LATTICE)
        width.append(bounds[c + 1] - bounds[c])
    return Region(
        (lower[0], lower[1], lower[2]),
        (width[0], width[1], width[2]),
        lattice_halo(halo_width, box),
        grid.split_dims,
        0.5 * (halo_width - r_list),
    )


def device_leaders(device: CudaDevice, domain: LocalDomain) -> Any:
    """(n_local, 4) int32 on the device: leader of each row and its home bits."""
    rows = np.empty((domain.n_local, 4), np.int32)
    rows[:, :3], rows[:, 3] = domain.leader_x, domain.home
    return device.to_device(rows)
