"""Energies of a run as a table, ``energies.csv``: one line per energy step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.io.output import RecordFile, write_whole


class EnergyWriter(RecordFile):
    """Writes ``energies.csv``; each line is complete and visible to other programs at once.

    Parameters
    ----------
    path : path
        A new file, unless it is continued.
    columns : tuple of str
        Names of the values, in order.
    before : int or None
        Continue the file, without its lines of this step and later; a line that was cut off is dropped.
    due : int
        A step of which the file to be continued has a line, if its interval was always that of now; -1: none.

    Raises
    ------
    InputError
        If the file exists already, or that to be continued has other columns or lacks lines.
    """

    def __init__(
        self, path: str | Path, columns: tuple[str, ...], before: int | None = None, due: int = -1
    ) -> None:
        super().__init__(path, extend=before is not None)
        self.columns = columns
        header = ",".join(("step", "time_ps", *columns)).encode() + b"\n"
        if before is None:
            self.append(header)
        else:
            self._cut_back(header, before, due)

    def _cut_back(self, header: bytes, before: int, due: int) -> None:
        lines = self.read(0, self.size()).splitlines(keepends=True)
        if not lines or lines[0] != header:
            raise InputError("has other columns than this run; continue with another -o", self.path, 1)
        size, steps = len(header), [-1]
        for line in lines[1:]:
            step = line.partition(b",")[0]
            if not line.endswith(b"\n") or not step.isdigit() or int(step) >= before:
                break
            size += len(line)
            steps.append(int(step))
        last = steps[-1]
        between = last - steps[-2] if len(steps) > 2 else 0  # the interval may have been another before
        if last < due and last + between < before:
            held = "has no whole line" if last < 0 else f"ends with step {last}"
            raise InputError(
                f"{held}, and lines up to the checkpoint's step {before} are missing; continue with another -o",
                self.path,
            )
        self.cut(size)

    def write(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Append the values of one step; every float is written so that it reads back unchanged.

        Parameters
        ----------
        step : int
        time : float
            ps
        values : mapping
            Exactly the columns.

        Raises
        ------
        ValueError
            If a column is missing or unknown.
        """
        if values.keys() != set(self.columns):
            differing = ", ".join(sorted(values.keys() ^ set(self.columns)))
            raise ValueError(f"values and columns of {self.path} differ in: {differing}")
        fields = [str(int(step)), f"{time:.10g}", *(repr(float(values[name])) for name in self.columns)]
        self.append(",".join(fields).encode() + b"\n")


def read_energies(path: str | Path) -> dict[str, NDArray[np.float64]]:
    """All columns of an ``energies.csv`` by name, ``step`` and ``time_ps`` included.

    Raises
    ------
    InputError
        If a line has another number of fields than the header, is cut off, or a field is no number.
    """
    with open(path, encoding="utf-8") as handle:
        names = handle.readline().rstrip("\n").split(",")
        rows = []
        for number, line in enumerate(handle, start=2):
            fields = line.rstrip("\n").split(",")
            if len(fields) != len(names):
                raise InputError(f"{len(fields)} fields where {len(names)} are expected", path, number)
            if not line.endswith("\n"):
                raise InputError("the line is cut off", path, number)
            try:
                rows.append([float(field) for field in fields])
            except ValueError as error:
                raise InputError(str(error), path, number) from None
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return {name: table[:, column] for column, name in enumerate(names)}


def write_xvg(path: str | Path, table: str | Path, title: str) -> None:
    """Write all columns of an ``energies.csv`` as a .xvg file for Grace and the programs that read GROMACS's.

    Raises
    ------
    InputError
        As `read_energies`.
    OutputError
        If it cannot be written.
    """
    columns = read_energies(table)
    names = [name for name in columns if name not in ("step", "time_ps")]
    head = [
        f'@ title "{title}"',
        '@ xaxis label "Time (ps)"',
        '@ yaxis label "kJ/mol, K, bar, nm^3, kg/m^3"',
        "@TYPE xy",
    ]
    head += [f'@ s{k} legend "{name}"' for k, name in enumerate(names)]
    rows = np.column_stack([columns["time_ps"], *(columns[name] for name in names)])
    body = "\n".join(" ".join(f"{value:.10g}" for value in row) for row in rows)
    write_whole(path, ["\n".join(head).encode(), b"\n", body.encode(), b"\n"])
