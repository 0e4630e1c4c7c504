"""Portions of coupling groups on a device."""

from __future__ import annotations

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.update.portions import Portions

PORTION = np.dtype([("mass", "<f8"), ("bath", "<i4"), ("held", "<i4"), ("velocity", "<f8", 3)])
"""The struct ``Portion`` of portions.cuh."""


class GpuPortions:
    """Portions in device memory, at most `MAX_PORTIONS`.

    Attributes
    ----------
    n : int
    of_atom : (n_atoms,) int32, device
    table : (5 n,) int64, device
        Records `PORTION`.
    """

    def __init__(self, device: CudaDevice, portions: Portions) -> None:
        self.n = len(portions.mass)
        self.of_atom = device.to_device(portions.of_atom, np.int32)
        table = np.zeros(self.n, PORTION)
        table["mass"], table["bath"], table["held"] = portions.mass, portions.bath, portions.held
        self.table = device.to_device(table.view(np.int64))
