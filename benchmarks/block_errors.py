"""Errors of means and widths of correlated samples, from blocks that are longer than the correlation.

References
----------
H. Flyvbjerg, H. G. Petersen, J. Chem. Phys. 91, 461 (1989); B. Efron, The Jackknife, the Bootstrap and Other Resampling
Plans (1982).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCKS: Final = (8, 12, 16, 24, 32)
"""Numbers of blocks; the largest error counts, as blocks that are too short give too small ones."""


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean of values (n,), and its error by blocks; in the unit of the values."""
    errors = [
        np.std([block.mean() for block in np.array_split(values, n)], ddof=1) / np.sqrt(n) for n in BLOCKS
    ]
    return float(values.mean()), float(max(errors))


def width_and_error(values: NDArray[np.float64], n: int = 16) -> tuple[float, float]:
    """Standard deviation of values (n,), and its error by the jackknife over `n` blocks."""
    blocks = np.array_split(values, n)
    without = np.array([np.std(np.concatenate(blocks[:k] + blocks[k + 1 :])) for k in range(n)])
    return float(values.std()), float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
