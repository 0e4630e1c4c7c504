"""CUDA programs of the halo exchange on GPUs."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np

from pulsemd.device.program import CudaProgram
from pulsemd.halo.device.memory import COPIES, NO_NETWORK, NVSHMEM

THREADS: Final = 256
"""Threads of a block."""

WAYS: Final = ("land", "pull", "push")
"""How ghost rows go back to their owners, see reverse.cu."""

_PACKAGE: Final = "pulsemd.halo.device"
_SCALARS: Final = {"int32": "int", "int64": "long long", "float32": "float", "float64": "double"}
_VECTOR_BYTES: Final = 16


def forward_program(row_bytes: int, network: int) -> tuple[CudaProgram, int]:
    """The program that copies rows of a size, and the number of its units in a row."""
    unit = next(size for size in (16, 8, 4) if row_bytes % size == 0)
    macros = (("UNIT_BYTES", unit), ("UNITS", _fixed(row_bytes // unit)))
    return _program("forward.cu", macros, network), row_bytes // unit


def reverse_program(dtype: Any, width: int, way: str, network: int) -> tuple[CudaProgram, int]:
    """The program that sums rows of a dtype and width, and the number of its units in a row."""
    kind = np.dtype(dtype)
    lanes = _VECTOR_BYTES // kind.itemsize if width * kind.itemsize % _VECTOR_BYTES == 0 else 1
    macros = (
        ("SCALAR", _SCALARS[kind.name]),
        ("LANES", lanes),
        ("UNITS", _fixed(width // lanes)),
        ("VECTOR_ADD", int(kind == np.float32 and lanes > 1)),
        ("WAY", WAYS.index(way)),
    )
    return _program("reverse.cu", macros, network), width // lanes


def reduce_program(dtype: Any, network: int) -> CudaProgram:
    """The all-reduce of int64 or float64 values."""
    return _program("reduce.cu", (("SCALAR", _SCALARS[np.dtype(dtype).name]),), network)


def array_sum_program(dtype: Any, network: int) -> CudaProgram:
    """The sum of large arrays of int64 or float32."""
    return _program("array_sum.cu", (("SCALAR", _SCALARS[np.dtype(dtype).name]),), network)


def barrier_program(network: int) -> CudaProgram:
    """The barrier of all processes."""
    return _program("barrier.cu", (), network)


def direct_program(network: int) -> CudaProgram:
    """Tables of direct plans that kernels have made."""
    return _program("direct.cu", (), network)


def step_program() -> CudaProgram:
    """Routes of exchanges inside steps."""
    return _program("step.cu", (), NO_NETWORK)


def _fixed(units: int) -> int:
    """Units of a row that the compiler knows: for the one or two that MD uses."""
    return units if units <= 2 else 0


def _program(file: str, macros: tuple[tuple[str, int | str], ...], network: int) -> CudaProgram:
    every = (*macros, ("NETWORK", network), ("THREADS", THREADS))
    return CudaProgram(_PACKAGE, file, every, relocatable=network == NVSHMEM)


def programs() -> list[CudaProgram]:
    """One program of every kind that a channel can ask for, with and without puts."""
    networks = (NO_NETWORK, COPIES, NVSHMEM)
    forward = [forward_program(size, n)[0] for size, n in product((16, 32, 48, 8, 24, 4, 12), networks)]
    fields = [(dtype, width) for dtype in _SCALARS for width in (4, 3, 12)]
    back = [
        reverse_program(dtype, width, way, network)[0]
        for (dtype, width), (way, network) in product(
            fields, [("land", n) for n in networks] + [("pull", NO_NETWORK), ("push", NO_NETWORK)]
        )
    ]
    sums = [reduce_program(dtype, n) for dtype, n in product(("int64", "float64"), networks)]
    others = [make(network) for make in (barrier_program, direct_program) for network in networks]
    large = [array_sum_program(dtype, n) for dtype, n in product(("int64", "float32"), networks)]
    return [*dict.fromkeys([*forward, *back, *sums, *others, *large, step_program()])]
