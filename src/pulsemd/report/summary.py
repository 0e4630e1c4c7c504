"""The summary of a run: ``summary.json`` and the same as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from pulsemd.base.version import versions
from pulsemd.engine.simulation import Simulation
from pulsemd.io.output import write_whole

_NOT_STEPS: Final = ("search", "wait", "output", "checkpoint")
"""Phases that belong to no step."""


def rank_report(simulation: Simulation) -> dict[str, Any]:
    """What one rank, or one GPU process, contributes to the summary: seconds by phase, owned and ghost atoms, and the
    bytes of positions that come to it and of forces that it sends back in a step."""
    rank = simulation.rank
    domain = rank.domain
    ghosts, row_bytes = domain.n_local - domain.n_owned, rank.f.shape[-1] * (4 + rank.f.itemsize)
    return {
        "seconds": dict(simulation.timer.seconds),
        "waited": rank.host_waited,
        "calls": dict(simulation.timer.calls),
        "host_seconds": (simulation.timer.host_wall, simulation.timer.host_cpu),
        "owned": domain.n_owned,
        "ghosts": ghosts,
        "device_bytes": rank.device_bytes,
        "bytes_per_step": ghosts * row_bytes,
    }


def summarize(
    simulation: Simulation, reports: list[dict[str, Any]], n_steps: int, wall: float, digest: str | None
) -> dict[str, Any]:
    """The summary of a finished run.

    Parameters
    ----------
    simulation : Simulation
        Of rank 0.
    reports : list of dict
        `rank_report` of every rank.
    n_steps : int, steps made
    wall : float, s, of the steps alone
    digest : str or None, trajectory hash
    """
    settings, options = simulation.system.settings, simulation.options
    transport, rank = simulation.transport, simulation.rank
    per_step = wall / n_steps if n_steps else 0.0
    return {
        "atoms": simulation.system.topology.n_atoms,
        "ranks": transport.size,
        "ranks_per_gpu": options.ranks_per_gpu if options.device == "cuda" else None,
        "grid": list(simulation.grid.shape),
        "device": options.device,
        "device_name": rank.device_name,
        "device_reason": options.device_reason,
        "transport": transport.name,
        "path": transport.path,
        "transport_reasons": list(getattr(transport, "reasons", ())),
        "plan": rank.domain.plan.kind,
        "precision": options.precision,
        "steps": n_steps,
        "step": simulation.step,
        "dt_ps": settings.dt,
        "nstlist": simulation.nstlist,
        "list_cutoff_nm": round(simulation.r_list, 6),
        "us_per_step": per_step * 1e6,
        "ns_per_day": settings.dt * 86.4 / per_step if per_step else 0.0,
        "wall_seconds": wall,
        "graph": rank.graph_report(),
        "searches": {"all": rank.n_searches, "on_device": rank.searches_on_device},
        "host_blocking_waits_per_step": rank.host_waits_per_step,
        "host_us_per_step": host_time(simulation, reports, n_steps),
        "launch_share": launch_share(reports) if options.device == "cuda" else None,
        "phases": phase_table(reports),
        "owned_atoms": [report["owned"] for report in reports],
        "ghost_atoms": [report["ghosts"] for report in reports],
        "device_bytes": max(report["device_bytes"] for report in reports),
        "bytes": {transport.path: n_steps * sum(report["bytes_per_step"] for report in reports)},
        "energies": simulation.energies(),
        "trajectory_hash": digest,
        "versions": versions(),
    }


def host_time(simulation: Simulation, reports: list[dict[str, Any]], n_steps: int) -> dict[str, float] | None:
    """Microseconds of a step that the thread of the slowest rank spent outside of searches, which on a GPU is launching
    alone: by the clock, and by the thread's own, which does not count waits. None on CPUs, where it is all work."""
    if simulation.options.device != "cuda" or n_steps == 0:
        return None
    wall, cpu = (
        1e6 * max(times) / n_steps for times in zip(*(r["host_seconds"] for r in reports), strict=True)
    )
    return {"wall": wall, "cpu": cpu}


def phase_table(reports: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean seconds of each phase over ranks, its share, and the wait: the mean above the fastest rank."""
    names = list(dict.fromkeys(name for report in reports for name in report["seconds"]))
    seconds = {name: [report["seconds"].get(name, 0.0) for report in reports] for name in names}
    total = sum(float(np.mean(values)) for values in seconds.values()) or 1.0
    return {
        name: {
            "seconds": float(np.mean(values)),
            "share": float(np.mean(values)) / total,
            "wait": float(np.mean(values) - np.min(values)),
        }
        for name, values in seconds.items()
    }


def launch_share(reports: list[dict[str, Any]]) -> float:
    """Part of the host's time that went into launching steps on a GPU: in phases of steps, without the waits in them.

    Parameters
    ----------
    reports : list of dict
        `rank_report` of every rank; each has the times of its process.
    """
    seconds = [report["seconds"] for report in reports]
    total = sum(sum(of_rank.values()) for of_rank in seconds)
    others = sum(of_rank.get(name, 0.0) for of_rank in seconds for name in _NOT_STEPS)
    launching = total - others - sum(report["waited"] for report in reports)
    return launching / total if total else 0.0


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary as JSON."""
    write_whole(path, [json.dumps(summary, indent=2).encode(), b"\n"])


def text_summary(summary: Mapping[str, Any]) -> str:
    """The phase table and the main figures for people."""
    lines = [f"{'phase':<22}{'seconds':>10}{'share':>8}{'wait':>10}"]
    for name, row in summary["phases"].items():
        lines.append(f"{name:<22}{row['seconds']:>10.3f}{row['share']:>8.1%}{row['wait']:>10.3f}")
    energies = summary["energies"]
    lines.append(
        f"{summary['steps']} steps in {summary['wall_seconds']:.2f} s: {summary['us_per_step']:.0f} us/step, "
        f"{summary['ns_per_day']:.1f} ns/day"
    )
    lines.append(
        f"potential {energies['potential']:.2f} kJ/mol, temperature {energies['temperature']:.2f} K, "
        f"pressure {energies['pressure']:.1f} bar"
    )
    if host := summary["host_us_per_step"]:
        lines.append(
            f"host outside of searches {host['wall']:.2f} us/step, of which {host['cpu']:.2f} at work"
        )
    if held := summary["device_bytes"]:
        atoms = summary["atoms"] * summary["ranks_per_gpu"] / summary["ranks"]
        lines.append(f"memory held on a GPU {held / 2**30:.3f} GiB, {held / atoms:.0f} bytes per atom")
    return "\n".join(lines)
