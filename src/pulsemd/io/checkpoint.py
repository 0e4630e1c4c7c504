"""Checkpoint files: everything a run needs to go on, on any number of ranks and any device.

Layout: the line ``PulseMD checkpoint 1``; the length of a JSON text, int64 little-endian; that text; the arrays it
lists, little-endian, one after the other; the SHA-256 of all that, 32 bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.output import replacing

NAME: Final = "checkpoint.pmd"
PREVIOUS: Final = "checkpoint.prev.pmd"
_MAGIC: Final = b"PulseMD checkpoint 1\n"
_DIGEST: Final = 32


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State of a run between two steps.

    Parameters
    ----------
    step : int
        Of `x`; `v` belongs to half a step before.
    user_box, box : (3, 3) float64, nm
        Of the files' frame, and the lattice-reduced cell the run uses.
    frame : (3, 3) int64
        ``box = frame @ user_box``.
    x : (n, 3) int32, lattice units of `box`, in order of global ids
    v : (n, 3) float32, nm/ps
    searched : (n, 3) int32, or None
        Positions at the last neighbour search, which define the pair list; None if the next step begins with one.
    searched_box, searched_user_box : (3, 3) float64, nm, or None
        The boxes at that search; None in early files: those of now.
    image : (n, 3) int32, or None
        Box crossings of `searched`, where that is given, else of `x`; None where they are not counted.
    list_cutoff : float, nm
    thermostat_work, barostat_work : float, kJ/mol
    precision : str
    settings : mapping
        Of the .mdp file, by name, seeds included.
    topology : str
        Hash of topology and parameters.
    versions : mapping
    extended : four float or more
        Variables of thermostats and barostat, where these have any.
    nstlist : int
        Steps between two searches; 0, in early files: as in the settings.
    """

    step: int
    user_box: NDArray[np.float64]
    box: NDArray[np.float64]
    frame: NDArray[np.int64]
    x: NDArray[np.int32]
    v: NDArray[np.float32]
    searched: NDArray[np.int32] | None
    image: NDArray[np.int32] | None
    list_cutoff: float
    thermostat_work: float
    precision: str
    settings: Mapping[str, Any]
    topology: str
    versions: Mapping[str, str]
    nstlist: int = 0
    barostat_work: float = 0.0
    extended: tuple[float, ...] = ()
    searched_box: NDArray[np.float64] | None = None
    searched_user_box: NDArray[np.float64] | None = None


_ARRAYS: Final = {
    "user_box": "<f8", "box": "<f8", "frame": "<i8", "x": "<i4", "v": "<f4", "searched": "<i4", "image": "<i4",
    "searched_box": "<f8", "searched_user_box": "<f8",
}  # fmt: skip


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write ``checkpoint.pmd``; the one before becomes ``checkpoint.prev.pmd``. At every moment there is a whole one.

    Raises
    ------
    OutputError
        If it cannot be written; the earlier ones are untouched.
    """
    arrays = {
        name: np.ascontiguousarray(value, kind)
        for name, kind in _ARRAYS.items()
        if (value := getattr(checkpoint, name)) is not None
    }
    values = {f.name: getattr(checkpoint, f.name) for f in fields(checkpoint) if f.name not in _ARRAYS}
    values["arrays"] = {name: list(array.shape) for name, array in arrays.items()}
    text = json.dumps(values).encode()
    parts: list[bytes] = [_MAGIC, len(text).to_bytes(8, "little"), text]
    parts += [array.tobytes() for array in arrays.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    path = folder / NAME
    with replacing(path) as temporary:
        with open(temporary, "wb") as handle:
            handle.writelines([*parts, digest.digest()])
            handle.flush()
            os.fsync(handle.fileno())  # a disk may be found full as late as here
        _keep_previous(path, folder / PREVIOUS)
    return path


def _keep_previous(path: Path, previous: Path) -> None:
    """Give the present file a second name; it keeps the first until it is replaced."""
    if not path.exists():
        return
    second = previous.with_name(f".{previous.name}.part")
    second.unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError:  # a file system without hard links: a moment without the first name
        os.replace(path, previous)
        return
    os.replace(second, previous)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint; a folder stands for the newest one in it.

    Raises
    ------
    InputError
        If it does not exist, is no checkpoint, or is damaged; names the generation before if that is whole.
    """
    file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    try:
        return _decode(file)
    except InputError as error:
        previous = file.with_name(PREVIOUS)
        if file.name != NAME or not previous.exists():
            raise
        try:
            older = _decode(previous)
        except InputError as second:
            raise InputError(f"{error.message}; {PREVIOUS} is no help: {second.message}", file) from error
        raise InputError(
            f"{error.message}; the one before it is whole, of step {older.step}: --restart {previous}", file
        ) from error


def _decode(file: Path) -> Checkpoint:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file) from error
    if not content.startswith(_MAGIC):
        raise InputError("is no PulseMD checkpoint of format 1", file)
    body = memoryview(content)[:-_DIGEST]
    if len(content) < len(_MAGIC) + 8 + _DIGEST or hashlib.sha256(body).digest() != content[-_DIGEST:]:
        raise InputError("is damaged or cut off: its checksum does not match its content", file)
    start = len(_MAGIC) + 8
    length = int.from_bytes(body[len(_MAGIC) : start], "little")
    values = json.loads(bytes(body[start : start + length]))
    start += length
    arrays: dict[str, Any] = dict.fromkeys(_ARRAYS)
    shapes = values.pop("arrays")
    if unknown := {*values, *shapes} - {f.name for f in fields(Checkpoint)}:
        raise InputError(
            f"is of a later version: it has {', '.join(sorted(unknown))}, which this one does not know", file
        )
    for name, shape in shapes.items():
        kind = np.dtype(_ARRAYS[name])
        count = int(np.prod(shape))
        array = np.frombuffer(body, kind, count, offset=start).reshape(shape)
        arrays[name] = array.astype(kind.newbyteorder("="))
        start += count * kind.itemsize
    return Checkpoint(**values, **arrays)
