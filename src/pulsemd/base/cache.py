"""Where compiled programs are kept from one run to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pulsemd.base.errors import ConfigError


def cache_folder(kind: str) -> Path:
    """Folder of programs of a kind, such as 'cuda': in PULSEMD_CACHE_DIR, else in the user's cache folder."""
    chosen = os.environ.get("PULSEMD_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(chosen) if chosen else Path(base) / "pulsemd") / kind


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into a ConfigError that says what to set."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot keep compiled kernels in {folder}: {error}; set PULSEMD_CACHE_DIR to a folder that can be written"
        ) from error
