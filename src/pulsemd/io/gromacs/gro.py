"""Structure files of one frame in the fixed columns of GROMACS (.gro)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.gromacs.decimals import decode

log = logging.getLogger(__name__)

Bytes = NDArray[np.uint8]
NAMES = 20
"""Columns before the positions: residue number, residue name, atom name, atom number, five each."""
CHUNK = 1 << 18
"""Atoms handled at once; bounds the memory for temporary arrays."""
BOX_ORDER = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))
"""Places of the numbers of the box line in the matrix with rows a, b, c."""


@dataclass(frozen=True, eq=False)
class GroFile:
    """One frame as read.

    Parameters
    ----------
    title : str
    residue_name, atom_name : (n,) bytes of length 5
    positions : (n, 3) float64, nm
    velocities : (n, 3) float32, nm/ps, or None
        Zero for atoms without, if others have them.
    box : (3, 3) float64, nm, rows a, b, c
    """

    title: str
    residue_name: NDArray[np.bytes_]
    atom_name: NDArray[np.bytes_]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float32] | None
    box: NDArray[np.float64]


@dataclass(frozen=True)
class _Text:
    """The bytes of a file and where its lines are, line ends and carriage returns excluded."""

    path: str
    content: Bytes
    start: NDArray[np.int64]
    length: NDArray[np.int64]

    def line(self, index: int) -> str:
        first = self.start[index]
        return self.content[first : first + self.length[index]].tobytes().decode("utf-8", "replace")

    def block(self, first: int, last: int) -> Bytes:
        """Lines ``first <= i < last`` as rows, filled up with spaces."""
        start, length = self.start[first:last], self.length[first:last]
        width, stride = int(length.max()), int(start[1] - start[0]) if last - first > 1 else 1
        if int(length.min()) == width and (np.diff(start) == stride).all():
            rows = np.lib.stride_tricks.as_strided(
                self.content[start[0] :], (last - first, width), (stride, 1)
            )
            return np.ascontiguousarray(rows)
        rows = np.full((last - first, width), ord(" "), np.uint8)
        for column in range(width):
            reaching = np.flatnonzero(length > column)
            rows[reaching, column] = self.content[start[reaching] + column]
        return rows


@dataclass(frozen=True)
class _Layout:
    """Width of the columns and places of the decimal points in them; None: no velocities in the file."""

    width: int
    position_dot: int
    velocity_dot: int | None


def read_gro(path: str | PathLike[str]) -> GroFile:
    """Read a file of one frame.

    The number of decimals follows from the distance between the decimal points of the first atom, as in gmx.
    Atom and residue numbers are not used, so they may wrap.

    Raises
    ------
    InputError
        With file and line: wrong counts, columns that do not fit, numbers that are not finite, no box, a box
        without volume, more than one frame.
    """
    text = _load(path)
    n = _count(text)
    box = _box(text, 2 + n)
    _check_end(text, n)
    layout = _layout(text, n)
    positions = np.empty((n, 3))
    velocities = None if layout.velocity_dot is None else np.zeros((n, 3), np.float32)
    names = np.empty((2, n), "S5")
    missing = 0
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        rows = text.block(2 + first, 2 + last)
        names[:, first:last] = _names(rows)
        positions[first:last] = _fields(text, rows, first, NAMES, layout.width, layout.position_dot)
        if velocities is not None and layout.velocity_dot is not None:
            column = NAMES + 3 * layout.width
            given = np.flatnonzero(text.length[2 + first : 2 + last] > column)
            given = given[(rows[given, column:] != ord(" ")).any(axis=1)]
            missing += last - first - len(given)
            if len(given):
                values = _fields(text, rows[given], first + given, column, layout.width, layout.velocity_dot)
                velocities[first + given] = values
    if missing:
        log.warning("%s: %d of %d atoms have no velocity; theirs are set to zero", path, missing, n)
    return GroFile(text.line(0).strip(), names[0], names[1], positions, velocities, box)


def _load(path: str | PathLike[str]) -> _Text:
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    if not len(content):
        raise InputError(
            "the file is empty; a title, the number of atoms, atoms and a box are expected", path, 1
        )
    if content[-1] != ord("\n"):
        content = np.append(content, np.uint8(ord("\n")))
    end = np.flatnonzero(content == ord("\n"))
    start = np.concatenate([np.zeros(1, np.int64), end[:-1] + 1])
    length = end - start
    length -= (length > 0) & (content[end - 1] == ord("\r"))
    return _Text(str(path), content, start, length)


def _count(text: _Text) -> int:
    """Number of atoms of line 2, checked against the number of lines."""
    given = text.line(1).strip() if len(text.start) > 1 else ""
    if not given.removeprefix("-").isascii() or not given.removeprefix("-").isdigit():
        if Path(text.path).suffix != ".gro":
            raise InputError(
                f"is no .gro file, and others are not read; gmx editconf -f {text.path} -o conf.gro makes one",
                text.path,
            )
        raise InputError(f"the number of atoms is expected in line 2, not {given[:30]!r}", text.path, 2)
    n = int(given)
    if n <= 0:
        raise InputError(f"the number of atoms is {n}; there must be at least one atom", text.path, 2)
    present = len(text.start) - 3
    if n > present:
        raise InputError(
            f"line 2 announces {n} atoms, which with the box needs {n + 3} lines, but the file has "
            f"{present + 3}; correct the number of atoms, or add the missing atoms or the box",
            text.path,
            2,
        )
    return n


def _check_end(text: _Text, n: int) -> None:
    """Refuse text after the box of the first frame."""
    for extra in range(n + 3, len(text.start)):
        if text.line(extra).strip():
            raise InputError(
                f"text after the box of {n} atoms; the number of atoms in line 2 is too small, or the file "
                "has several frames: keep one",
                text.path,
                extra + 1,
            )


def _box(text: _Text, index: int) -> NDArray[np.float64]:
    line = text.line(index)
    try:
        numbers = [float(word) for word in line.replace("_", "?").split()]
    except ValueError as error:
        raise InputError(
            f"the box (3 or 9 numbers) is expected after {index - 2} atoms, not {line.strip()[:40]!r}; is "
            "the number of atoms in line 2 right?",
            text.path,
            index + 1,
        ) from error
    if len(numbers) not in (3, 9):
        raise InputError(f"the box has 3 or 9 numbers, not {len(numbers)}", text.path, index + 1)
    box = np.zeros((3, 3))
    for place, value in zip(BOX_ORDER, numbers, strict=False):
        box[place] = value
    if not np.isfinite(box).all() or abs(np.linalg.det(box)) <= 1e-9:
        raise InputError(
            "the box has no volume; give the size of the periodic box in nm", text.path, index + 1
        )
    return box


def _layout(text: _Text, n: int) -> _Layout:
    line = text.line(2)
    dots = [i for i, character in enumerate(line) if character == "." and i >= NAMES][:3]
    if len(dots) < 3:
        raise InputError(
            f"{_atom(line, 0)}: three numbers with decimal points are expected, not {line[NAMES:].strip()!r}",
            text.path,
            3,
        )
    width = dots[1] - dots[0]
    position_dot = dots[0] - NAMES
    if dots[2] - dots[1] != width or not 0 <= position_dot < width - 1:
        raise InputError(
            f"{_atom(line, 0)}: the decimal points of x, y and z are not evenly spaced in columns",
            text.path,
            3,
        )
    if width > 24:
        raise InputError(
            f"{_atom(line, 0)}: columns of {width} characters; at most 24 can be read", text.path, 3
        )
    column = NAMES + 3 * width
    with_velocity = np.flatnonzero(text.length[2 : 2 + n] > column)
    for atom in map(int, with_velocity):
        rest = text.line(2 + atom)[column:]
        if rest.strip():
            dot = rest.find(".")
            if not 0 <= dot < width - 1:
                raise InputError(f"{_atom(line, atom)}: unreadable velocity {rest!r}", text.path, atom + 3)
            return _Layout(width, position_dot, dot)
    return _Layout(width, position_dot, None)


def _names(rows: Bytes) -> NDArray[np.bytes_]:
    """Residue and atom names, (2, n), without the spaces around them."""
    residue, atom = (np.ascontiguousarray(rows[:, c : c + 5]).view("S5")[:, 0] for c in (5, 10))
    return np.stack([np.char.strip(residue), np.char.strip(atom)])


def _fields(
    text: _Text, rows: Bytes, atoms: int | NDArray[np.int64], column: int, width: int, dot: int
) -> NDArray[np.float64]:
    """Three numbers of every row; ``atoms`` are their indices, or the first of consecutive ones."""
    if rows.shape[1] < column + 3 * width:
        rows = np.pad(rows, ((0, 0), (0, column + 3 * width - rows.shape[1])), constant_values=ord(" "))
    values, valid = np.empty((len(rows), 3)), np.ones(len(rows), np.bool_)
    for k in range(3):
        first = column + k * width
        values[:, k], good = decode(rows[:, first : first + width], dot)
        valid &= good
    if not valid.all():
        bad = int(np.flatnonzero(~valid)[0])
        index = bad + atoms if isinstance(atoms, int) else int(atoms[bad])
        line = text.line(2 + index)
        raise InputError(
            f"{_atom(line, index)}: {line[column : column + 3 * width].rstrip()!r} is not three finite "
            f"numbers of {width} characters with the decimal point at character {dot + 1}, as in the first",
            text.path,
            index + 3,
        )
    return values


def _atom(line: str, index: int) -> str:
    """Name an atom by residue and index."""
    return f"{line[5:10].strip()} {line[:5].strip()} {line[10:15].strip()} (atom {index + 1})"
