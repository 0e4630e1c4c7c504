"""From charges on the PME mesh to their potential, on a device: transforms and the solution between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.fft import RealTransform
from pulsemd.kernels.pme.cuda_programs import THREADS, PlaneShape, convert_program, solve_program
from pulsemd.kernels.pme.mesh import Mesh, wave_factors

Launch = Callable[[], None]


class _Waves:
    """What both solvers need of a mesh on a device: constants, and what splines do to each wave."""

    def __init__(self, device: CudaDevice, mesh: Mesh, beta: float, fixed: bool) -> None:
        real = np.float64 if fixed else np.float32
        volume = abs(float(np.linalg.det(mesh.box)))
        constants = [*np.linalg.inv(mesh.box).ravel(), (np.pi / beta) ** 2, 1.0 / (np.pi * volume)]
        self.lattice = device.to_device(np.array(constants))
        factors = [wave_factors(n, mesh.order) for n in mesh.shape]
        factors[2] = factors[2][: mesh.shape[2] // 2 + 1]
        self.factors = [device.to_device(f, real) for f in factors]


class PlaneSolver:
    """Three kernels, for meshes whose planes fit into shared memory; see transform.cu.

    Parameters
    ----------
    device : CudaDevice
    mesh : Mesh
    shape : PlaneShape
    beta : float, 1/nm
    fixed : bool
        As for `GpuLatticeSum`.
    stream : stream of the device, on which everything runs

    Attributes
    ----------
    row : int
        Complex numbers of a row of ``potential``.
    charges : (a, b, 2 row) float32 or (a, b, c) int64, device
        To be added to; zero after `solve`.
    potential : (a, b, 2 row) float32 or float64, device
        The first n_c numbers of each row.
    lattice : (11,) float64, device
        Constants of the lattice, the inverse of the box first.
    """

    def __init__(
        self,
        device: CudaDevice,
        mesh: Mesh,
        shape: PlaneShape,
        beta: float,
        fixed: bool,
        stream: Any,
    ) -> None:
        self._shape, self._waves, self._stream = shape, _Waves(device, mesh, beta, fixed), stream
        self.row, self.lattice = shape.row, self._waves.lattice
        a, b, c = mesh.shape
        real = np.float64 if fixed else np.float32
        self.potential = device.zeros((a, b, 2 * self.row), real)
        self.charges = (
            device.zeros((a, b, c), np.int64) if fixed else device.zeros((a, b, 2 * self.row), real)
        )
        roots = [np.exp(-2j * np.pi * np.arange(n) / n) for n in mesh.shape]
        self._roots = [device.to_device(np.stack([r.real, r.imag], -1), real) for r in roots]
        programs = shape.program(False), shape.program(True)

        def of_planes(name: str, *arrays: Any) -> Launch:
            launch: Launch = device.kernel(programs[0], name).bind(
                shape.n_a, shape.plane_threads, *arrays, *self._roots[1:], shared=shape.plane_bytes, stream=stream
            )  # fmt: skip
            return launch

        self._forward = of_planes("transform_planes", self.charges, self.potential)
        self._back = of_planes("restore_planes", self.potential)
        self._columns = [device.kernel(program, "solve_columns") for program in programs]

    def bind(self, energy: Any, virial: Any) -> None:
        """Take the sums of energy steps; see `GpuLatticeSum.settle_in`."""
        shape, waves = self._shape, self._waves
        arrays = self.potential, self._roots[0], waves.lattice, *waves.factors, energy, virial
        kernels = self._columns if energy is not None else self._columns[:1] * 2
        self.columns: list[Launch] = [
            kernel.bind(shape.column_blocks, shape.column_threads, *arrays, stream=self._stream)
            for kernel in kernels
        ]

    def clear(self) -> None:
        """Charges are zero already."""

    def solve(self, energies: bool) -> None:
        """Find the potential; with ``energies`` also add the sums. Only launches."""
        self._forward()
        self.columns[energies]()
        self._back()


class LibrarySolver:
    """Transforms of a library, for any mesh; parameters and attributes as for `PlaneSolver`."""

    def __init__(self, device: CudaDevice, mesh: Mesh, beta: float, fixed: bool, stream: Any) -> None:
        self._device, self._shape, self._fixed, self._stream = device, mesh.shape, fixed, stream
        self._waves = _Waves(device, mesh, beta, fixed)
        self._transform = RealTransform(device, mesh.shape, np.float64 if fixed else np.float32)
        self.row, self.lattice = self._transform.row, self._waves.lattice
        self.potential = self._transform.array
        room = int(np.prod(mesh.shape))
        room += room % 2  # whole vectors of 16 bytes
        self.charges = device.zeros(room, np.int64) if fixed else self.potential
        device.fork(stream)
        self._transform.forward(stream)  # loads what it needs, while no peer waits for this process
        self._transform.inverse(stream)
        device.join(stream)

    def bind(self, energy: Any, virial: Any) -> None:
        """Take the sums of energy steps; see `GpuLatticeSum.settle_in`."""
        a, b, c = self._shape
        extent = [np.int32(n) for n in (a, b, c, self.row)]
        arrays = self.potential, *extent, self._waves.lattice, *self._waves.factors, energy, virial
        blocks = self._blocks(a * b * (c // 2 + 1))
        self._solve: list[Launch] = [
            self._device.kernel(solve_program(self._fixed, wanted and energy is not None), "solve_mesh").bind(
                blocks, THREADS, *arrays, stream=self._stream
            )
            for wanted in (False, True)
        ]
        if self._fixed:
            self._convert: Launch = self._device.kernel(convert_program(), "convert_charges").bind(
                self._blocks(a * b * c), THREADS, self.charges, self.potential, np.int32(a * b), *extent[2:],
                stream=self._stream,
            )  # fmt: skip

    def _blocks(self, n: int) -> int:
        """Blocks for a loop over n elements: no more than run at once, for each adds to the same sums."""
        return min(-(-n // THREADS), 8 * self._device.n_multiprocessors)

    def clear(self) -> None:
        """Set the charges to zero, in stream order."""
        self.charges.data.memset_async(0, self.charges.nbytes, self._stream)

    def solve(self, energies: bool) -> None:
        """Find the potential; with ``energies`` also add the sums. Only launches."""
        if self._fixed:
            self._convert()
        self._transform.forward(self._stream)
        self._solve[energies]()
        self._transform.inverse(self._stream)


def mesh_solver(
    device: CudaDevice, mesh: Mesh, beta: float, fixed: bool, stream: Any
) -> PlaneSolver | LibrarySolver:
    """The solver for a mesh: our own transforms where they are the faster ones; parameters as for `PlaneSolver`."""
    shape = PlaneShape.of(mesh.shape, fixed, device.most_shared_bytes)
    if shape is None:
        return LibrarySolver(device, mesh, beta, fixed, stream)
    return PlaneSolver(device, mesh, shape, beta, fixed, stream)
