"""The systems bundled with the package, by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pulsemd.base.errors import ConfigError


@dataclass(frozen=True)
class SystemFiles:
    """Input files of one bundled system.

    Attributes
    ----------
    name : str
    configuration, topology, parameters : Path
        The ``.gro``, ``.top`` and ``.mdp`` files.
    description : str
        One line, from the title of the configuration.
    """

    name: str
    configuration: Path
    topology: Path
    parameters: Path
    description: str


def _root() -> Path:
    return Path(str(files("pulsemd.systems"))) / "files"


def list_systems() -> tuple[str, ...]:
    """Names of the bundled systems, sorted."""
    return tuple(sorted(path.parent.name for path in _root().glob("*/conf.gro")))


def system_files(name: str) -> SystemFiles:
    """Files of the bundled system `name`.

    Raises
    ------
    ConfigError
        If there is no such system; the message lists those there are.
    """
    if name not in list_systems():
        raise ConfigError(f"there is no bundled system '{name}'; there are: {', '.join(list_systems())}")
    folder = _root() / name
    with open(folder / "conf.gro", encoding="utf-8") as handle:
        description = handle.readline().strip()
    return SystemFiles(name, folder / "conf.gro", folder / "topol.top", folder / "run.mdp", description)
