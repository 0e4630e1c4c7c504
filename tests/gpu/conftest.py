"""Tests that need a CUDA device; without one they are reported as skipped, with the reason."""

from __future__ import annotations

import pytest

from pulsemd.device.cuda import CudaDevice, find_device_problem


@pytest.fixture(scope="session")
def device() -> CudaDevice:
    problem = find_device_problem()
    if problem is not None:
        pytest.skip(problem)
    return CudaDevice()
