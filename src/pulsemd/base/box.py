"""Boxes: 3 x 3, rows a, b, c in nm."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def widths_of(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Perpendicular widths (3,) nm of a box: distances between opposite faces, |det| / |b x c| and cyclic."""
    return np.array(_widths(np.ascontiguousarray(box, np.float64).tobytes()))


@lru_cache(maxsize=16)
def _widths(box: bytes) -> tuple[float, ...]:
    reciprocal = np.linalg.inv(np.frombuffer(box).reshape(3, 3)).T  # the width along a is 1 / |a*|
    return tuple((1.0 / np.linalg.norm(reciprocal, axis=1)).tolist())
