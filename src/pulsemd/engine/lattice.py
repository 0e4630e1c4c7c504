"""The reciprocal-space part of PME in the engine: the mesh of a system, and a rank's share of the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.base.fixed_point import ENERGY_SCALE
from pulsemd.device.cuda import CudaDevice
from pulsemd.engine.cell import Cell
from pulsemd.engine.energies import SLOTS, VIRIAL
from pulsemd.engine.system import System
from pulsemd.halo import Transport
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.pme.gpu import GpuLatticeSum
from pulsemd.kernels.pme.lattice_sum import LatticeSum, background_energy
from pulsemd.kernels.pme.mesh import Mesh, mesh_size
from pulsemd.kernels.search.gpu_layout import Slots

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

MOST_SKEWED = 1.2
"""How much more skewed than the run's box that of the files may be for the mesh to be along its vectors, as in gmx."""


def system_mesh(system: System, on_gpu: bool = False) -> Mesh:
    """The PME mesh of a system: along the vectors of the files' box, unless those of the run are much shorter.

    Sizes are those of the box that the run began with, so that a continued run has the same mesh.
    On a GPU the next finer one where that of gmx transforms slowly.

    Raises
    ------
    InputError
        If sizes are given for vectors that the mesh is not along.
    """
    s = system.settings
    given = (s.fourier_nx, s.fourier_ny, s.fourier_nz)
    box, frame, first = system.user_box, system.frame, system.first_box
    if not is_along_user_box(system):
        if any(given):
            raise InputError(
                f"fourier-nx, -ny, -nz = {given}: the vectors of this box are much longer than they need be, "
                "and the mesh is along shorter ones; leave the sizes out and set fourierspacing"
            )
        box, frame, first = system.box, np.eye(3, dtype=np.int64), system.frame @ first
    return Mesh(mesh_size(first, s.fourierspacing, s.pme_order, given, on_gpu), s.pme_order, box, frame)


def is_along_user_box(system: System) -> bool:
    """Whether the PME mesh is along the vectors of the files' box, else along those of the run's."""
    return _skewness(system.first_box) <= MOST_SKEWED * _skewness(system.frame @ system.first_box)


def _skewness(box: NDArray[np.float64]) -> float:
    """Product of the lengths of the vectors over the volume, 1 for a rectangular box."""
    return float(np.prod(np.linalg.norm(box, axis=1)) / abs(np.linalg.det(box)))


def add_background(sums: NDArray[Any], system: System, constants: PairConstants, volume: float) -> None:
    """Add energy and virial of the background of a net charge, in a volume in nm^3, to the sums (N_SUMS,) float64 or
    int64."""
    charge = float(system.topology.charge.sum())
    energy = background_energy(volume, constants.beta, constants.coulomb_factor, charge)
    share = np.rint(energy * ENERGY_SCALE).astype(np.int64) if sums.dtype == np.int64 else energy
    sums[SLOTS["coulomb_recip"]] += share
    sums[VIRIAL : VIRIAL + 9 : 4] += share


def gpu_lattice_sum(
    device: CudaDevice,
    system: System,
    constants: PairConstants,
    fixed: bool,
    transport: GpuTransport | None = None,
) -> GpuLatticeSum | None:
    """The lattice sum of a system on a device, in fixed point if asked for; None for other electrostatics."""
    if not constants.beta:
        return None
    mesh = system_mesh(system, on_gpu=True)
    return GpuLatticeSum(device, mesh, constants.beta, fixed, transport)


def settle_lattice(
    lattice: GpuLatticeSum, slots: Sequence[Slots], forces: Sequence[Any], sums: Any | None
) -> None:
    """Let a lattice sum on a device refer to the atoms and forces of each rank of its process, and add its energy and
    virial to ``sums`` (at least N_SUMS,), if given."""
    energy = virial = None
    if sums is not None:
        energy, virial = sums[SLOTS["coulomb_recip"] :][:1], sums[VIRIAL : VIRIAL + 9]
    lattice.settle_in(slots, forces, energy, virial)


class LatticeForces:
    """What a rank does for the lattice sum: its charges go onto the mesh, all ranks solve the sum of their meshes.

    Every rank holds and solves the whole mesh. Charges on it are integers, so the sum, and with it energies and
    forces, are the same for any number of ranks.

    Parameters
    ----------
    transport : Transport
    system : System
    constants : PairConstants
    """

    def __init__(self, transport: Transport, system: System, constants: PairConstants) -> None:
        self._first = transport.rank == 0
        self._along_user_box = is_along_user_box(system)
        self.sum = LatticeSum(
            system_mesh(system),
            constants.beta,
            constants.coulomb_factor,
            float(system.topology.charge.sum()),
        )
        self._everywhere = transport.reduce(self.sum.charges.size, np.int64)

    def rescale(self, cell: Cell) -> None:
        """Take another cell; the mesh stays along the same vectors."""
        mesh = self.sum.mesh
        self.sum.set_mesh(replace(mesh, box=cell.user_box if self._along_user_box else cell.box))

    def add(
        self,
        x: NDArray[np.int32],
        charge: NDArray[np.float64],
        forces: NDArray[Any],
        sums: NDArray[Any] | None,
    ) -> None:
        """Add the forces on a rank's owned atoms; collective.

        Parameters
        ----------
        x : (n_owned, 3) int32, lattice units
        charge : (n_owned,) float64, e
        forces : (n_owned, 3) float32 kJ/mol/nm, or int64 fixed point
            OUTPUT, added to.
        sums : (N_SUMS,) float64 or int64; optional
            OUTPUT, added to, on rank 0: energy and virial of all ranks.
        """
        lattice = self.sum
        lattice.spread(x, charge)
        charges = lattice.charges
        charges[...] = self._everywhere.sum(charges.ravel()).reshape(charges.shape)
        found = lattice.solve(sums is not None)
        lattice.add_forces(x, charge, forces)
        if found is not None and sums is not None and self._first:
            if sums.dtype == np.int64:
                found = np.rint(found * ENERGY_SCALE).astype(np.int64)
            sums[SLOTS["coulomb_recip"]] += found[0]
            sums[VIRIAL : VIRIAL + 9] += found[1:]
