"""Drift of the conserved energy of each ensemble on one GPU, and the pressure it holds.

    python benchmarks/bench_conserved_gpu.py --out benchmarks/results --dhfr FOLDER

Dihydrofolate reductase in water as in bench_npt_gpu.py, 2 fs. The drift is the slope of a line through
the conserved energy of every `EVERY`-th step, the first fifth left out, for the whole system and per atom. That of
C-rescale is the second order of its noise, see docs/how_to/ensembles.md: it goes with 1 / tau-p, and is as large for
any number of atoms.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_md_gpu import dhfr_system
from bench_npt_gpu import OPTIONS
from result_rows import timed_row, write_rows

from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import open_transport

EVERY: Final = 50
NO_BAROSTAT: Final = {"pcoupl": "no"}
MOVING: Final = {"tcoupl": "nose-hoover", "pcoupl": "parrinello-rahman", "tau_p": 2.0}
ENSEMBLES: Final[dict[str, dict[str, Any]]] = {
    "C-rescale": {"tau_p": 1.0},
    "none": NO_BAROSTAT | {"tcoupl": "no", "gen_vel": True, "gen_temp": OPTIONS["ref_t"]},
    "v-rescale": NO_BAROSTAT,
    "C-rescale, tau-p 0.5": {"tau_p": 0.5},
    "C-rescale, tau-p 2": {"tau_p": 2.0},
    "Berendsen": {"pcoupl": "berendsen", "tcoupl": "berendsen", "tau_p": 1.0},
    "Nose-Hoover, Parrinello-Rahman": MOVING,
}


def measure(name: str, system: System, precision: str, steps: int) -> dict[str, object]:
    """Row of one run."""
    table: list[tuple[float, float, float, float]] = []
    names = ("conserved", "temperature", "volume")
    reporter = Reporter(
        EVERY, energies=lambda _step, time, e: table.append((time, *(e[key] for key in names)))
    )
    options = RunOptions(device="cuda", precision=precision, raise_nstlist=True)
    simulation = Simulation(open_transport("loopback"), system, options, [reporter])
    simulation.warm_up()
    start = time.perf_counter()
    simulation.run(steps)
    seconds = (time.perf_counter() - start) / steps
    at, conserved, kelvin, volume = np.array(table[len(table) // 5 :]).T
    slope = float(np.polyfit(at, conserved, 1)[0])
    row = timed_row(simulation.rank.device.name, [seconds], precision=precision, system=f"dhfr, PME, {name}")
    row |= {"n_atoms": system.topology.n_atoms, "nstlist": simulation.nstlist, "steps": steps}
    row |= {"drift": f"{slope:.3f}", "drift_per_atom": f"{slope / system.topology.n_atoms:.2e}"}
    row |= {"kelvin": f"{kelvin.mean():.2f}", "volume": f"{volume.mean():.3f}"}
    print(f"{precision} {name}: {slope:+.3f} kJ/mol/ps, {1e6 * seconds:.1f} us a step", flush=True)
    return row


def main() -> None:
    """Measure and write ``drift_gpu__dhfr-ensembles__DEVICEx1__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dhfr", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--precisions", nargs="+", default=["fast", "reproducible"])
    options = parser.parse_args()
    system, rows = dhfr_system(options.dhfr, **OPTIONS), []
    for precision, (name, changes) in product(options.precisions, ENSEMBLES.items()):
        changed = replace(system, settings=replace(system.settings, nstpcouple=10, **changes))
        rows.append(measure(name, changed, precision, options.steps))
        write_rows(options.out, "drift_gpu", "dhfr-ensembles", rows)


if __name__ == "__main__":
    main()
