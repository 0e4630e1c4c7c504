"""The mesh of PME: its size by the rules of gmx, and what interpolation with B-splines does to a wave on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pulsemd.base.errors import InputError

ORDERS = (4, 5, 6)
"""Orders of B-splines there are: points along each axis that a charge is spread over."""

_SMALL = (6, 8, 10, 12, 14, 16, 20, 24, 25, 28, 32, 36, 40, 42, 44, 48, 52, 56, 60, 64, 72, 80, 84)
_MIDDLE = (96, 100, 104, 108, 112, 120, 128, 144, 160, 168)
_BASES = (48, 50, 52, 54, 56, 60, 64, 70, 72, 75, 80, 81, 84)  # times 4, 8, 16 ... above the middle
_LARGEST = 4096


@dataclass(frozen=True, eq=False)
class Mesh:
    """Where the points of a mesh are.

    Parameters
    ----------
    shape : three int
        Points along a, b and c of the mesh's box.
    order : int, of the B-splines, 4 to 6
    box : (3, 3) float64, nm
        A cell of the lattice of the run's box; the mesh is along its vectors.
    frame : (3, 3) int64, unimodular
        The run's box is ``frame @ box``, so a lattice position x of the run is x @ frame on the mesh, modulo 2^32.
    """

    shape: tuple[int, ...]
    order: int
    box: np.ndarray
    frame: np.ndarray


def mesh_size(
    box: np.ndarray,
    spacing: float,
    order: int,
    given: Sequence[int] = (0, 0, 0),
    skip_13: bool = False,
) -> tuple[int, ...]:
    """Points along a, b and c, as gmx 2022.5 chooses them.

    Parameters
    ----------
    box : (3, 3) float64, nm
    spacing : float, nm
        Largest distance of two points; sizes are then the next that transform fast, at least 2 (order - 1).
    order : int
    given : three int
        Sizes asked for, 0: choose.
    skip_13 : bool
        Choose no multiple of 13, such as 52 and 104: cuFFT needs twice the time for them.

    Raises
    ------
    InputError
        If a size is below the order or above 4096.
    """
    sizes = []
    for axis, length, wanted in zip("xyz", np.linalg.norm(box, axis=1), given, strict=True):
        if wanted:
            if not order <= wanted <= _LARGEST:
                raise InputError(
                    f"fourier-n{axis} = {wanted}: give from pme-order = {order} to {_LARGEST} points"
                )
            sizes.append(int(wanted))
            continue
        least = max(int(length / spacing + 0.999), 2 * (order - 1))
        if least > _LARGEST:
            raise InputError(
                f"fourierspacing = {spacing:g} nm: a PME mesh of over {_LARGEST} points; raise it"
            )
        large = (base * 2**k for k in range(2, 8) for base in _BASES)
        known = (*_SMALL, *_MIDDLE, *large)
        sizes.append(next(n for n in known if n >= least and not (skip_13 and n % 13 == 0)))
    return tuple(sizes)


def spline_values(order: int) -> np.ndarray:
    """Values of the cardinal B-spline at 1, 2 ... order - 1, float64."""
    values = np.array([1.0])
    for n in range(3, order + 1):
        k = np.arange(1, n)
        left, right = np.append(values, 0.0), np.append(0.0, values)
        values = (k * left + (n - k) * right) / (n - 1)
    return values


def wave_factors(n_points: int, order: int) -> np.ndarray:
    """|b(m)|^2 of Essmann's Euler exponential splines for all waves m = 0 ... n - 1, (n,) float64.

    Splines of odd order do not see the shortest wave of an even number of points; it gets the mean of its neighbors.

    References
    ----------
    Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 4.4.
    """
    values = np.zeros(n_points)
    np.add.at(values, np.arange(order - 1) % n_points, spline_values(order))
    size = np.abs(np.fft.fft(values)) ** 2
    if order % 2 and n_points % 2 == 0:
        half = n_points // 2
        size[half] = 0.5 * (size[half - 1] + size[(half + 1) % n_points])
    return 1.0 / size


def signed_waves(n_points: int) -> np.ndarray:
    """Wave numbers of the elements of a transform, -n/2 to below n/2 as gmx counts them, (n,) int64."""
    waves = np.arange(n_points)
    return np.where(2 * waves >= n_points, waves - n_points, waves)
