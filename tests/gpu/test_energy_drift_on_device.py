"""Energy conservation over 100 ps on a device, by the limits of `tests/physics/test_energy_drift.py`; slow."""

from __future__ import annotations

import numpy as np
import pytest
from nve_drift import drifts

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("coulombtype", ["reaction-field", "PME"])
def test_nve_of_tight_tolerance_on_device_does_not_drift(device, pulsemd, coulombtype, precision):
    slopes = drifts(pulsemd, 1e-5, precision, coulombtype, "cuda")
    error = slopes.std(ddof=1) / np.sqrt(len(slopes))
    print(
        f"{coulombtype}, {precision}, tolerance 1e-5: {slopes.mean():.2e} +- {error:.1e} kJ/mol/ps per atom"
    )
    assert abs(slopes.mean()) <= 2e-5 + error


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_nve_of_default_tolerance_on_device_drifts_no_more_than_gmx(device, pulsemd, precision):
    """gmx 2022.5 drifts by 4.2e-4 kJ/mol/ps per atom on this system."""
    slopes = drifts(pulsemd, 0.005, precision, device="cuda")
    print(f"{precision}, tolerance 0.005: {slopes} kJ/mol/ps per atom")
    assert abs(slopes.mean()) <= 4.2e-4
