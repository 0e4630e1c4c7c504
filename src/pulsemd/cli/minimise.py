"""``pulsemd run`` with integrator = steep or l-bfgs: a minimisation with the files of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from pulsemd.cli.outputs import write_positions
from pulsemd.cli.request import RunRequest, settings_of_run
from pulsemd.engine.descent import Method
from pulsemd.engine.keeper import Limits
from pulsemd.engine.minimise import MAX_FORCE, Minimum, Told, energies_of, minimise, tell_nobody
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import Transport
from pulsemd.io.energies import EnergyWriter, write_xvg
from pulsemd.io.output import write_whole
from pulsemd.report.summary import rank_report, summarize, write_summary

INTERRUPTED = "interrupted; a minimisation from final.gro goes on"
TIME_IS_UP = "time is up (--max-hours); a minimisation from final.gro goes on"


def run_minimisation(
    transport: Transport,
    simulation: Simulation,
    request: RunRequest,
    out: Path,
    limits: Limits,
    asked_to_stop: Callable[[], bool],
) -> int:
    """Minimise, write what a run writes, and say clearly whether it converged; the result is the exit code."""
    s, start = simulation.system.settings, perf_counter()
    method = Method(s.integrator, s.emtol, s.emstep, s.nbfgscorr, s.nsteps)
    with ExitStack() as stack:
        tell: Told = tell_nobody
        if transport.rank == 0:
            write_whole(out / "run.mdp", [settings_of_run(request, s)])
            writer = stack.enter_context(EnergyWriter(out / "energies.csv", energies_of(simulation)))
            tell = _Table(writer, limits, asked_to_stop)
        minimum = minimise(simulation, method, tell)
    wall = perf_counter() - start
    digest, frame = simulation.trajectory_hash(), simulation.gather()
    reports = [report for report in transport.allgather(rank_report(simulation)) if report is not None]
    code = 130 if minimum.reason == INTERRUPTED else 0
    if frame is None:
        return code
    write_positions(out / "final.gro", simulation.system, frame, None)
    if request.xvg:
        write_xvg(out / "energies.xvg", out / "energies.csv", simulation.system.topology.title)
    summary = summarize(simulation, reports, minimum.steps, wall, digest)
    summary |= {"ns_per_day": None, "energies": minimum.energies, "minimisation": _about(method, minimum)}
    write_summary(out / "summary.json", summary)
    print(f"{_conclusion(minimum)}\nresults in {out}", file=sys.stderr, flush=True)
    if request.json:
        print(json.dumps(summary))
    return code


class _Table:
    """Writes the energies of steps that went down, says how it goes now and then, and ends it if asked to."""

    def __init__(self, writer: EnergyWriter, limits: Limits, asked_to_stop: Callable[[], bool]) -> None:
        self._writer, self._said = writer, perf_counter()
        self._stop_at, self._asked_to_stop = limits.stop_at, asked_to_stop

    def __call__(self, step: int, energies: dict[str, float]) -> str:
        self._writer.write(step, 0.0, energies)
        now = perf_counter()
        if step == 0 or now > self._said + 1.0:
            self._said = now
            print(
                f"step {step}: potential {energies['potential']:.6g} kJ/mol, largest force "
                f"{energies[MAX_FORCE]:.4g} kJ/mol/nm",
                file=sys.stderr,
                flush=True,
            )
        if self._asked_to_stop():
            return INTERRUPTED
        return TIME_IS_UP if self._stop_at is not None and monotonic() > self._stop_at else ""


def _about(method: Method, minimum: Minimum) -> dict[str, Any]:
    found = asdict(minimum)
    del found["energies"]
    return {"integrator": method.integrator, "emtol": method.emtol, **found}


def _conclusion(minimum: Minimum) -> str:
    head = "converged" if minimum.converged else "NOT CONVERGED"
    return (
        f"{head} after {minimum.steps} steps: {minimum.reason}\n"
        f"potential {minimum.energies['potential']:.6f} kJ/mol, largest force {minimum.energies[MAX_FORCE]:.4g} "
        f"kJ/mol/nm on {minimum.atom}"
    )
