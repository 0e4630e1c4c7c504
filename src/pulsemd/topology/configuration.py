"""Where the atoms are: what a structure file adds to a topology."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Configuration:
    """Positions, velocities and box as read, in the user's frame.

    Parameters
    ----------
    positions : (n, 3) float64, nm
        Not wrapped into the box.
    velocities : (n, 3) float32, nm/ps, or None
    box : (3, 3) float64, nm
        Rows a, b, c.
    title : str
    reference : (n, 3) float64, nm, or None
        Reference positions of position restraints.
    """

    positions: NDArray[np.float64]
    velocities: NDArray[np.float32] | None
    box: NDArray[np.float64]
    title: str
    reference: NDArray[np.float64] | None = None
