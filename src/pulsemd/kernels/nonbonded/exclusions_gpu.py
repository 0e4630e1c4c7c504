"""Reaction field of excluded pairs on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.search.gpu_layout import Slots

_THREADS = 128


def exclusion_program(fixed: bool, energies: bool) -> CudaProgram:
    """Corrections of excluded pairs; `fixed`: int64 fixed point without contraction."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", _THREADS))
    headers = ("pulsemd.kernels.bonded",)
    return CudaProgram("pulsemd.kernels.nonbonded", "exclusions.cu", macros, exact=fixed, headers=headers)


class GpuExclusions:
    """Corrections of all excluded pairs of a system; they also clear the forces.

    Parameters
    ----------
    device : CudaDevice
    offset, partner : (n_atoms + 1,) int64, (k,) int32
        Excluded partners of each atom by global id; symmetric.
    charge : (n_atoms,) float64, e
    box : (3, 3) float64, nm
    constants : PairConstants
    fixed : bool
        int64 fixed point (reproducible mode).
    """

    def __init__(
        self,
        device: CudaDevice,
        offset: np.ndarray,
        partner: np.ndarray,
        charge: np.ndarray,
        box: np.ndarray,
        constants: PairConstants,
        fixed: bool,
    ) -> None:
        self.device = device
        self._offset, self._partner = device.to_device(offset, np.int64), device.to_device(partner, np.int32)
        self._charge = device.to_device(charge, np.float64)
        field = [constants.coulomb_factor, constants.k_rf, constants.c_rf, constants.cutoff**2]
        self._field = device.to_device(np.concatenate([np.ravel(box), field]))
        self._kernels = [
            device.kernel(exclusion_program(fixed, wanted), "exclusion_forces") for wanted in (False, True)
        ]

    def settle_in(self, slots: Slots, forces: Any, sums: Any) -> None:
        """Take the slots of a search, the forces to write, and the sums of energy steps.

        Parameters
        ----------
        slots : Slots
        forces : (capacity, 4) float32 or int64, device
        sums : (11,) float64 or int64, device: lj, coulomb, virial
        """
        grid, n = -(-slots.capacity // _THREADS), np.int32(slots.capacity)
        self._launch = [
            kernel.bind(
                grid, _THREADS, slots.x, slots.gid, n, slots.slot_of_gid, self._offset, self._partner,
                self._charge, self._field, forces, sums,
            )
            for kernel in self._kernels
        ]  # fmt: skip

    def start_forces(self, energies: bool) -> None:
        """Write the corrections into the forces of all slots, 0 where there are none; on request add the sums."""
        self._launch[energies]()
