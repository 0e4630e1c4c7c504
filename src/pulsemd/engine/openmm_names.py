"""Names of OpenMM's Simulation, for whoever writes one of them here."""

from __future__ import annotations

from typing import NoReturn

_REMEDIES = {
    "minimizeEnergy": "minimize(emtol=...)",
    "currentStep": "step, a number",
    "context": "positions, velocities, box, energies and forces, or given to from_openmm; parameters are in the System",
    "integrator": "settings; its temperature follows points in time with annealing=...",
    "system": "topology",
    "reporters": "add_reporter(interval, energies=..., frame=...)",
}
_REMEDIES |= dict.fromkeys(("runForClockTime", "runUntilClockTime"), "run(steps)")
_REMEDIES |= dict.fromkeys(
    ("saveCheckpoint", "loadCheckpoint", "saveState", "loadState"),
    "positions, velocities and box, which from_openmm(..., continuation=True) takes back",
)


class StepNumber(int):
    """Steps made; who calls it, as OpenMM's ``simulation.step(n)``, is told what makes steps here."""

    def __call__(self, *_: object) -> NoReturn:
        raise TypeError(f"step is the number of steps made, {self}; OpenMM's step(n) is run(n) here")


def missing(name: str) -> str:
    """What to say about an attribute that a simulation does not have."""
    told = f"'Simulation' object has no attribute '{name}'"
    return f"{told}; OpenMM's {name} is {_REMEDIES[name]} here" if name in _REMEDIES else told
