"""CUDA programs of the device layer itself."""

from __future__ import annotations

from pulsemd.device.program import CudaProgram


def publish_program() -> CudaProgram:
    """Copies small arrays to the host."""
    return CudaProgram("pulsemd.device", "publish.cu")


def stamp_program() -> CudaProgram:
    """The clock of the device into a word."""
    return CudaProgram("pulsemd.device", "stamp.cu")


def programs() -> list[CudaProgram]:
    """Every variant that a run can ask for."""
    return [publish_program(), stamp_program()]
