"""Trajectories in the XTC format of GROMACS, written through chemfiles: positions rounded to 0.001 nm."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, InputError
from pulsemd.io.output import RecordFile, cannot_write

_MAGIC: Final = 1995
_HEADER: Final = 52  # magic, atoms, step, time, box
_SMALL: Final = 9  # up to so many atoms are stored uncompressed
_PACKED: Final = 92  # offset of the number of packed bytes


class XtcWriter:
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
        self.path, self.n_atoms, self.dt, self.tinit = Path(path), n_atoms, dt, tinit
        self._lock = RecordFile(path, extend=before is not None)
        if before is not None:
            self._lock.cut(_kept(self._lock, n_atoms, before))
        self._open()

    def _open(self) -> None:
        self._file = self._chemfiles.Trajectory(str(self.path), "a", "XTC")

    def write(self, step: int, positions: NDArray[np.floating[Any]], box: NDArray[np.floating[Any]]) -> None:
        """Append a frame; arguments as for `pulsemd.io.trajectory.DcdWriter.write`.

        Raises
        ------
        OutputError
            If it could not be written.
        """
        if positions.shape != (self.n_atoms, 3):
            raise ValueError(f"{self.path}: frame of shape {positions.shape}, not ({self.n_atoms}, 3)")
        frame = self._chemfiles.Frame()
        frame.resize(self.n_atoms)
        frame.positions[:] = positions * 10.0
        frame.cell = self._chemfiles.UnitCell(np.asarray(box, np.float64).T * 10.0)
        frame.step = step
        frame["time"] = self.tinit + step * self.dt
        try:
            self._file.write(frame)
        except self._chemfiles.ChemfilesError as error:
            raise cannot_write(self.path, OSError(0, str(error))) from error

    def sync(self) -> None:
        """Make the frames safe on the disk: chemfiles writes its buffer only when it closes the file."""
        self._file.close()
        self._lock.sync()
        self._open()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
