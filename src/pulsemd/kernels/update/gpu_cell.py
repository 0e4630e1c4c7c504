"""The periodic cell of a run on a device, which a barostat scales without the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.update.cuda_programs import SUM_THREADS, cell_program

CELL = np.dtype(
    [
        ("box", "<f8", (3, 3)),
        ("user_box", "<f8", (3, 3)),
        ("strain", "<f8", 3),
        ("factors", "<f8", 3),
        ("volume", "<f8"),
        ("work_then", "<f8"),
        ("work", "<f8"),
        ("rates", "<f8", 3),
        ("refused", "<f8", 3),
        ("stopped", "<i8"),
    ]
)
"""The struct ``Cell`` of cell.cu."""

BAROSTAT = np.dtype(
    [
        ("soft", "<f8", 3),
        ("wanted", "<f8", 3),
        ("noise", "<f8", 3),
        ("kt", "<f8"),
        ("background", "<f8"),
        ("dispersion_energy", "<f8"),
        ("dispersion_virial", "<f8"),
        ("lowest", "<f8"),
        ("highest", "<f8"),
        ("interval", "<f8"),
        ("mass", "<f8", 3),
        ("seed", "<i8"),
        ("axis", "<i4", 3),
        ("stochastic", "<i4"),
    ]
)
"""The struct ``Barostat`` of cell.cu."""


@dataclass(frozen=True)
class Followers:
    """Device arrays that follow from the cell.

    Parameters
    ----------
    step : the struct ``Step`` of move.cuh, of a whole step and of half of one
    field : that of excluded pairs, which begins with the box
    bonded : (9,) float64
    pairs : (19,) float32, of the pair kernels
    mesh : of PME, or None
    mesh_in_user_box : bool
        The mesh is along the vectors of the files' box.
    """

    step: Any
    field: Any
    bonded: Any
    pairs: Any
    mesh: Any = None
    mesh_in_user_box: bool = True

    @property
    def words(self) -> np.ndarray:
        """The struct ``Followers`` of cell.cu, as int64."""
        arrays = (self.step, self.field, self.bonded, self.pairs, self.mesh)
        addresses = [0 if array is None else int(array.data.ptr) for array in arrays]
        return np.array([*addresses, self.mesh_in_user_box], np.int64)


class GpuCell:
    """The cell of a run with a barostat.

    Parameters
    ----------
    device : CudaDevice
    barostat : (1,) record `BAROSTAT`
    followers : Followers
    control : device array, the record of `pulsemd.kernels.update.control`
    sums, constraints : (9,) float64 or int64, device
        Virial of all forces but those of constraints, and theirs.
    fixed : bool
        Sums in fixed point.
    group : (n_atoms,) int32, device, or None
        Coupling group of each atom, where there are several.

    Attributes
    ----------
    record : (44,) int64, device
        The record `CELL`.
    """

    def __init__(
        self,
        device: CudaDevice,
        barostat: np.ndarray,
        followers: Followers,
        control: Any,
        sums: Any,
        constraints: Any,
        fixed: bool,
        group: Any = None,
    ) -> None:
        self.device, self._followers, self._program = device, followers, cell_program(fixed)
        self._scales_velocities = bool(barostat["stochastic"][0])
        self._control, self._group = control, group
        self._barostat = device.to_device(np.atleast_1d(barostat).view(np.uint8))
        self.record = device.zeros(CELL.itemsize // 8, np.int64)
        self._table = device.to_device(followers.words)
        self._sources = sums, constraints, control, self.record, self._barostat, self._table
        self._bound: dict[tuple[int, ...], Callable[[], None]] = {}
        self._lead = device.kernel(self._program, "lead_followers").bind(1, 1, self.record, self._table)

    def put(
        self,
        box: np.ndarray,
        user_box: np.ndarray,
        strain: np.ndarray | float = 1.0,
        work: float = 0.0,
        rates: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> None:
        """Take a cell, and let everything follow from it; does not wait.

        Parameters
        ----------
        box, user_box : (3, 3) float64, nm
        strain : (3,) float64
            Lengths along x, y and z over those of the last search.
        work : float, kJ/mol, of the barostat so far
        rates : three float, 1/ps
            Relative rates of lengths along x, y and z, of a box that moves.
        """
        record = np.zeros(1, CELL)
        record["box"], record["user_box"], record["strain"], record["rates"] = box, user_box, strain, rates
        record["factors"], record["work"], record["work_then"], record["stopped"] = 1.0, work, work, -1
        self.record.set(record.view(np.int64), stream=self.device.stream)
        self._lead()

    @property
    def kt(self) -> Any:
        """Of the barostat's noise, (1,) float64, device, bar nm^3."""
        place = BAROSTAT.fields["kt"][1]
        return self._barostat[place : place + 8].view(np.float64)

    @property
    def work(self) -> Any:
        """Work of the barostat so far, a word of `record`."""
        place = CELL.fields["work"][1] // 8
        return self.record[place : place + 1]

    def follow(self) -> None:
        """Let everything follow from the cell again; does not wait."""
        self._lead()

    def begin_list(self) -> None:
        """A pair list of the cell of now begins; does not wait."""
        place = CELL.fields["strain"][1] // 8
        self.record[place : place + 3].set(np.ones(3).view(np.int64), stream=self.device.stream)

    def read(self) -> np.void:
        """The record; waits for the device."""
        return self.as_record(self.device.to_host(self.record))

    @staticmethod
    def as_record(words: np.ndarray) -> np.void:
        """Words of `record`, on the host, as the record `CELL`."""
        found: np.void = np.ascontiguousarray(words).view(CELL)[0]
        return found

    def settle_in(self, velocities: Any, gid: Any) -> None:
        """Scale these velocities (capacity, 4) float32, of atoms (capacity,) int32, with the cell from now on."""
        n, kernel = len(velocities), self.device.kernel
        shape, rows = (-(-n // SUM_THREADS), SUM_THREADS), (velocities, np.int32(n), self.record)
        self._velocities = kernel(self._program, "scale_velocities").bind(*shape, *rows)
        self._drags = [
            kernel(self._program, "drag_velocities").bind(
                *shape, *rows, self._barostat, self._control, gid, self._group, np.int32(rubbed)
            )
            for rubbed in (False, True)
        ]

    def drag(self, rubbed: bool) -> None:
        """Let a box that moves act on the velocities, beside a thermostat if that acts too. Only launches."""
        self._drags[rubbed]()

    def finish_step(self, offset: int, summed: bool, couple: bool, moves: bool) -> None:
        """What a step does to the cell. Only launches.

        Parameters
        ----------
        offset : int, of the step
        summed : bool
            The sums are of this step: keep what its energies need.
        couple, moves : bool
            Let the pressure act on the cell; let a box that moves go on.
        """
        key = (offset, summed, couple, moves)
        if key not in self._bound:
            self._bound[key] = self.device.kernel(self._program, "scale_cell").bind(
                1, 1, *self._sources, *(np.int32(word) for word in key)
            )
        self._bound[key]()
        if couple and self._scales_velocities:
            self._velocities()
