"""The reader of a run's folder: what `pulsemd.report.summary` and the other writers left there, finished or not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.checkpoint import NAME, read_checkpoint
from pulsemd.io.energies import read_energies
from pulsemd.io.gromacs.mdp import read_settings

REQUIRED: Final = (
    "atoms", "ranks", "grid", "device", "transport", "path", "plan", "precision", "steps", "us_per_step",
    "ns_per_day", "phases", "bytes", "graph", "energies",
)  # fmt: skip
"""What every summary has, of early versions too."""


@dataclass(frozen=True)
class Average:
    """An energy over a run: mean, standard deviation of single values, last value."""

    mean: float
    deviation: float
    last: float


@dataclass(frozen=True, eq=False)
class RunResults:
    """What the folder of a run holds.

    Parameters
    ----------
    folder : Path
    state : str
        How it ended, in words.
    summary : mapping
        Of ``summary.json``; empty if there is none.
    settings : RunSettings or None
    checkpoint_step, crash_step : int or None
        Steps of the newest checkpoint, and of the positions before a blow-up.
    averages : dict of energy to Average
    records : int
        Lines of energies.
    drift : float or None
        Slope of the conserved energy in kJ/mol per ns and atom.
    atoms : int or None
    """

    folder: Path
    state: str
    summary: Mapping[str, Any]
    settings: RunSettings | None
    checkpoint_step: int | None
    crash_step: int | None
    averages: dict[str, Average]
    records: int
    drift: float | None
    atoms: int | None


def read_results(folder: Path) -> RunResults:
    """Read the folder of a run, finished, going on, or broken off.

    Raises
    ------
    InputError
        If it is no such folder, or a file in it is damaged; names the file and the remedy.
    """
    mdp, energies, checkpoint = (folder / name for name in ("run.mdp", "energies.csv", NAME))
    summary = read_summary(folder / "summary.json")
    if not summary and not mdp.exists():
        raise InputError("holds no run: neither summary.json nor run.mdp; give the -o of pulsemd run", folder)
    settings = read_settings(mdp)[0] if mdp.exists() else None
    table = _read_table(energies) if energies.exists() else {}
    kept = read_checkpoint(checkpoint) if checkpoint.exists() else None
    atoms = summary.get("atoms", None if kept is None else len(kept.x))
    checkpoint_step = None if kept is None else kept.step
    crash_step = _crash_step(folder / "crash.gro")
    return RunResults(
        folder=folder,
        state=_state(summary, settings, checkpoint_step, crash_step),
        summary=summary,
        settings=settings,
        checkpoint_step=checkpoint_step,
        crash_step=crash_step,
        averages=average(table),
        records=len(table.get("step", ())),
        drift=None if atoms is None else conserved_drift(table, atoms),
        atoms=atoms,
    )


def read_summary(path: Path) -> dict[str, Any]:
    """The summary of a run; empty if there is no such file.

    Raises
    ------
    InputError
        If it is not what `write_summary` writes.
    """
    remedy = "take the file from the run again, or remove it and read what else the run left"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except json.JSONDecodeError as error:
        raise InputError(f"is damaged: {error.msg}; {remedy}", path, error.lineno) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is damaged: it is no text; {remedy}", path) from error
    missing = [name for name in REQUIRED if not isinstance(summary, dict) or name not in summary]
    if missing:
        raise InputError(f"is no summary of a run: it lacks {', '.join(missing)}; {remedy}", path)
    found: dict[str, Any] = summary
    return found


def _read_table(path: Path) -> dict[str, NDArray[np.float64]]:
    remedy = "remove that line, or take the file from the run again"
    try:
        table = read_energies(path)
    except InputError as error:
        raise InputError(f"is damaged: {error.message}; {remedy}", path, error.line) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is damaged: it is no text; {remedy}", path) from error
    if "step" not in table or "time_ps" not in table:
        raise InputError("is damaged: its first line does not name step and time_ps; " + remedy, path, 1)
    return table


def _crash_step(path: Path) -> int | None:
    """Step of the positions that a run left when it blew up; None if it did not.

    Raises
    ------
    InputError
        If the title of the file does not say.
    """
    if not path.exists():
        return None
    with open(path, encoding="utf-8", errors="replace") as handle:
        title = handle.readline()
    found = re.search(r"step= (\d+)$", title.rstrip())
    if found is None:
        raise InputError("is damaged: its title names no step; remove it if it is not of this run", path, 1)
    return int(found[1])


def _state(
    summary: Mapping[str, Any],
    settings: RunSettings | None,
    checkpoint_step: int | None,
    crash_step: int | None,
) -> str:
    """How a run ended; a summary may be of an earlier part of a run that was continued in the same folder."""
    reached = summary.get("step", checkpoint_step if summary else None)
    known = -1 if reached is None else int(reached)
    if crash_step is not None and (not summary or crash_step >= known):
        return f"blew up after step {crash_step}"
    if not summary or (checkpoint_step is not None and checkpoint_step > known):
        kept = "no checkpoint" if checkpoint_step is None else f"checkpoint of step {checkpoint_step}"
        return f"going on or broken off, {kept}"
    if "minimisation" in summary:
        return "converged" if summary["minimisation"].get("converged") else "NOT CONVERGED"
    if settings is None or known < 0:
        return "finished"
    if settings.nsteps == -1:
        return f"stopped at step {known}, of a run without end"
    end = settings.init_step + settings.nsteps
    return f"stopped at step {known} of {end}" if known < end else "finished"


def average(table: Mapping[str, NDArray[np.float64]]) -> dict[str, Average]:
    """Mean and standard deviation (of n - 1) of each energy, all lines of equal weight."""
    names = [name for name in table if name not in ("step", "time_ps") and len(table[name])]
    return {
        name: Average(
            float(np.mean(table[name])),
            float(np.std(table[name], ddof=1)) if len(table[name]) > 1 else 0.0,
            float(table[name][-1]),
        )
        for name in names
    }


def conserved_drift(table: Mapping[str, NDArray[np.float64]], n_atoms: int) -> float | None:
    """Slope of the line of least squares through the conserved energy, kJ/mol per ns and atom.

    None where there is no such energy, or fewer than three times of it.
    """
    if "conserved" not in table or len(np.unique(table["time_ps"])) < 3:
        return None
    time = 1e-3 * (table["time_ps"] - table["time_ps"].mean())
    energy = table["conserved"] - table["conserved"].mean()
    return float(time @ energy / (time @ time)) / n_atoms
