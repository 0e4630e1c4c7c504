"""Where compiled programs are kept from one run to the next."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pulsemd.base.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]
_REMEDY = "set PULSEMD_CACHE_DIR to a folder that can be written"


def cache_folder(kind: str) -> Path:
    """Folder of programs of a kind, such as 'cuda': in PULSEMD_CACHE_DIR, else in the user's cache folder, or, where
    that cannot be written, in one of the user's among temporary files."""
    chosen = os.environ.get("PULSEMD_CACHE_DIR")
    return (Path(chosen) if chosen else _of_user() or _temporary()) / kind


def place_numba_cache() -> None:
    """Let Numba, which keeps kernels beside their sources, keep them in `cache_folder` where that cannot be written.

    It has to be called before Numba is imported. A choice of the user's stays.
    """
    if "NUMBA_CACHE_DIR" not in os.environ and not _can_write(_PACKAGE):
        os.environ["NUMBA_CACHE_DIR"] = str(cache_folder("numba"))


def check_numba_cache() -> None:
    """Refuse a folder for Numba's kernels that was chosen and cannot be written.

    Raises
    ------
    ConfigError
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen and not _can_write(Path(chosen)):
        raise ConfigError(f"cannot keep compiled kernels in {chosen}, which cannot be written; {_REMEDY}")


def _of_user() -> Path | None:
    """The user's cache folder, if it can be written."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "pulsemd"
    except RuntimeError:  # no HOME, and a user without a name
        return None
    return folder if _can_write(folder) else None


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder, which may have to be made, too."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.exists(path))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _temporary() -> Path:
    """A folder that is the user's alone, among temporary files.

    Raises
    ------
    ConfigError
        If there is none, or it is not the user's alone: others could put programs there.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"pulsemd-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise ConfigError(f"no folder for compiled kernels can be written: {error}; {_REMEDY}") from error
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ConfigError(f"others can write to {folder}, where compiled kernels would be kept; {_REMEDY}")
    return folder


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into a ConfigError that says what to set."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot keep compiled kernels in {folder}: {error}; {_REMEDY}") from error
