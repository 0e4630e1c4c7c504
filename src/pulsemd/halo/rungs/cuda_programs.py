"""The CUDA programs of host-driven exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from pulsemd.device.program import CudaProgram

_NUMBERS: Final = {"int32": "int", "int64": "unsigned long long", "float32": "float", "float64": "double"}
THREADS: Final = 256


def rows_program(dtype: Any, width: int) -> CudaProgram:
    """`rows.cu` for rows of ``width`` elements."""
    unit = "int" if width * np.dtype(dtype).itemsize % 16 else "int4"
    defines = (("UNIT", unit), ("NUMBER", f"{_NUMBERS[str(np.dtype(dtype))]}"))
    return CudaProgram(__package__ or "", "rows.cu", defines)


def units_of(dtype: Any, width: int) -> int:
    """Units of UNIT in a row."""
    n_bytes: int = width * np.dtype(dtype).itemsize
    return n_bytes // (4 if n_bytes % 16 else 16)


def programs() -> Iterator[CudaProgram]:
    """All variants."""
    for dtype in _NUMBERS:
        for width in (3, 4):
            yield rows_program(dtype, width)
