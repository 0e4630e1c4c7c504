"""What a barostat on a GPU is told of a system, and the cell as the host reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pulsemd.base.units import BAR, BOLTZMANN
from pulsemd.device.cuda import CudaDevice
from pulsemd.engine.barostat import GROWTH, NOISE, SHRINKAGE, strain_message
from pulsemd.engine.cell import Cell
from pulsemd.engine.energies import N_SUMS, VIRIAL
from pulsemd.engine.lattice import is_along_user_box
from pulsemd.engine.system import System
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.pme.gpu import GpuLatticeSum
from pulsemd.kernels.pme.lattice_sum import background_energy
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.kernels.update.gpu_cell import BAROSTAT, CELL, Followers, GpuCell


def barostat_record(system: System, constants: PairConstants) -> np.ndarray:
    """The record `BAROSTAT` of a system."""
    s, isotropic = system.settings, system.settings.pcoupltype == "isotropic"
    found = np.zeros(1, BAROSTAT)
    found["soft"] = s.nstpcouple * s.dt / s.tau_p * np.array(s.compressibility)
    found["wanted"], found["noise"] = s.ref_p, NOISE[s.pcoupltype]
    found["kt"], found["seed"] = BOLTZMANN * s.ref_t * BAR, s.ld_seed
    found["lowest"], found["highest"] = 1.0 / (1.0 + SHRINKAGE), 1.0 + GROWTH
    found["isotropic"], found["stochastic"] = isotropic, s.pcoupl == "c-rescale"
    if constants.beta:
        charge = float(system.topology.charge.sum())
        found["background"] = background_energy(1.0, constants.beta, constants.coulomb_factor, charge)
    if system.dispersion is not None:
        found["dispersion_energy"] = system.dispersion.per_density
        found["dispersion_virial"] = system.dispersion.virial
    return found


def gpu_cell(
    device: CudaDevice,
    system: System,
    pairs: GpuPairForces,
    exclusions: GpuExclusions,
    bonded: GpuBonded,
    update: GpuUpdate,
    lattice: GpuLatticeSum | None,
    sums: Any,
    fixed: bool,
) -> GpuCell | None:
    """The cell of a rank on a device, with all that follows from it; None without a barostat.

    Parameters
    ----------
    sums : (N_SUMS + 9,) float64 or int64, device
        Sums over all ranks.
    """
    if system.settings.pcoupl == "no":
        return None
    mesh = None if lattice is None else lattice.box_constants
    followers = Followers(
        update.step_constants,
        exclusions.field,
        bonded.box,
        pairs.box_constants,
        mesh,
        is_along_user_box(system),
    )
    return GpuCell(
        device,
        barostat_record(system, pairs.constants),
        followers,
        update.control,
        sums[VIRIAL : VIRIAL + 9],
        sums[N_SUMS:],
        fixed,
    )


def cell_of(record: np.void) -> Cell:
    """The cell in a record `CELL`."""
    return Cell(record["box"].copy(), record["user_box"].copy())


def why_stopped(record: np.void) -> str:
    """Why the barostat of a record scales no more; '': it does."""
    return "" if record["stopped"] < 0 else strain_message(record["refused"], int(record["stopped"]))


def record_of(words: np.ndarray) -> np.void:
    """Words copied from the device, as the record `CELL`."""
    found: np.void = np.ascontiguousarray(words).view(CELL)[0]
    return found
