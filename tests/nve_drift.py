"""The energy of the bundled water over 100 ps without thermostat."""

from __future__ import annotations

import numpy as np

from pulsemd.io.energies import read_energies

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
SEEDS = (1, 2, 3)


def run(pulsemd, name, settings, steps, seed, precision, device="cpu"):
    """Energies of a run of the bundled water."""
    (pulsemd.folder / f"{name}.mdp").write_text(settings)
    words = ["run", "water", "-f", f"{name}.mdp", "-o", name, "--steps", steps, "--seed", seed]
    pulsemd.summary(*words, "--precision", precision, "--device", device, timeout=3600)
    return read_energies(pulsemd.folder / name / "energies.csv")


def drifts(pulsemd, tolerance, precision, coulombtype="reaction-field", device="cpu"):
    """Slope of the total energy over 100 ps for each seed, kJ/mol/ps per atom."""
    slopes = []
    for seed in SEEDS:
        settings = SETTINGS.format(tolerance=tolerance, coulombtype=coulombtype)
        name = f"nve-{coulombtype}-{precision}-{tolerance}-{seed}"
        table = run(pulsemd, name, settings, 50_000, seed, precision, device)
        slopes.append(np.polyfit(table["time_ps"], table["total"], 1)[0] / 3000)
    return np.array(slopes)
