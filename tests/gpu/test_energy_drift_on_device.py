"""Energy conservation over 100 ps on a device, by the limits of `tests/physics/test_energy_drift.py`; slow."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.io.energies import read_energies

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(1200)]
SETTINGS = """
integrator = md
dt = 0.002
nstenergy = 50
nstcalcenergy = 50
nstlist = 20
cutoff-scheme = Verlet
verlet-buffer-tolerance = {tolerance}
coulombtype = {coulombtype}
rcoulomb = 1.0
rvdw = 1.0
vdw-modifier = potential-shift
comm-mode = linear
nstcomm = 100
gen-vel = yes
gen-temp = 300
"""
N_ATOMS = 3000
SEEDS = (1, 2, 3)


def drifts(pulsemd, tolerance, precision, coulombtype="reaction-field"):
    """Slope of the total energy of the bundled water over 100 ps for each seed, kJ/mol/ps per atom."""
    (pulsemd.folder / "nve.mdp").write_text(SETTINGS.format(tolerance=tolerance, coulombtype=coulombtype))
    slopes = []
    for seed in SEEDS:
        out = f"nve-{seed}"
        words = ["run", "water", "-f", "nve.mdp", "-o", out, "--steps", 50_000, "--seed", seed]
        pulsemd.summary(*words, "--precision", precision, "--device", "cuda", timeout=300)
        table = read_energies(pulsemd.folder / out / "energies.csv")
        slopes.append(np.polyfit(table["time_ps"], table["total"], 1)[0] / N_ATOMS)
    return np.array(slopes)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("coulombtype", ["reaction-field", "PME"])
def test_nve_of_tight_tolerance_on_device_does_not_drift(device, pulsemd, coulombtype, precision):
    slopes = drifts(pulsemd, 1e-5, precision, coulombtype)
    error = slopes.std(ddof=1) / np.sqrt(len(slopes))
    print(
        f"{coulombtype}, {precision}, tolerance 1e-5: {slopes.mean():.2e} +- {error:.1e} kJ/mol/ps per atom"
    )
    assert abs(slopes.mean()) <= 2e-5 + error


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_nve_of_default_tolerance_on_device_drifts_no_more_than_gmx(device, pulsemd, precision):
    """gmx 2022.5 drifts by 4.2e-4 kJ/mol/ps per atom on this system."""
    slopes = drifts(pulsemd, 0.005, precision)
    print(f"{precision}, tolerance 0.005: {slopes} kJ/mol/ps per atom")
    assert abs(slopes.mean()) <= 4.2e-4
