"""What a barostat on a GPU is told of a system, and the cell as the host reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pulsemd.base.units import BAR, BOLTZMANN
from pulsemd.device.cuda import CudaDevice
from pulsemd.engine.barostat import AXES, GROWTH, NOISE, SHRINKAGE, of_axes, strain_message
from pulsemd.engine.cell import Cell
from pulsemd.engine.coupling import StepFlags
from pulsemd.engine.energies import N_SUMS, VIRIAL
from pulsemd.engine.extended import box_softness
from pulsemd.engine.gpu_part import DevicePart
from pulsemd.engine.lattice import is_along_user_box
from pulsemd.engine.system import Continuation, System
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.pme.gpu import GpuLatticeSum
from pulsemd.kernels.pme.lattice_sum import background_energy
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.kernels.update.gpu_cell import BAROSTAT, Followers, GpuCell


def barostat_record(system: System, constants: PairConstants) -> np.ndarray:
    """The record `BAROSTAT` of a system."""
    s, found = system.settings, np.zeros(1, BAROSTAT)
    found["soft"] = s.nstpcouple * s.dt / s.tau_p * of_axes(s, s.compressibility)
    found["wanted"], found["noise"] = of_axes(s, s.ref_p), NOISE[s.pcoupltype]
    found["kt"], found["seed"] = BOLTZMANN * s.baths[0].ref_t * BAR, s.ld_seed
    found["lowest"], found["highest"] = 1.0 / (1.0 + SHRINKAGE), 1.0 + GROWTH
    found["interval"] = s.nstpcouple * s.dt
    if s.pcoupl == "parrinello-rahman":
        found["mass"] = box_softness(s)
    found["axis"], found["stochastic"] = AXES[s.pcoupltype], s.pcoupl == "c-rescale"
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
        update.kinetic.group,
    )


def cells_of_parts(
    system: System, parts: Sequence[DevicePart], lattice: GpuLatticeSum | None, totals: Any, fixed: bool
) -> DeviceCells:
    """The cell of each rank of a process, which all scale alike, from sums over all ranks on the device."""
    for part in parts:
        mesh = lattice if part is parts[0] else None
        kernels = part.pairs, part.exclusions, part.bonded, part.update, mesh
        part.cell = gpu_cell(part.device, system, *kernels, totals, fixed)
    return DeviceCells(system, [part.cell for part in parts])


class DeviceCells:
    """The cell of a run as a process holds it: on the device, once for each of its ranks, or fixed.

    Parameters
    ----------
    system : System
    cells : sequence of GpuCell or None
        Of each rank, which are all alike; None without a barostat.

    Attributes
    ----------
    strained : str
        Why the barostat stopped scaling the box, as far as the host has heard; '': it did not.
    """

    def __init__(self, system: System, cells: Sequence[GpuCell | None]) -> None:
        self._system, self._cells = system, [cell for cell in cells if cell is not None]
        self.strained = ""
        for cell in self._cells:
            cell.put(system.box, system.user_box)

    @property
    def words(self) -> tuple[Any, ...]:
        """Device arrays that say what the cell is: one, or none without a barostat."""
        return tuple(cell.record for cell in self._cells[:1])

    @property
    def works(self) -> tuple[Any, ...]:
        """Work of the barostat so far, of each rank here, in device memory."""
        return tuple(cell.work for cell in self._cells)

    def begin_list(self) -> Cell:
        """The cell of a search that begins; waits for the device if there is a barostat."""
        if not self._cells:
            return self._system.cell
        record = self._cells[0].read()
        self._note(record)
        for cell in self._cells:
            cell.begin_list()
        return _cell_of(record)

    def put(self, earlier: Continuation, searched: Cell) -> None:
        """Go on as a checkpoint has it, with the pair list of another cell."""
        cell, rates = earlier.cell, earlier.extended.rates
        strain = cell.strain(searched)
        for part in self._cells:
            part.put(cell.box, cell.user_box, strain, earlier.barostat_work, rates)

    def drag(self, flags: StepFlags) -> None:
        """Before the move of a step: see `GpuCell.drag`."""
        if flags.box_drags:
            for cell in self._cells:
                cell.drag(flags.thermostat)

    def finish_step(self, offset: int, flags: StepFlags) -> None:
        """See `GpuCell.finish_step`."""
        if flags.sums or flags.box_moves:
            for cell in self._cells:
                cell.finish_step(offset, flags.sums, flags.barostat, flags.box_moves)

    def read(self) -> tuple[Cell, float, tuple[float, float, float]]:
        """The cell now, work of the barostat so far, kJ/mol, and rates of a box that moves; waits for the device
        if there is a barostat."""
        if not self._cells:
            return self._system.cell, 0.0, (0.0, 0.0, 0.0)
        record = self._cells[0].read()
        x, y, z = record["rates"].tolist()
        return _cell_of(record), float(record["work"]), (x, y, z)

    def in_copies(self, copies: Sequence[np.ndarray]) -> Cell:
        """The cell in copies of `words`."""
        return _cell_of(_record_of(copies[0])) if copies else self._system.cell

    def hear(self, copies: Sequence[np.ndarray]) -> None:
        """Update `strained` from copies of `words`."""
        if copies:
            self._note(_record_of(copies[0]))

    def of_sums(self, copies: Sequence[np.ndarray]) -> tuple[float, float]:
        """Work of the barostat before the step of the last sums, kJ/mol, and the volume then, nm^3."""
        if not copies:
            return 0.0, self._system.volume
        record = _record_of(copies[0])
        return float(record["work_then"]), float(record["volume"])

    def _note(self, record: np.void) -> None:
        if record["stopped"] >= 0:
            self.strained = strain_message(record["refused"], int(record["stopped"]))


def _cell_of(record: np.void) -> Cell:
    return Cell(record["box"].copy(), record["user_box"].copy())


def _record_of(words: np.ndarray) -> np.void:
    """Words copied from the device, as the record `CELL`."""
    return GpuCell.as_record(words)
