"""Temperatures that follow points in time, on a device: what follows from them changes where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pulsemd.base.units import BAR, BOLTZMANN
from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.update.cuda_programs import annealing_program


class Points(Protocol):
    """A `pulsemd.forcefield.annealing.Schedule`."""

    @property
    def periodic(self) -> bool: ...
    @property
    def times(self) -> tuple[float, ...]: ...
    @property
    def temperatures(self) -> tuple[float, ...]: ...


class GpuAnnealing:
    """Rewrites what follows from the temperatures of heat baths.

    Parameters
    ----------
    device : CudaDevice
    schedules : of each coupling group; None: its temperature stays
    begin, dt : float, ps
        Time of step 0 and of a step.
    control : device array, the record of `pulsemd.kernels.update.control`
    thermostats : device array, `UpdateConstants.thermostat_words`
        OUTPUT.
    noise, keep : (groups,) float64, device, or None
        Of stochastic dynamics; the first is an OUTPUT.
    kt : (1,) float64, device, or None
        OUTPUT: of a barostat, bar nm^3.
    fixed : bool
        Without contraction, as in reproducible mode.
    """

    def __init__(
        self,
        device: CudaDevice,
        schedules: Sequence[Points | None],
        begin: float,
        dt: float,
        control: Any,
        thermostats: Any,
        noise: Any,
        keep: Any,
        kt: Any,
        fixed: bool,
    ) -> None:
        rows = [
            np.zeros((0, 2)) if s is None else np.column_stack([s.times, s.temperatures]) for s in schedules
        ]
        first = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        periodic = np.array([s is not None and s.periodic for s in schedules])
        self._points = device.to_device(np.concatenate(rows), np.float64)
        self._first, self._periodic = device.to_device(first, np.int32), device.to_device(periodic, np.int32)
        self._numbers = (np.int32(len(schedules)), *(np.float64(x) for x in (begin, dt, BOLTZMANN)))
        self._outputs = thermostats, noise, keep, kt, np.float64(BAR)
        self._kernel, self._control = device.kernel(annealing_program(fixed), "anneal"), control
        self._bound: dict[int, Callable[[], None]] = {}

    def apply(self, offset: int) -> None:
        """Let the temperatures be those of a step, `offset` from the record's. Only launches."""
        if offset not in self._bound:
            tables = (self._control, np.int32(offset), self._points, self._first, self._periodic)
            self._bound[offset] = self._kernel.bind(1, 32, *tables, *self._numbers, *self._outputs)
        self._bound[offset]()
