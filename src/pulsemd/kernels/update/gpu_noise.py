"""Friction and noise of stochastic dynamics on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.update.cuda_programs import SUM_THREADS, noise_program
from pulsemd.kernels.update.noise import Bath, normal_table


class GpuNoise:
    """What a bath adds to velocities, which then moves atoms for half a step.

    Parameters
    ----------
    device : CudaDevice
    bath : Bath
    fixed : bool
        int64 fixed-point forces.

    Attributes
    ----------
    keep, widths : (groups,) float64, device, `Bath.keep` and `Bath.noise`
    added : (capacity, 4) float32, device
        In slots.
    no_forces : (capacity, 4) float32 or int64, device, of that half step
    """

    def __init__(self, device: CudaDevice, bath: Bath, fixed: bool) -> None:
        self._device, self._seed, self._program = device, np.int64(bath.seed), noise_program(fixed)
        tables = (bath.keep, bath.noise, normal_table())
        self.keep, self.widths, normal = (device.to_device(table, np.float64) for table in tables)
        self._tables = (device.to_device(bath.group, np.int32), self.keep, self.widths, normal)
        self.added: Any = None
        self.no_forces: Any = None

    def make_room(self, capacity: int, force_type: Any) -> None:
        """Take arrays for another capacity."""
        self.added = self._device.zeros((capacity, 4), np.float32)
        self.no_forces = self._device.zeros((capacity, 4), force_type)

    def bind(self, velocities: Any, gid: Any, mass: Any, control: Any, offset: int) -> Callable[[], None]:
        """A launch that finds what is added to velocities (capacity, 4) in a step, `offset` from the record's."""
        n = len(velocities)
        return self._device.kernel(self._program, "friction_and_noise").bind(
            -(-n // SUM_THREADS), SUM_THREADS, velocities, self.added, np.int32(n), gid, mass, *self._tables,
            self._seed, control, np.int32(offset),
        )  # fmt: skip

    def bind_add(self, velocities: Any) -> Callable[[], None]:
        """A launch that adds it."""
        n = len(velocities)
        return self._device.kernel(self._program, "add_to_velocities").bind(
            -(-n // SUM_THREADS), SUM_THREADS, velocities, self.added, np.int32(n)
        )
