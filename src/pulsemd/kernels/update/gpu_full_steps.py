"""Velocities of full steps on a device, of velocity Verlet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.cuda_programs import (
    GROUP_THREADS,
    MOVE_THREADS,
    full_steps_program,
    rattle_program,
)


class GpuFullSteps:
    """Velocities beside those of half a step before, for what only looks at them.

    Parameters
    ----------
    device : CudaDevice
    fixed : bool
        int64 fixed-point forces and sums.

    Attributes
    ----------
    velocities : (capacity, 4) float32, device
        In slots; found by `begin` and the launches that `bind_atoms` and `bind_groups` give. Keeps its address until
        the capacity changes.
    """

    def __init__(self, device: CudaDevice, fixed: bool) -> None:
        self._device, self._fixed = device, fixed
        self.velocities: Any = None

    def make_room(self, capacity: int) -> None:
        """Take an array for another capacity."""
        self.velocities = self._device.zeros((capacity, 4), np.float32)

    def begin(self, velocities: Any) -> None:
        """Begin from velocities of half a step before; does not wait."""
        self.velocities.data.copy_from_device_async(velocities.data, velocities.nbytes, self._device.stream)

    def bind_atoms(
        self, velocities: Any, slots: Slots, f: Any, n_sites: int, rows: tuple[Any, ...], virial: Any
    ) -> Callable[[], None]:
        """A launch that completes velocities (capacity, 4) of rigid waters and free atoms.

        Parameters
        ----------
        f : (capacity, 4) float32 or int64, device
        n_sites : int, virtual sites of each water
        rows : the arguments of full_steps.cu from ``waters`` to ``step``, then from ``counts`` on
        virial : (9,) float64 or int64, device, or None
            OUTPUT, taken from: of the constraint forces in this half of a step.
        """
        before, after = rows[:7], rows[7:]
        threads = int(before[1]) + int(before[4])
        kernel = self._device.kernel(
            full_steps_program(self._fixed, virial is not None, n_sites), "complete_velocities"
        )
        blocks = max(1, -(-threads // MOVE_THREADS))
        return kernel.bind(blocks, MOVE_THREADS, slots.x, velocities, f, *before, virial, *after)

    def bind_groups(
        self,
        slots: Slots,
        velocities: Any,
        f: Any,
        mass: Any,
        step: Any,
        virial: Any,
        largest: int,
        groups: tuple[Any, ...],
    ) -> Callable[[], None]:
        """The same for constrained groups.

        Parameters
        ----------
        largest : one of `GROUP_SIZES`
        groups : offsets, atoms, offsets of pairs and pairs, int32, device
        """
        program = rattle_program(self._fixed, virial is not None, largest)
        offset, *others = groups
        n = len(offset) - 1
        return self._device.kernel(program, "complete_groups").bind(
            -(-n // GROUP_THREADS), GROUP_THREADS, slots.x, velocities, f, offset, np.int32(n), *others,
            slots.slot_of_gid, mass, step, virial, np.int32(slots.capacity), slots.counters,
        )  # fmt: skip
