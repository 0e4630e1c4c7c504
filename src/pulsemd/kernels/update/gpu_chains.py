"""Chains of Nose and Hoover's thermostats on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice

_CHAINS = np.dtype(
    [
        ("length", "<i8"),
        ("first_step", "<i8"),
        ("interval", "<f8"),
        ("inverse_mass", "<u8"),
        ("kt", "<u8"),
        ("variables", "<u8"),
    ]
)
"""The struct ``Chains`` of chains.cuh."""


@dataclass(frozen=True, eq=False)
class ChainTable:
    """What does not change of the chains in a run.

    Parameters
    ----------
    inverse_mass : (groups, length) float64, 1/(kJ/mol ps^2); 0: the group is not coupled
    kt : (groups,) float64, kJ/mol
    interval : float, ps, of coupling
    first_step : int
        Of a run that nothing came before; -1: something did.
    """

    inverse_mass: np.ndarray
    kt: np.ndarray
    interval: float
    first_step: int


class GpuChains:
    """The variables of chains, which kinetic.cu advances.

    Parameters
    ----------
    device : CudaDevice
    table : ChainTable

    Attributes
    ----------
    variables : (groups, length, 2) float64, device
        `xi` and `friction` of each thermostat.
    record : (6,) int64, device
        The struct ``Chains`` of chains.cuh.
    """

    def __init__(self, device: CudaDevice, table: ChainTable) -> None:
        self._device = device
        self._inverse_mass = device.to_device(table.inverse_mass, np.float64)
        self._kt = device.to_device(table.kt, np.float64)
        self.variables = device.zeros((*table.inverse_mass.shape, 2), np.float64)
        record = np.zeros(1, _CHAINS)
        record["length"], record["first_step"] = table.inverse_mass.shape[1], table.first_step
        record["interval"] = table.interval
        arrays = {"inverse_mass": self._inverse_mass, "kt": self._kt, "variables": self.variables}
        for name, array in arrays.items():
            record[name] = int(array.data.ptr)
        self.record = device.to_device(record.view(np.int64))

    def put(self, xi: np.ndarray, friction: np.ndarray) -> None:
        """Take the variables of all thermostats, one group after the other; does not wait."""
        found = np.stack([xi, friction], axis=1).reshape(self.variables.shape)
        self.variables.set(found, stream=self._device.stream)

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """The same; waits for the device."""
        found: Any = self._device.to_host(self.variables).reshape(-1, 2)
        return found[:, 0], found[:, 1]
