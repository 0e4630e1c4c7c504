"""Output files: whole files that replace others in one step, and files that grow record by record."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pulsemd.base.errors import InputError, OutputError

log = logging.getLogger(__name__)


def make_folder(folder: Path) -> None:
    """Make a folder for results, if there is none.

    Raises
    ------
    OutputError
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror}; choose another -o") from error


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Name of a temporary file that becomes `path` at the end, in one step and safely on the disk.

    Whatever happens, `path` is the old file or the whole new one.

    Raises
    ------
    OutputError
        If it cannot be written; the temporary file is removed.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.part")
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: str | Path, content: Iterable[bytes | memoryview]) -> None:
    """Write a file by `replacing`."""
    with replacing(path) as temporary, open(temporary, "wb") as handle:
        for part in content:
            handle.write(part)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path, error: OSError) -> OutputError:
    """The error of the system as ours, naming the file."""
    remedy = "free some space or choose another -o, and continue with --restart where there is a checkpoint"
    return OutputError(f"{path}: cannot be written: {error.strerror}; {remedy}")


class RecordFile:
    """A file to which whole records are appended, unbuffered.

    Each record goes to the system in one call, so another program never sees half of one. If it does not fit
    on the disk, what was written of it is cut off again and the error is raised at once. The file is locked against
    a second run.

    Parameters
    ----------
    path : path
        Its folder must exist.
    extend : bool
        Go on with a file that exists; otherwise it is a new one.

    Raises
    ------
    InputError
        If there is a file of that name already and it is not to be extended: nothing is overwritten.
    OutputError
        If it cannot be made, or another run writes to it.
    """

    def __init__(self, path: str | Path, extend: bool = False) -> None:
        self.path = Path(path)
        try:
            self._file = open(self.path, "r+b" if extend else "x+b", buffering=0)  # noqa: SIM115 - see close()
        except FileExistsError:
            raise InputError("exists already and is not overwritten; choose another one", path) from None
        except FileNotFoundError:
            raise InputError("does not exist, so it cannot be continued; choose another -o", path) from None
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._lock()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise OutputError(
                f"{self.path}: another run is writing to it; wait, or choose another -o"
            ) from None

    def size(self) -> int:
        """Bytes written so far."""
        return self._file.seek(0, 2)

    def read(self, offset: int, n_bytes: int) -> bytes:
        """What was written at an offset; less at the end of the file."""
        self._file.seek(offset)
        return self._file.read(n_bytes)

    def cut(self, size: int) -> None:
        """Drop everything behind the first `size` bytes."""
        self._file.truncate(size)

    def append(self, record: bytes | memoryview) -> None:
        """Append one record.

        Raises
        ------
        OutputError
            If it could not be written whole; the file then ends with the record before.
        """
        start, view = self._file.seek(0, 2), memoryview(record)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._file.truncate(start)
            raise cannot_write(self.path, error) from error

    def patch(self, offset: int, content: bytes) -> None:
        """Overwrite bytes that were written before, in one call."""
        self._file.seek(offset)
        self._file.write(content)

    def sync(self) -> None:
        """Make what was written safe on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def close(self) -> None:
        """Close the file; allowed more than once."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
