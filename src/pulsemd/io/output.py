"""Output files that grow record by record and hold whole records only, whatever happens to the program."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from pulsemd.base.errors import InputError


class RecordFile:
    """A new file to which whole records are appended, unbuffered.

    Each record goes to the system in one call, so another program never sees half of one. If it does not fit
    on the disk, what was written of it is cut off again and the error is raised at once.

    Parameters
    ----------
    path : path
        Its folder must exist.

    Raises
    ------
    InputError
        If there is a file of that name already: nothing is overwritten.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise InputError("exists already and is not overwritten; choose another one", path) from None

    def append(self, record: bytes | memoryview) -> None:
        """Append one record.

        Raises
        ------
        OSError
            If it could not be written whole; the file then ends with the record before.
        """
        start, view = self._file.seek(0, 2), memoryview(record)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._file.truncate(start)
            raise OSError(error.errno, f"cannot write to {self.path}: {error.strerror}") from error

    def patch(self, offset: int, content: bytes) -> None:
        """Overwrite bytes that were written before, in one call."""
        self._file.seek(offset)
        self._file.write(content)

    def close(self) -> None:
        """Close the file; allowed more than once."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
