"""The periodic cell of a run, which a barostat scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cell:
    """A periodic cell in the two bases that a run uses.

    Parameters
    ----------
    box : (3, 3) float64, nm, rows a, b, c
        Lattice-reduced: what lattice positions refer to.
    user_box : (3, 3) float64, nm
        Of the files' frame.
    """

    box: NDArray[np.float64]
    user_box: NDArray[np.float64]

    @property
    def volume(self) -> float:
        """Volume, nm^3."""
        return abs(float(np.linalg.det(self.box)))

    def strain(self, earlier: Cell) -> NDArray[np.float64]:
        """Factors (3,) along x, y and z that stretch an earlier cell to this one; exactly 1 where nothing changed."""
        return np.asarray(np.linalg.norm(self.box, axis=0) / np.linalg.norm(earlier.box, axis=0), np.float64)

    def scaled(self, factors: NDArray[np.float64]) -> Cell:
        """The cell stretched by factors (3,) along x, y and z; positions on the lattice go with it."""
        return Cell(self.box * factors, self.user_box * factors)
