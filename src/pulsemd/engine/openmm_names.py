"""Names of OpenMM's Simulation, for whoever writes one of them here."""

from __future__ import annotations

_REMEDIES = {
    "minimizeEnergy": "minimize(emtol=...)",
    "currentStep": "step, a number",
    "context": "positions, velocities, box and energies, or given to from_openmm",
    "integrator": "settings; its temperature follows points in time with annealing=...",
    "system": "topology",
    "reporters": "add_reporter(interval, energies=..., frame=...)",
    "runForClockTime": "run(steps)",
}
_REMEDIES |= dict.fromkeys(
    ("saveCheckpoint", "loadCheckpoint", "saveState", "loadState"),
    "positions, velocities and box, which from_openmm(..., continuation=True) takes back",
)


def missing(name: str) -> str:
    """What to say about an attribute that a simulation does not have."""
    told = f"'Simulation' object has no attribute '{name}'"
    return f"{told}; OpenMM's {name} is {_REMEDIES[name]} here" if name in _REMEDIES else told
