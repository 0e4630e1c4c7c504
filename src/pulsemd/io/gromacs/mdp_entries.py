"""The lines of settings files: .mdp, and TOML with the same names."""

from __future__ import annotations

import re
import tomllib
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Protocol

from pulsemd.base.errors import InputError
from pulsemd.io.gromacs.mdp_options import Entry
from pulsemd.io.gromacs.mdp_writer import word_of


class Reader(Protocol):
    """What has read a settings file, see `pulsemd.io.gromacs.mdp`: values by option, and how many words each has."""

    values: dict[str, Any]
    words: dict[str, int]
    ignored: list[str]

    def refuse(self, name: str, message: str, asked_by: str = "") -> NoReturn:
        """Raise an InputError at the line of an option."""


def read_entries(path: str | PathLike[str]) -> tuple[list[Entry], dict[str, Any]]:
    """The assignments of a settings file, and its ``[pulsemd]`` table.

    Raises
    ------
    InputError
        If it cannot be read, or a line is none; with its number.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    if Path(path).suffix.lower() == ".toml":
        return _toml_entries(path, text)
    return mdp_entries(path, text), {}


def mdp_entries(path: str | PathLike[str], text: str) -> list[Entry]:
    """The assignments in the text of an .mdp file; errors name ``path``."""
    entries = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.partition(";")[0].strip()
        if not line:
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise InputError(f"an option is written as name = value, not {line!r}", path, number)
        entries.append(Entry(name.strip(), value.strip(), number))
    return entries


def _toml_entries(path: str | PathLike[str], text: str) -> tuple[list[Entry], dict[str, Any]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"at line (\d+)", str(error))
        raise InputError(str(error), path, int(where[1]) if where else 1) from error
    table = document.pop("pulsemd", {})
    entries = []
    for name, value in document.items():
        place = re.search(rf"(?m)^\s*[\[\"']*{re.escape(name)}[\]\"']*\s*(=|$)", text)
        line = text.count("\n", 0, place.end()) + 1 if place else 1
        if isinstance(value, dict):
            raise InputError(f"unknown table [{name}]; the only one is [pulsemd]", path, line)
        words = value if isinstance(value, list) else [value]
        entries.append(Entry(name, " ".join(word_of("", word) for word in words), line))
    if not isinstance(table, dict):
        raise InputError("pulsemd must be a table: [pulsemd]", path, 1)
    return entries, table
