"""Results of runs as one table, a column for each, and as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from pulsemd.report.results import RunResults

ABSENT: Final = "-"
_HASH: Final = 16
"""Digits of a hash where several are compared."""

Row = tuple[str, Callable[[RunResults], str]]


def runs_as_json(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """All that was read of each run."""
    return [
        {
            "folder": str(run.folder),
            "state": run.state,
            "atoms": run.atoms,
            "summary": dict(run.summary),
            "checkpoint_step": run.checkpoint_step,
            "crash_step": run.crash_step,
            "energy_records": run.records,
            "averages": {name: asdict(value) for name, value in run.averages.items()},
            "conserved_drift": run.drift,
        }
        for run in runs
    ]


def runs_as_text(runs: Sequence[RunResults]) -> str:
    """A table of one or several runs; below it why the run is as it is."""
    rows = [(label, [cell(run) for run in runs]) for label, cell in (*_CHOICES, *_SPEED)]
    rows += [("hash", [_hash(run, len(runs) == 1) for run in runs])]
    rows += [("", [""] * len(runs)), ("phase", ["seconds   share    wait"] * len(runs))]
    rows += [(name, [_phase(run, name) for run in runs]) for name in _phases(runs)]
    heads = ["last" if _minimises(run) else "mean   deviation" for run in runs]
    rows += [("", [""] * len(runs)), ("energy", heads)]
    rows += [(name, [_average(run, name) for run in runs]) for name in _energies(runs)]
    rows += [("drift /ns/atom", [ABSENT if run.drift is None else f"{run.drift:.4g}" for run in runs])]
    first = max(len(label) for label, _ in rows) + 2
    wide = [max(len(cells[k]) for _, cells in rows) for k in range(len(runs))]
    lines = [
        f"{label:<{first}}" + "  ".join(f"{cell:>{w}}" for cell, w in zip(cells, wide, strict=True))
        for label, cells in rows
    ]
    return "\n".join([*(line.rstrip() for line in lines), *_notes(runs)])


def _of_summary(name: str, form: str = "{}") -> Callable[[RunResults], str]:
    """A cell from the summary; '-' where there is no such value."""

    def cell(run: RunResults) -> str:
        value = run.summary.get(name)
        return ABSENT if value is None else form.format(value)

    return cell


def _grid(run: RunResults) -> str:
    return "x".join(map(str, run.summary["grid"])) if run.summary else ABSENT


def _device(run: RunResults) -> str:
    return str(run.summary.get("device_name") or run.summary.get("device", ABSENT))


def _transport(run: RunResults) -> str:
    s = run.summary
    return f"{s['transport']} ({s['path']})" if s else ABSENT


def _range(name: str) -> Callable[[RunResults], str]:
    def cell(run: RunResults) -> str:
        counts = run.summary.get(name)
        return ABSENT if not counts else f"{min(counts)} .. {max(counts)}"

    return cell


def _graph(run: RunResults) -> str:
    graph = run.summary.get("graph", ABSENT)
    return f"{graph['nodes']} nodes" if isinstance(graph, dict) else str(graph).partition(":")[0]


def _searches(run: RunResults) -> str:
    found = run.summary.get("searches")
    return ABSENT if not found else f"{found['on_device']} of {found['all']}"


def _bytes(run: RunResults) -> str:
    return f"{sum(run.summary['bytes'].values())}" if run.summary else ABSENT


def _minimises(run: RunResults) -> bool:
    """Whether it has no time, and energies of which the last ones count."""
    return "minimisation" in run.summary or (run.settings is not None and run.settings.minimises)


def _ns_per_day(run: RunResults) -> str:
    return ABSENT if _minimises(run) else _of_summary("ns_per_day", "{:.2f}")(run)


def _dt(run: RunResults) -> str:
    if _minimises(run):
        return ABSENT
    dt = run.settings.dt if run.settings is not None else run.summary.get("dt_ps")
    return ABSENT if dt is None else f"{dt:g}"


_CHOICES: Final[tuple[Row, ...]] = (
    ("run", lambda run: str(run.folder)),
    ("state", lambda run: run.state),
    ("atoms", lambda run: ABSENT if run.atoms is None else str(run.atoms)),
    ("ranks", _of_summary("ranks")),
    ("ranks of a GPU", _of_summary("ranks_per_gpu")),
    ("grid", _grid),
    ("device", _device),
    ("transport (path)", _transport),
    ("plan", _of_summary("plan")),
    ("precision", _of_summary("precision")),
    ("dt ps", _dt),
    ("nstlist", _of_summary("nstlist")),
    ("list cut-off nm", _of_summary("list_cutoff_nm", "{:.3f}")),
    ("owned atoms", _range("owned_atoms")),
    ("ghost atoms", _range("ghost_atoms")),
)
_SPEED: Final[tuple[Row, ...]] = (
    ("steps", _of_summary("steps")),
    ("seconds", _of_summary("wall_seconds", "{:.2f}")),
    ("us/step", _of_summary("us_per_step", "{:.1f}")),
    ("ns/day", _ns_per_day),
    ("graph", _graph),
    ("searches on device", _searches),
    ("halo bytes", _bytes),
)


def _hash(run: RunResults, whole: bool) -> str:
    digest = str(run.summary.get("trajectory_hash") or ABSENT)
    return digest if whole else digest[:_HASH]


def _phases(runs: Sequence[RunResults]) -> list[str]:
    """Phases of all runs, the longest in any run first."""
    longest: dict[str, float] = {}
    for run in runs:
        for name, row in run.summary.get("phases", {}).items():
            longest[name] = max(longest.get(name, 0.0), row["seconds"])
    return sorted(longest, key=lambda name: -longest[name])


def _phase(run: RunResults, name: str) -> str:
    row = run.summary.get("phases", {}).get(name)
    return ABSENT if row is None else f"{row['seconds']:.3f} {row['share']:>7.1%} {row['wait']:>7.3f}"


def _energies(runs: Sequence[RunResults]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.averages))


def _average(run: RunResults, name: str) -> str:
    value = run.averages.get(name)
    if value is None:
        return ABSENT
    return f"{value.last:.2f}" if _minimises(run) else f"{value.mean:.2f} {value.deviation:>11.2f}"


def _notes(runs: Sequence[RunResults]) -> list[str]:
    """Reasons: of the device, of a transport that was passed over, of a missing graph, and how to go on."""
    lines = []
    for run in runs:
        s = run.summary
        reasons = [f"device: {s['device_reason']}"] if s.get("device_reason") else []
        reasons += [f"transport: {reason}" for reason in s.get("transport_reasons", ())]
        reasons += [f"graph {s['graph']}"] if isinstance(s.get("graph"), str) else []
        if "atom" in (found := s.get("minimisation", {})):
            reasons.append(f"{found['reason']}; largest force on {found['atom']}")
        if run.crash_step is not None:
            reasons.append(f"positions before the blow-up are in {run.folder / 'crash.gro'}")
        lines += [f"note: {run.folder}: {reason}" for reason in reasons]
    return lines
