"""Portions of coupling groups: what each has in common with a group whose centre of mass is stopped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Portions:
    """The portions of a system.

    Parameters
    ----------
    of_atom : (n_atoms,) int32
    bath : (p,) int32, coupling group of each portion
    held : (p,) int32
        Group that it is stopped with; -1: it is not.
    mass : (p,) float64, amu
    """

    of_atom: NDArray[np.int32]
    bath: NDArray[np.int32]
    held: NDArray[np.int32]
    mass: NDArray[np.float64]
