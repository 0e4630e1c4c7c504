"""Writer of structure files in the fixed columns of GROMACS (.gro)."""

from __future__ import annotations

from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.gromacs.decimals import encode
from pulsemd.io.gromacs.gro import BOX_ORDER, CHUNK
from pulsemd.topology.records import Topology

Bytes = NDArray[np.uint8]


def write_gro(
    path: str | PathLike[str],
    topology: Topology,
    positions: ArrayLike,
    velocities: ArrayLike | None,
    box: ArrayLike,
    title: str,
    precision: int = 3,
) -> None:
    """Write one frame as gmx does: velocities with one more decimal than positions, numbers wrap at 99,999.

    Parameters
    ----------
    path : path
    topology : Topology
        Names and residue numbers.
    positions : (n, 3), nm
    velocities : (n, 3), nm/ps, or None
    box : (3, 3), nm, rows a, b, c
    title : str
        One line.
    precision : int
        Decimals of the positions.

    Raises
    ------
    InputError
        If a number is not finite or does not fit its column; the atom is named.
    """
    x = np.asarray(positions, np.float64)
    v = None if velocities is None else np.asarray(velocities, np.float64)
    n = topology.n_atoms
    with open(path, "wb") as handle:
        handle.write(f"{' '.join(title.split())}\n{n:5d}\n".encode())
        for first in range(0, n, CHUNK):
            last = min(first + CHUNK, n)
            columns = [_label_columns(topology, first, last)]
            for values, decimals in ((x, precision), (v, precision + 1)):
                if values is not None:
                    columns += _number_columns(
                        path, topology, values[first:last], first, precision + 5, decimals
                    )
            columns.append(np.full((last - first, 1), ord("\n"), np.uint8))
            handle.write(np.hstack(columns).tobytes())
        handle.write(_box_line(np.asarray(box, np.float64), max(precision, 5)).encode())


def _label_columns(topology: Topology, first: int, last: int) -> Bytes:
    labels = topology.labels(first, last)
    atom_number = np.arange(first + 1, last + 1)
    return np.hstack(
        [
            _integer_columns(labels.residue_number % 100000),
            _name_columns(labels.residue_name, right=False),
            _name_columns(labels.atom_name, right=True),
            _integer_columns(atom_number % 100000),
        ]
    )


def _integer_columns(values: NDArray[np.int64]) -> Bytes:
    """Non-negative integers below 100,000 right-aligned in five columns."""
    columns, rest = np.empty((len(values), 5), np.uint8), values
    for column in range(4, -1, -1):
        digit = (rest % 10 + ord("0")).astype(np.uint8)
        columns[:, column] = np.where((rest > 0) | (column == 4), digit, ord(" "))
        rest = rest // 10
    return columns


def _name_columns(names: NDArray[np.bytes_], right: bool) -> Bytes:
    """Names cut to five characters and filled up with spaces."""
    unique, index = np.unique(names.astype("S5"), return_inverse=True)
    padded = [name.rjust(5) if right else name.ljust(5) for name in unique.tolist()]
    return np.array(padded, "S5").view(np.uint8).reshape(-1, 5)[index]


def _number_columns(
    path: str | PathLike[str],
    topology: Topology,
    values: NDArray[np.float64],
    first: int,
    width: int,
    decimals: int,
) -> list[Bytes]:
    columns = []
    for k in range(3):
        text, fits = encode(values[:, k], width, decimals)
        if not fits.all():
            bad = int(np.flatnonzero(~fits)[0])
            raise InputError(
                f"{topology.describe_atom(first + bad)}: {values[bad, k]} does not fit in {width} characters "
                f"with {decimals} decimals; wrap the molecules into the box before writing",
                path,
            )
        columns.append(text)
    return columns


def _box_line(box: NDArray[np.float64], decimals: int) -> str:
    rectangular = not (box - np.diag(np.diagonal(box))).any()
    places = BOX_ORDER[:3] if rectangular else BOX_ORDER
    return "".join(f"{box[place]:{decimals + 5}.{decimals}f}" for place in places) + "\n"
