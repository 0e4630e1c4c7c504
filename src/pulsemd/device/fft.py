"""Three-dimensional Fourier transforms of real arrays on a device, in place, by cuFFT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice


class RealTransform:
    """A real array on a device and its transform in the same memory.

    Parameters
    ----------
    device : CudaDevice
    shape : three int
        Of the real array.
    dtype : float32 or float64

    Attributes
    ----------
    row : int
        Complex numbers of a row, at least n_c/2 + 1; a multiple of 2, so that rows begin at whole vectors of four.
    array : (n_a, n_b, 2 row) of the dtype, device
        Real rows of n_c numbers, or complex rows of n_c/2 + 1; what follows in a row means nothing.

    Notes
    -----
    `forward` and `inverse` are not normalised: one after the other multiplies by the number of points. Both only
    launch, on the stream given, and can be captured in a graph.
    """

    def __init__(self, device: CudaDevice, shape: tuple[int, ...], dtype: Any) -> None:
        self.device, self.shape, self.dtype = device, shape, np.dtype(dtype)
        half = shape[2] // 2 + 1
        self.row = half + half % 2
        self.array = device.zeros((*shape[:2], 2 * self.row), dtype)
        self._forward, self._inverse = plan_transforms(device, shape, self.row, self.dtype)

    def forward(self, stream: Any) -> None:
        """From real to complex, sum of exp(-2 pi i m k / n)."""
        self._forward(self.array, stream)

    def inverse(self, stream: Any) -> None:
        """From complex to real, sum of exp(+2 pi i m k / n)."""
        self._inverse(self.array, stream)


Transform = Callable[[Any, Any], None]


def plan_transforms(
    device: CudaDevice, shape: tuple[int, ...], row: int, dtype: np.dtype[Any]
) -> tuple[Transform, Transform]:
    """Transforms of a real array of rows of 2 ``row`` numbers, in place, forth and back."""
    from cupy.cuda import cufft

    single = dtype == np.float32
    real, spectrum = (*shape[:2], 2 * row), (*shape[:2], row)
    n_real, n_complex = (int(np.prod(extent)) for extent in (real, spectrum))
    options = 1, "C", 2, None
    with device.current():
        forward = cufft.PlanNd(
            shape, real, 1, n_real, spectrum, 1, n_complex,
            cufft.CUFFT_R2C if single else cufft.CUFFT_D2Z, *options,
        )  # fmt: skip
        inverse = cufft.PlanNd(
            shape, spectrum, 1, n_complex, real, 1, n_real,
            cufft.CUFFT_C2R if single else cufft.CUFFT_Z2D, *options,
        )  # fmt: skip

    def launch(plan: Any, direction: int) -> Transform:
        def transform(array: Any, stream: Any) -> None:
            with stream:
                plan.fft(array, array, direction)

        return transform

    return launch(forward, cufft.CUFFT_FORWARD), launch(inverse, cufft.CUFFT_INVERSE)
