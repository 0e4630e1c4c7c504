"""Errors of means and widths of correlated samples."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCKS: Final = (8, 12, 16, 24, 32)


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean, and its error by blocks."""
    errors = [
        np.std([block.mean() for block in np.array_split(values, n)], ddof=1) / np.sqrt(n) for n in BLOCKS
    ]
    return float(values.mean()), float(max(errors))


def width_and_error(values: NDArray[np.float64], n: int = 16) -> tuple[float, float]:
    """Standard deviation, and its error by leaving out one block after another."""
    blocks = np.array_split(values, n)
    without = np.array([np.std(np.concatenate(blocks[:k] + blocks[k + 1 :])) for k in range(n)])
    return float(values.std()), float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
