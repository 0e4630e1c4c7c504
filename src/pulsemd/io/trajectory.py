"""Trajectories in the DCD format of CHARMM and NAMD: float32 positions in Angstrom and the unit cell.

A DCD file is a sequence of Fortran records, each between two int32 that hold its length: a header of 84
bytes, a title, the number of atoms; then for every frame the unit cell (A, cos gamma, B, cos beta, cos alpha,
C) and three records of float32: all x, all y, all z. The cosines are as in NAMD since 2.5: a right angle
stays exactly one. The cell has no orientation, so positions are rotated to the frame every reader assumes:
a along x, b in the xy plane, which for a GROMACS box is no change.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.output import RecordFile

_ANGSTROM: Final = 10.0  # per nm
_AKMA_TIME: Final = 0.0488882129  # ps: sqrt(amu Angstrom^2 / (kcal/mol)), CHARMM's unit of time
_TITLE_SIZE: Final = 80
_N_FRAMES_OFFSET: Final = 8
_LAST_STEP_OFFSET: Final = 20
_LONGEST_HEADER: Final = 65536
_LARGEST_RECORD: Final = 2**31 - 1
_LAST_STEP: Final = (
    2**31 - 1
)  # that the header can name; what readers use are the first step and the interval

Floats = NDArray[np.floating[Any]]


class DcdWriter(RecordFile):
    """Writes a DCD trajectory; the frame count in the header is right after every frame.

    Parameters
    ----------
    path : path
        A new file, unless it is continued.
    n_atoms : int
    dt : float
        Time step [ps].
    interval : int
        Steps between two frames.
    first_step : int
        Step of the first frame.
    title : str
        Up to 80 characters are kept.
    before : int or None
        Continue the file, without its frames of this step and later; a frame that was cut off is dropped.

    Raises
    ------
    InputError
        If the file exists already, the format cannot hold so many atoms or so late a first step, or the file to
        continue is of other atoms or another interval, or lacks frames.
    """

    def __init__(
        self,
        path: str | Path,
        n_atoms: int,
        dt: float,
        interval: int,
        first_step: int = 0,
        title: str = "",
        before: int | None = None,
    ) -> None:
        if 4 * n_atoms > _LARGEST_RECORD:
            raise InputError(f"a DCD file cannot hold {n_atoms} atoms, {_LARGEST_RECORD // 4} at most", path)
        if before is None and first_step > _LAST_STEP:
            raise InputError(
                f"a DCD file cannot begin with step {first_step}, beyond {_LAST_STEP}; use --trajectory xtc",
                path,
            )
        super().__init__(path, extend=before is not None)
        self.n_atoms, self.interval, self.first_step, self.n_frames = n_atoms, interval, first_step, 0
        if before is None:
            self.append(_header(n_atoms, dt, interval, first_step, title))
        else:
            self._cut_back(before)
        self._frame = np.zeros(1, dtype=_frame_dtype(n_atoms))
        self._frame["cell_size"] = self._frame["cell_end"] = 48
        self._frame["axis"]["size"] = self._frame["axis"]["end"] = 4 * n_atoms

    def _cut_back(self, before: int) -> None:
        raw = self.read(0, _LONGEST_HEADER)
        start = _frames_start(raw)
        if start is None or int(np.frombuffer(raw, "<i4", 1, start - 8)[0]) != self.n_atoms:
            raise InputError(f"is no DCD file of {self.n_atoms} atoms; continue with another -o", self.path)
        self.first_step, interval = (int(word) for word in np.frombuffer(raw, "<i4", 2, 12))
        if interval != self.interval:
            raise InputError(
                f"has a frame every {interval} steps, not {self.interval}; keep the interval or continue with "
                "another -o",
                self.path,
            )
        size = _frame_dtype(self.n_atoms).itemsize
        held, due = (self.size() - start) // size, max(0, -(-(before - self.first_step) // interval))
        if held < due:
            found = (
                f"ends with step {self.first_step + (held - 1) * interval}" if held else "has no whole frame"
            )
            raise InputError(
                f"{found}, and frames up to the checkpoint's step {before} are missing; continue "
                "with another -o",
                self.path,
            )
        self.n_frames = due
        self.cut(start + due * size)
        last = self.first_step + max(due - 1, 0) * interval
        self.patch(_LAST_STEP_OFFSET, _int32(min(last, _LAST_STEP)))
        self.patch(_N_FRAMES_OFFSET, _int32(due))

    def write(self, step: int, positions: Floats, box: Floats, velocities: Floats | None = None) -> None:
        """Append a frame.

        Parameters
        ----------
        step : int
            Must be the next multiple of `interval` after the first step.
        positions : (n_atoms, 3) float, nm
        box : (3, 3) float, rows a, b, c in nm
        velocities : ignored
            The format has none; taken so that all writers are called alike.

        Raises
        ------
        ValueError
            If the step is not the next one due, or the positions have another shape.
        """
        due = self.first_step + self.n_frames * self.interval
        if step != due or positions.shape != (self.n_atoms, 3):
            raise ValueError(
                f"{self.path}: frame of step {step} and shape {positions.shape}, due are step {due} and "
                f"shape ({self.n_atoms}, 3)"
            )
        cell, rotation = _standard_frame(np.asarray(box, dtype=np.float64))
        if rotation is not None:
            positions = positions @ rotation
        self._frame["cell"][0] = _cell_to_record(cell)
        np.multiply(positions.T, _ANGSTROM, out=self._frame["axis"]["values"][0], casting="same_kind")
        self.append(self._frame.view(np.uint8).data)
        self.n_frames += 1
        self.patch(_LAST_STEP_OFFSET, _int32(min(step, _LAST_STEP)))
        self.patch(_N_FRAMES_OFFSET, _int32(self.n_frames))


@dataclass(frozen=True)
class DcdTrajectory:
    """A whole DCD file.

    Attributes
    ----------
    steps : (n_frames,) int64
    times : (n_frames,) float64, ps
    positions : (n_frames, n_atoms, 3) float32, nm
    boxes : (n_frames, 3, 3) float64, rows a, b, c in nm, a along x and b in the xy plane
    title : str
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    positions: NDArray[np.float32]
    boxes: NDArray[np.float64]
    title: str


def read_dcd(path: str | Path) -> DcdTrajectory:
    """Read a DCD file as `DcdWriter` writes it: little-endian, unit cell with cosines, no fixed atoms.

    Raises
    ------
    InputError
        If it is no such file, or does not hold the frames its header announces.
    """
    raw = Path(path).read_bytes()
    start = _frames_start(raw)
    if start is None:
        raise InputError("is no little-endian DCD file", path)
    control = np.frombuffer(raw, "<i4", 20, offset=8)
    dt = float(np.frombuffer(raw, "<f4", 1, offset=44)[0]) * _AKMA_TIME
    title = raw[100 : 100 + _TITLE_SIZE].decode("ascii", "replace").strip()
    n_atoms, n_frames = int(np.frombuffer(raw, "<i4", 1, offset=start - 8)[0]), int(control[0])
    frame = _frame_dtype(n_atoms)
    if control[10] != 1 or len(raw) - start != n_frames * frame.itemsize:
        raise InputError(f"does not hold {n_frames} frames of {n_atoms} atoms with a unit cell", path)
    frames = np.frombuffer(raw, frame, n_frames, offset=start)
    steps = control[1] + control[2] * np.arange(n_frames, dtype=np.int64)
    positions = (frames["axis"]["values"] / _ANGSTROM).transpose(0, 2, 1).astype(np.float32)
    boxes = np.array([_record_to_cell(cell) for cell in frames["cell"]]).reshape(n_frames, 3, 3)
    return DcdTrajectory(steps, steps * dt, positions, boxes, title)


def _frames_start(raw: bytes) -> int | None:
    """Offset of the first frame; None if it is no DCD file or its header is cut off."""
    if len(raw) < 196 or raw[:8] != _int32(84) + b"CORD":
        return None
    start = 100 + _TITLE_SIZE * int(np.frombuffer(raw, "<i4", 1, offset=96)[0]) + 16
    return start if start <= len(raw) else None


def _header(n_atoms: int, dt: float, interval: int, first_step: int, title: str) -> bytes:
    control = np.zeros(20, dtype="<i4")
    control[1], control[2], control[3] = first_step, interval, first_step
    control[9:10] = np.array([dt / _AKMA_TIME], dtype="<f4").view("<i4")
    control[10], control[19] = 1, 24  # there is a unit cell; written as CHARMM 24 does
    text = title.encode("ascii", "replace")[:_TITLE_SIZE].ljust(_TITLE_SIZE)
    return _record(b"CORD" + control.tobytes()) + _record(_int32(1) + text) + _record(_int32(n_atoms))


def _frame_dtype(n_atoms: int) -> np.dtype[np.void]:
    """Layout of a frame: the record of the unit cell, then one record per axis."""
    axis = np.dtype([("size", "<i4"), ("values", "<f4", n_atoms), ("end", "<i4")])
    return np.dtype([("cell_size", "<i4"), ("cell", "<f8", 6), ("cell_end", "<i4"), ("axis", axis, 3)])


def _int32(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def _record(content: bytes) -> bytes:
    return _int32(len(content)) + content + _int32(len(content))


def _standard_frame(
    box: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """A right-handed cell of the same lattice with a along x and b in the xy plane, and the rotation there.

    A left-handed cell is replaced by (a, b, -c), which spans the same lattice. No rotation is needed: None.
    """
    if np.linalg.det(box) < 0:
        box = box * np.array([[1.0], [1.0], [-1.0]])
    if not np.triu(box, 1).any() and (np.diag(box) > 0).all():
        return box, None
    orthogonal, upper = np.linalg.qr(box.T)  # box = upper.T @ orthogonal.T
    sign = np.sign(np.diag(upper))
    return (upper * sign[:, None]).T, orthogonal * sign


def _cell_to_record(cell: NDArray[np.float64]) -> NDArray[np.float64]:
    """(A, cos gamma, B, cos beta, cos alpha, C) in Angstrom of a cell in nm."""
    length = np.linalg.norm(cell, axis=1)
    cosine = cell @ cell.T / np.outer(length, length)
    a, b, c = length * _ANGSTROM
    return np.array([a, cosine[0, 1], b, cosine[0, 2], cosine[1, 2], c])


def _record_to_cell(record: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of `_cell_to_record`."""
    a, cos_gamma, b, cos_beta, cos_alpha, c = record
    sin_gamma = np.sqrt(1.0 - cos_gamma**2)
    cy = (cos_alpha - cos_beta * cos_gamma) / sin_gamma
    rows = [
        [a, 0.0, 0.0],
        [b * cos_gamma, b * sin_gamma, 0.0],
        [c * cos_beta, c * cy, c * np.sqrt(1.0 - cos_beta**2 - cy**2)],
    ]
    return np.array(rows) / _ANGSTROM
