"""Trajectories in the XTC format of GROMACS: positions rounded to 0.001 nm, compressed by chemfiles.

Chemfiles writes its files through a memory map, where a full disk kills the process. So it makes each frame in
memory, and the frame is appended here as one record.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, InputError
from pulsemd.io.output import RecordFile

_MAGIC: Final = 1995
_HEADER: Final = 52  # magic, atoms, step, time, box
_SMALL: Final = 9  # up to so many atoms are stored uncompressed
_PACKED: Final = 92  # offset of the number of packed bytes


class XtcWriter(RecordFile):
    """Writes an XTC trajectory.

    Parameters
    ----------
    path : path
        A new file, unless it is continued.
    n_atoms : int
    dt, tinit : float, ps
    before : int or None
        Continue the file, without its frames of this step and later; a frame that was cut off is dropped.

    Raises
    ------
    ConfigError
        If chemfiles is not installed.
    InputError
        If the file exists already, or cannot be continued.
    """

    def __init__(
        self, path: str | Path, n_atoms: int, dt: float, tinit: float = 0.0, before: int | None = None
    ) -> None:
        try:
            import chemfiles
        except ImportError as error:
            raise ConfigError(
                f"--trajectory xtc needs chemfiles, which is not installed ({error}): pip install 'pulsemd[xtc]', "
                "or use --trajectory dcd"
            ) from error
        self._chemfiles: Any = chemfiles
        self.n_atoms, self.dt, self.tinit = n_atoms, dt, tinit
        super().__init__(path, extend=before is not None)
        if before is not None:
            self.cut(_kept(self, n_atoms, before))
        self._frame = chemfiles.Frame()
        self._frame.resize(n_atoms)

    def write(self, step: int, positions: NDArray[np.floating[Any]], box: NDArray[np.floating[Any]]) -> None:
        """Append a frame; arguments as for `pulsemd.io.trajectory.DcdWriter.write`.

        Raises
        ------
        OutputError
            If it could not be written.
        """
        if positions.shape != (self.n_atoms, 3):
            raise ValueError(f"{self.path}: frame of shape {positions.shape}, not ({self.n_atoms}, 3)")
        self._frame.positions[:] = positions * 10.0
        self._frame.cell = self._chemfiles.UnitCell(np.asarray(box, np.float64).T * 10.0)
        self._frame.step = step
        self._frame["time"] = self.tinit + step * self.dt
        self.append(self._encoded())

    def _encoded(self) -> bytes:
        """The frame as a file of its own, in memory."""
        memory = os.memfd_create("frame.xtc", os.MFD_CLOEXEC)
        try:
            with self._chemfiles.Trajectory(f"/proc/self/fd/{memory}", "w", "XTC") as file:
                file.write(self._frame)
            return os.pread(memory, os.fstat(memory).st_size, 0)
        finally:
            os.close(memory)


def _kept(file: RecordFile, n_atoms: int, before: int) -> int:
    """Size of the whole frames with steps below `before`.

    Raises
    ------
    InputError
        If it is no XTC file of so many atoms.
    """
    at, end = 0, file.size()
    while at + _PACKED <= end:
        head = file.read(at, _PACKED)
        magic, atoms, step = np.frombuffer(head, ">i4", 3)
        if magic != _MAGIC or atoms != n_atoms:
            raise InputError(
                f"has no XTC frame of {n_atoms} atoms at byte {at}; continue with another -o", file.path
            )
        size = _HEADER + 4 + 12 * n_atoms
        if n_atoms > _SMALL:
            size = _PACKED + -(-int(np.frombuffer(head, ">i4", 1, _PACKED - 4)[0]) // 4) * 4
        if step >= before or at + size > end:
            break
        at += size
    return at
