"""The preprocessor of GROMACS topologies: includes, macros, conditions, continuation lines, comments."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from pulsemd.base.errors import TopologyError

log = logging.getLogger(__name__)

MAX_DEPTH = 64
"""Includes within includes before a cycle is reported."""
_WORD = re.compile(r"\w+")
_INCLUDE = re.compile(r"""(?:"([^"]+)"|<([^>]+)>)$""")


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line after the preprocessor, and where it began."""

    text: str
    file: str
    number: int

    def error(self, message: str) -> TopologyError:
        """Build an error that points here."""
        return TopologyError(message, self.file, self.number)


@dataclass
class _Condition:
    """One open ``#ifdef``."""

    opened: Line
    active: bool
    parent_active: bool
    has_else: bool = False


@dataclass
class _Preprocessor:
    macros: dict[str, str]
    include_dirs: tuple[Path, ...]
    stack: list[Path] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    """Names of macros that a line asked for."""

    def read(self, path: Path, included_at: Line | None) -> Iterator[Line]:
        """Lines of a file and of what it includes."""
        if len(self.stack) >= MAX_DEPTH:
            chain = " -> ".join(step.name for step in self.stack[-4:])
            where = included_at or Line("", str(path), 1)
            raise where.error(f"#include cycle or more than {MAX_DEPTH} files within each other: ... {chain}")
        self.stack.append(path)
        conditions: list[_Condition] = []
        for line in _logical_lines(path, included_at):
            if line.text.startswith("#"):
                yield from self._directive(line, conditions)
            elif not conditions or conditions[-1].active:
                yield Line(self._expand(line.text, line), line.file, line.number)
        if conditions:
            raise conditions[-1].opened.error("condition without #endif in this file")
        self.stack.pop()

    def _directive(self, line: Line, conditions: list[_Condition]) -> Iterator[Line]:
        word, _, rest = line.text[1:].strip().partition(" ")
        rest = rest.strip()
        active = not conditions or conditions[-1].active
        if word in ("ifdef", "ifndef"):
            name = _only_name(line, rest)
            self.asked.add(name)
            holds = (name in self.macros) == (word == "ifdef")
            conditions.append(_Condition(line, active and holds, active))
        elif word in ("else", "endif"):
            _close(line, word, conditions)
        elif not active:
            return
        elif word == "define":
            name, _, value = rest.partition(" ")
            self.macros[_name(line, name)] = value.strip()
        elif word == "undef":
            self.macros.pop(_only_name(line, rest), None)
        elif word == "include":
            yield from self.read(self._find(line, rest), line)
        else:
            raise line.error(
                f"unknown preprocessor directive #{word}; known are #include, #define, #undef, #ifdef, "
                "#ifndef, #else, #endif"
            )

    def _find(self, line: Line, rest: str) -> Path:
        match = _INCLUDE.match(rest)
        if match is None:
            raise line.error(f'#include needs "FILE" or <FILE>, not {rest!r}')
        name = match.group(1) or match.group(2)
        folders = (self.stack[-1].parent, *self.include_dirs)
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
        searched = ", ".join(str(folder) for folder in folders)
        raise line.error(f"included file {name} not found in {searched}; add its folder with -I or GMXLIB")

    def _expand(self, text: str, line: Line) -> str:
        """Replace macros that have a value, and those within their values."""
        for _ in range(MAX_DEPTH):
            expanded = _WORD.sub(self._value, text)
            if expanded == text:
                return text
            text = expanded
        raise line.error("macros that are defined by each other")

    def _value(self, match: re.Match[str]) -> str:
        word = match[0]
        if word in self.macros:
            self.asked.add(word)
        return self.macros.get(word) or word


def preprocess(
    path: str | PathLike[str], define: Sequence[str] = (), include_dirs: Sequence[str | PathLike[str]] = ()
) -> Iterator[Line]:
    """Read a topology with everything it includes.

    Parameters
    ----------
    path : path
    define : sequence of str
        Macros as ``NAME`` or ``NAME=VALUE``.
    include_dirs : sequence of path
        Searched after the folder of the including file and before `library_dirs`.

    Yields
    ------
    Line
        Never empty: comments, joined continuation lines and spaces around are gone, macros replaced.

    Raises
    ------
    TopologyError
        With file and line: a missing file, an include cycle, an unclosed condition, an unknown directive.

    Notes
    -----
    Differs from gmx where gmx is a trap: a comment behind a macro's value or behind the name of a condition is
    not part of it, and a macro may use one that is defined before it.
    """
    macros = {}
    for macro in define:
        name, _, value = macro.partition("=")
        macros[name] = value
    folders = (*(Path(folder) for folder in include_dirs), *library_dirs())
    preprocessor = _Preprocessor(dict(macros), folders)
    yield from preprocessor.read(Path(path), None)
    for name in macros:
        if name not in preprocessor.asked:
            log.warning("%s: define = -D%s has no effect: nothing there asks for %s", path, name, name)


def library_dirs() -> tuple[Path, ...]:
    """Folders of force fields: those of GMXLIB, then share/top of an installed GROMACS."""
    folders = [Path(folder) for folder in os.environ.get("GMXLIB", "").split(os.pathsep) if folder]
    if os.environ.get("GMXDATA"):
        folders.append(Path(os.environ["GMXDATA"]) / "top")
    program = shutil.which("gmx") or shutil.which("gmx_mpi")
    if program:
        folders.append(Path(program).resolve().parent.parent / "share" / "gromacs" / "top")
    return tuple(folder for folder in folders if folder.is_dir())


def _logical_lines(path: Path, included_at: Line | None) -> Iterator[Line]:
    """Lines joined over a trailing backslash, without comments and outer spaces; empty ones are dropped."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        if included_at is None:
            raise TopologyError(reason, path) from error
        raise included_at.error(f"{path} {reason}") from error
    joined, first = "", 0
    physical = text.split("\n")
    for number, raw in enumerate(physical, 1):
        piece = raw.rstrip()
        first = first or number
        if piece.endswith("\\") and number < len(physical):
            joined += piece[:-1] + " "
            continue
        logical = (joined + piece.removesuffix("\\")).partition(";")[0].strip()
        if logical:
            yield Line(logical.replace("\t", " "), str(path), first)
        joined, first = "", 0


def _name(line: Line, text: str) -> str:
    words = text.split()
    if not words:
        raise line.error(f"{line.text.split()[0]} needs a name")
    return words[0]


def _only_name(line: Line, text: str) -> str:
    name = _name(line, text)
    if len(text.split()) > 1:
        raise line.error(f"{line.text.split()[0]} takes one name, not {text!r}")
    return name


def _close(line: Line, word: str, conditions: list[_Condition]) -> None:
    """Handle ``#else`` and ``#endif``."""
    if not conditions:
        raise line.error(f"#{word} without #ifdef or #ifndef before it in this file")
    if word == "endif":
        conditions.pop()
        return
    condition = conditions[-1]
    if condition.has_else:
        raise line.error(f"second #else of the condition in line {condition.opened.number}")
    condition.has_else = True
    condition.active = condition.parent_active and not condition.active
