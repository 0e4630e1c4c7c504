"""The version of the package, for everything below the command line that names it."""

import platform
from importlib import import_module
from typing import Final

VERSION: Final = "0.1.0"


def versions() -> dict[str, str]:
    """Versions of this package and of what computes its numbers, by name."""
    libraries = {name: str(import_module(name).__version__) for name in ("numpy", "numba")}
    return {"pulsemd": VERSION, "python": platform.python_version(), **libraries}
