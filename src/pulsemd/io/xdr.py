"""Trajectories in the formats of GROMACS, encoded by chemfiles.

XTC holds positions rounded to 0.001 nm, compressed; TRR holds float32 positions and velocities. Chemfiles writes its
files through a memory map, where a full disk kills the process. So it makes each frame in memory, and the frame
is appended here as one record.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, InputError
from pulsemd.io.output import RecordFile

Floats = NDArray[np.floating[Any]]
Kind = Literal["xtc", "trr"]

_MAGIC: Final = {"xtc": 1995, "trr": 1993}
_HEADER: Final = {"xtc": 92, "trr": 84}
"""Bytes up to the packed positions of XTC, and to the box of TRR."""

_STEPS: Final = 2**31
"""The formats count steps modulo this number; the time tells steps apart."""

_SMALL: Final = 9  # up to so many atoms XTC stores uncompressed


def load_chemfiles(kind: Kind) -> Any:
    """The module that encodes these trajectories.

    Raises
    ------
    ConfigError
        If it is not installed.
    """
    try:
        import chemfiles
    except ImportError as error:
        raise ConfigError(
            f"--trajectory {kind} needs chemfiles, which is not installed ({error}): "
            "pip install 'pulsemd[xtc]', or use --trajectory dcd"
        ) from error
    return chemfiles


class XdrWriter(RecordFile):
    """Writes an XTC or TRR trajectory.

    Parameters
    ----------
    path : path
        A new file, unless it is continued.
    kind : {'xtc', 'trr'}
    n_atoms : int
    dt, tinit : float, ps
    interval : int
        Steps between two frames.
    before : int or None
        Continue the file, without its frames of this step and later; a frame that was cut off is dropped.

    Raises
    ------
    ConfigError
        If chemfiles is not installed.
    InputError
        If the file exists already, or the one to continue is of other atoms or lacks frames.
    """

    def __init__(
        self,
        path: str | Path,
        kind: Kind,
        n_atoms: int,
        dt: float,
        tinit: float = 0.0,
        interval: int = 1,
        before: int | None = None,
    ) -> None:
        self._chemfiles = load_chemfiles(kind)
        self.kind, self.n_atoms, self.dt, self.tinit = kind, n_atoms, dt, tinit
        super().__init__(path, extend=before is not None)
        if before is not None:
            self.cut(_kept(self, interval, before))
        self._frame = self._chemfiles.Frame()
        self._frame.resize(n_atoms)
        if kind == "trr":
            self._frame.add_velocities()

    def write(self, step: int, positions: Floats, box: Floats, velocities: Floats) -> None:
        """Append a frame.

        Parameters
        ----------
        step : int
        positions : (n_atoms, 3) float, nm
        box : (3, 3) float, rows a, b, c in nm
        velocities : (n_atoms, 3) float, nm/ps
            Kept by TRR only.

        Raises
        ------
        OutputError
            If it could not be written.
        """
        if positions.shape != (self.n_atoms, 3):
            raise ValueError(f"{self.path}: frame of shape {positions.shape}, not ({self.n_atoms}, 3)")
        self._frame.positions[:] = positions * 10.0
        if self.kind == "trr":
            self._frame.velocities[:] = velocities * 10.0
        self._frame.cell = self._chemfiles.UnitCell(np.asarray(box, np.float64).T * 10.0)
        self._frame.step = step % _STEPS
        self._frame["time"] = self.tinit + step * self.dt
        self.append(self._encoded())

    def _encoded(self) -> bytes:
        """The frame as a file of its own, in memory."""
        memory = os.memfd_create("frame", os.MFD_CLOEXEC)
        try:
            with self._chemfiles.Trajectory(f"/proc/self/fd/{memory}", "w", self.kind.upper()) as file:
                file.write(self._frame)
            return os.pread(memory, os.fstat(memory).st_size, 0)
        finally:
            os.close(memory)


def _kept(file: XdrWriter, interval: int, before: int) -> int:
    """Size of the whole frames with steps below `before`.

    Raises
    ------
    InputError
        If it is no file of so many atoms, or it ends long before that step.
    """
    kind, n_atoms = file.kind, file.n_atoms
    at, last, end = 0, None, file.size()
    while at + _HEADER[kind] <= end:
        head = np.frombuffer(file.read(at, _HEADER[kind]), ">i4")
        places = (1, 2, 3) if kind == "xtc" else (16, 17, 19)
        atoms, step, time = int(head[places[0]]), int(head[places[1]]), float(head.view(">f4")[places[2]])
        if head[0] != _MAGIC[kind] or atoms != n_atoms:
            message = f"has no {kind.upper()} frame of {n_atoms} atoms at byte {at}; continue with another -o"
            raise InputError(message, file.path)
        size = _frame_size(kind, head, n_atoms)
        step += _STEPS * round(((time - file.tinit) / file.dt - step) / _STEPS)
        if step >= before or at + size > end:
            break
        at, last = at + size, step
    if before - interval > (-1 if last is None else last):
        held = "has no frames" if last is None else f"ends with step {last}"
        raise InputError(
            f"{held}, and frames up to the checkpoint's step {before} are missing; continue with another -o",
            file.path,
        )
    return at


def _frame_size(kind: Kind, head: NDArray[np.int32], n_atoms: int) -> int:
    """Bytes of a frame by its first words."""
    if kind == "trr":
        return _HEADER["trr"] + int(head[6:16].sum())
    if n_atoms <= _SMALL:
        return 56 + 12 * n_atoms
    return _HEADER["xtc"] + -(-int(head[22]) // 4) * 4
