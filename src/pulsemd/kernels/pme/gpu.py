"""Smooth particle-mesh Ewald on a device; the counterpart of `LatticeSum` for the one rank of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.fft import RealTransform
from pulsemd.kernels.pme.cuda_programs import (
    THREADS,
    convert_program,
    lanes_of,
    pme_program,
    solve_program,
    spread_threads,
)
from pulsemd.kernels.pme.mesh import Mesh, wave_factors
from pulsemd.kernels.search.gpu_layout import Slots


class GpuLatticeSum:
    """Reciprocal-space energy, virial and forces of the charges in slots.

    Parameters
    ----------
    device : CudaDevice
    mesh : Mesh
    beta : float, 1/nm
    fixed : bool
        Charges on the mesh in int64 and everything else in float64 (reproducible mode), else float32.

    Notes
    -----
    The Coulomb factor is in the charges of the slots. Energy and virial are without those of the uniform background
    of a net charge, see `background_energy`.
    """

    def __init__(
        self,
        device: CudaDevice,
        mesh: Mesh,
        beta: float,
        fixed: bool,
    ) -> None:
        shape, order, box = mesh.shape, mesh.order, mesh.box
        self.device, self.shape, self.order, self._fixed = device, shape, order, fixed
        self._frame = device.to_device(mesh.frame, np.int32)
        real = np.float64 if fixed else np.float32
        self._transform = RealTransform(device, shape, real)
        self._charges = device.zeros(shape, np.int64) if fixed else self._transform.array
        inverse, volume = np.linalg.inv(box), abs(float(np.linalg.det(box)))
        constants = [*inverse.ravel(), (np.pi / beta) ** 2, 1.0 / (np.pi * volume)]
        self._lattice = device.to_device(np.array(constants))
        half = shape[2] // 2 + 1
        factors = [wave_factors(n, order) for n in shape]
        factors[2] = factors[2][:half]
        self._factors = [device.to_device(f, real) for f in factors]

    def settle_in(self, slots: Slots, forces: Any, energy: Any, virial: Any, stream: Any) -> None:
        """Take the slots of a search, the forces to add to, and the sums of energy steps.

        Parameters
        ----------
        slots : Slots
        forces : (capacity, 4) float32 or int64, device
        energy, virial : (1,) and (9,) float64 or int64, device
        stream : stream of the device, on which everything runs
        """
        self._stream = stream
        mesh = self._transform.array
        extent = [np.int32(n) for n in (*self.shape, self._transform.row)]
        atoms = slots.x, slots.gid, np.int32(slots.capacity), self._frame
        lanes, threads = slots.capacity * lanes_of(self.order), spread_threads(self._fixed, self.order)
        self._spread = self._kernel("spread.cu", "spread_charges").bind(
            -(-lanes // threads), threads, *atoms, self._charges, *extent, stream=stream
        )
        self._gather = self._kernel("gather.cu", "gather_forces").bind(
            -(-lanes // THREADS), THREADS, *atoms, mesh, *extent, self._lattice, forces, stream=stream
        )
        self._solve = [
            self._bind_solve(wanted, mesh, extent, energy, virial, stream) for wanted in (False, True)
        ]
        if self._fixed:
            rows = self.shape[0] * self.shape[1]
            self._convert = self.device.kernel(convert_program(), "convert_charges").bind(
                self._blocks(rows * self.shape[2]), THREADS, self._charges, mesh, np.int32(rows), *extent[2:],
                stream=stream,
            )  # fmt: skip

    def _bind_solve(
        self, wanted: bool, mesh: Any, extent: list[np.int32], energy: Any, virial: Any, stream: Any
    ) -> Callable[[], None]:
        waves = self.shape[0] * self.shape[1] * (self.shape[2] // 2 + 1)
        kernel = self.device.kernel(solve_program(self._fixed, wanted), "solve_mesh")
        return kernel.bind(
            self._blocks(waves), THREADS, mesh, *extent, self._lattice, *self._factors, energy, virial,
            stream=stream,
        )  # fmt: skip

    def _kernel(self, file: str, name: str) -> Any:
        whole = self.shape[2] % 4 == 0
        return self.device.kernel(pme_program(file, self._fixed, self.order, whole), name)

    def _blocks(self, n: int) -> int:
        """Blocks for a loop over n elements: no more than run at once, for each adds to the same sums."""
        return min(-(-n // THREADS), 8 * self.device.n_multiprocessors)

    def find_potential(self, energies: bool) -> None:
        """Solve for the positions there are; with ``energies`` also add the sums. Only launches."""
        charges = self._charges
        charges.data.memset_async(0, charges.nbytes, self._stream)
        self._spread()
        if self._fixed:
            self._convert()
        self._transform.forward(self._stream)
        self._solve[energies]()
        self._transform.inverse(self._stream)

    def add_forces(self) -> None:
        """Add the forces of the potential found. Only launches."""
        self._gather()
