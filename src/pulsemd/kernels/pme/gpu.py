"""Smooth particle-mesh Ewald on a device; the counterpart of `LatticeSum` for the ranks of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.halo.device.array_sum import ArraySum, open_array_sum
from pulsemd.kernels.pme.cuda_programs import LANES, THREADS, pme_program, spread_threads
from pulsemd.kernels.pme.mesh import Mesh
from pulsemd.kernels.pme.solvers import Launch, mesh_solver
from pulsemd.kernels.search.gpu_layout import Slots

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport


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
    solver : PlaneSolver or LibrarySolver

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
        self.device, self.shape, self.order, self._fixed = device, mesh.shape, mesh.order, fixed
        self._frame = device.to_device(mesh.frame, np.int32)
        self.stream = device.new_stream(priority=-1)
        several = transport is not None and transport.memory.n_processes > 1
        self.solver = mesh_solver(device, mesh, beta, fixed, self.stream)
        self._own_charges = self.solver.charges
        self._sum: ArraySum | None = None
        if transport is not None and several:
            self._sum = open_array_sum(transport, self.solver.charges, self.stream)
            self._own_charges = self._sum.own

    @property
    def box_constants(self) -> Any:
        """The struct ``Lattice`` of waves.cuh on the device."""
        return self.solver.lattice

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
        self.solver.bind(energy, virial)
        bound = [self._bind_rank(of_rank, f) for of_rank, f in zip(slots, forces, strict=True)]
        self._spread, self._gather = zip(*bound, strict=True)

    def _bind_rank(self, slots: Slots, forces: Any) -> tuple[Launch, Launch]:
        """What spreads the charges of a rank, and what adds the forces on them."""
        solver = self.solver
        extent = [np.int32(n) for n in (*self.shape, solver.row)]
        atoms = slots.x, slots.gid, np.int32(slots.capacity), slots.counters, self._frame
        lanes, threads = slots.capacity * LANES, spread_threads(self._fixed)
        spread = self._kernel("spread.cu", "spread_charges").bind(
            -(-lanes // threads), threads, *atoms, self._own_charges, *extent, stream=self.stream
        )
        gather = self._kernel("gather.cu", "gather_forces").bind(
            -(-lanes // THREADS),
            THREADS,
            *atoms,
            solver.potential,
            *extent,
            solver.lattice,
            forces,
            stream=self.stream,
        )
        return spread, gather

    def _kernel(self, file: str, name: str) -> Any:
        whole = self.shape[2] % 4 == 0
        return self.device.kernel(pme_program(file, self._fixed, self.order, whole), name)

    def find_potential(self, energies: bool) -> None:
        """Solve for the positions there are; with ``energies`` also add the sums. Only launches."""
        self.spread()
        self.sum_charges()
        self.solve(energies)

    def spread(self) -> None:
        """Put the charges of this process on its mesh."""
        if self._sum is None:
            self.solver.clear()
        for spread in self._spread:
            spread()

    def sum_charges(self) -> None:
        """Make the mesh that of the charges of all processes; waits for theirs on the device."""
        if self._sum is not None:
            self._sum.sum()

    def solve(self, energies: bool) -> None:
        """Make the charges the potential; with ``energies`` also add the sums."""
        self.solver.solve(energies)

    def add_forces(self) -> None:
        """Add the forces of the potential found. Only launches."""
        for gather in self._gather:
            gather()
