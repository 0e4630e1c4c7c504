"""Smooth particle-mesh Ewald on a device; the counterpart of `LatticeSum` for the ranks of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.fft import RealTransform
from pulsemd.halo.device.array_sum import ArraySum, open_array_sum
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

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

Launch = Callable[[], None]


class GpuLatticeSum:
    """Reciprocal-space energy, virial and forces of the charges in slots.

    Parameters
    ----------
    device : CudaDevice
    mesh : Mesh
    beta : float, 1/nm
    fixed : bool
        Charges on the mesh in int64 and everything else in float64 (reproducible mode), else float32.
    transport : GpuTransport, optional
        Of several processes, which add up their charges; then collective to make.

    Attributes
    ----------
    stream : stream of the device, on which everything runs

    Notes
    -----
    All ranks of a process have one mesh, and every process solves the whole of it. The Coulomb factor is in the
    charges of the slots. Energy and virial are without those of the uniform background of a net charge, see
    `background_energy`.
    """

    def __init__(
        self,
        device: CudaDevice,
        mesh: Mesh,
        beta: float,
        fixed: bool,
        transport: GpuTransport | None = None,
    ) -> None:
        shape, order, box = mesh.shape, mesh.order, mesh.box
        self.device, self.shape, self.order, self._fixed = device, shape, order, fixed
        self._frame = device.to_device(mesh.frame, np.int32)
        real = np.float64 if fixed else np.float32
        self._transform = RealTransform(device, shape, real)
        self.stream = device.new_stream(priority=-1)
        device.fork(self.stream)
        self._transform.forward(self.stream)  # loads what it needs, while no peer waits for this process
        self._transform.inverse(self.stream)
        device.join(self.stream)
        self._make_charges(transport)
        inverse, volume = np.linalg.inv(box), abs(float(np.linalg.det(box)))
        constants = [*inverse.ravel(), (np.pi / beta) ** 2, 1.0 / (np.pi * volume)]
        self._lattice = device.to_device(np.array(constants))
        half = shape[2] // 2 + 1
        factors = [wave_factors(n, order) for n in shape]
        factors[2] = factors[2][:half]
        self._factors = [device.to_device(f, real) for f in factors]

    def _make_charges(self, transport: GpuTransport | None) -> None:
        """The mesh that own charges go to, and the one that is transformed: the same for one process."""
        room = int(np.prod(self.shape))
        room += room % 2  # whole vectors of 16 bytes
        charges = self.device.zeros(room, np.int64) if self._fixed else self._transform.array
        self._charges = self._own_charges = charges
        self._sum: ArraySum | None = None
        if transport is not None and transport.memory.n_processes > 1:
            self._sum = open_array_sum(transport, charges, self.stream)
            self._own_charges = self._sum.own

    @property
    def box_constants(self) -> Any:
        """The struct ``Lattice`` of solve.cu on the device."""
        return self._lattice

    def settle_in(self, slots: Sequence[Slots], forces: Sequence[Any], energy: Any, virial: Any) -> None:
        """Take the slots of a search, the forces to add to, and the sums of energy steps.

        Parameters
        ----------
        slots : (K,) sequence of Slots
            Of each rank of this process.
        forces : (K,) sequence of (capacity, 4) float32 or int64, device
        energy, virial : (1,) and (9,) float64 or int64, device, or None
            The same sums of all processes; None where another process adds them.
        """
        extent = [np.int32(n) for n in (*self.shape, self._transform.row)]
        bound = [self._bind_rank(of_rank, f, extent) for of_rank, f in zip(slots, forces, strict=True)]
        self._spread, self._gather = zip(*bound, strict=True)
        plain = self._bind_solve(False, extent, energy, virial)
        self._solve = [plain, plain if energy is None else self._bind_solve(True, extent, energy, virial)]
        if self._fixed:
            rows = self.shape[0] * self.shape[1]
            self._convert = self.device.kernel(convert_program(), "convert_charges").bind(
                self._blocks(rows * self.shape[2]), THREADS, self._charges, self._transform.array, np.int32(rows),
                *extent[2:], stream=self.stream,
            )  # fmt: skip

    def _bind_rank(self, slots: Slots, forces: Any, extent: list[np.int32]) -> tuple[Launch, Launch]:
        """What spreads the charges of a rank, and what adds the forces on them."""
        atoms = slots.x, slots.gid, np.int32(slots.capacity), slots.counters, self._frame
        lanes, threads = slots.capacity * lanes_of(self.order), spread_threads(self._fixed, self.order)
        spread = self._kernel("spread.cu", "spread_charges").bind(
            -(-lanes // threads), threads, *atoms, self._own_charges, *extent, stream=self.stream
        )
        mesh = self._transform.array
        gather = self._kernel("gather.cu", "gather_forces").bind(
            -(-lanes // THREADS), THREADS, *atoms, mesh, *extent, self._lattice, forces, stream=self.stream
        )
        return spread, gather

    def _bind_solve(self, wanted: bool, extent: list[np.int32], energy: Any, virial: Any) -> Launch:
        waves = self.shape[0] * self.shape[1] * (self.shape[2] // 2 + 1)
        kernel = self.device.kernel(solve_program(self._fixed, wanted), "solve_mesh")
        return kernel.bind(
            self._blocks(waves), THREADS, self._transform.array, *extent, self._lattice, *self._factors, energy,
            virial, stream=self.stream,
        )  # fmt: skip

    def _kernel(self, file: str, name: str) -> Any:
        whole = self.shape[2] % 4 == 0
        return self.device.kernel(pme_program(file, self._fixed, self.order, whole), name)

    def _blocks(self, n: int) -> int:
        """Blocks for a loop over n elements: no more than run at once, for each adds to the same sums."""
        return min(-(-n // THREADS), 8 * self.device.n_multiprocessors)

    def find_potential(self, energies: bool) -> None:
        """Solve for the positions there are; with ``energies`` also add the sums. Only launches."""
        self.spread()
        self.sum_charges()
        self.solve(energies)

    def spread(self) -> None:
        """Put the charges of this process on its mesh."""
        if self._sum is None:
            charges = self._charges
            charges.data.memset_async(0, charges.nbytes, self.stream)
        for spread in self._spread:
            spread()

    def sum_charges(self) -> None:
        """Make the mesh that of the charges of all processes; waits for theirs on the device."""
        if self._sum is not None:
            self._sum.sum()

    def solve(self, energies: bool) -> None:
        """Make the charges the potential; with ``energies`` also add the sums."""
        if self._fixed:
            self._convert()
        self._transform.forward(self.stream)
        self._solve[energies]()
        self._transform.inverse(self.stream)

    def add_forces(self) -> None:
        """Add the forces of the potential found. Only launches."""
        for gather in self._gather:
            gather()
