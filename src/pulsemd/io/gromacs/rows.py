"""One row of a topology section as words, with errors that name file and line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pulsemd.base.errors import TopologyError
from pulsemd.io.gromacs.preprocessor import Line


@dataclass(frozen=True, slots=True)
class Row:
    """The words of one line of a section."""

    line: Line
    words: list[str]

    def __len__(self) -> int:
        return len(self.words)

    def error(self, message: str) -> TopologyError:
        """Build an error that points to this line."""
        return self.line.error(message)

    def expect(self, least: int, most: int, columns: str) -> None:
        """Refuse another number of columns; ``columns`` names them for the message."""
        if not least <= len(self.words) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise self.error(f"{count} columns are expected ({columns}), not {len(self.words)}")

    def integer(self, column: int, what: str) -> int:
        """Read a whole number."""
        word = self.words[column]
        if not word.lstrip("+-").isascii() or not word.lstrip("+-").isdigit():
            raise self.error(f"{what}: a whole number is expected, not {word!r}")
        return int(word)

    def number(self, column: int, what: str) -> float:
        """Read a finite number."""
        word = self.words[column]
        try:
            value = float(word.replace("_", "?"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"{what}: a finite number is expected, not {word!r}")
        return value

    def atom(self, column: int, n_atoms: int) -> int:
        """Read the number of an atom of the current molecule, from 1; returns the index from 0."""
        index = self.integer(column, "atom number")
        if not 1 <= index <= n_atoms:
            raise self.error(f"atom {index} does not exist: the molecule has atoms 1 to {n_atoms}")
        return index - 1
