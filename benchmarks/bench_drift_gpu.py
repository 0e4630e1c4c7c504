"""Energy conservation on a GPU: drift of the bundled water over 100 ps without a thermostat, for three seeds.

    python benchmarks/bench_drift_gpu.py --out benchmarks/results [--pme] [--tolerance 1e-5]

2 fs, reaction field, or PME with a mesh of 0.12 nm and splines of order 4, with a cut-off of 1.0 nm, velocities of
300 K; both precisions, a tight and the default drift tolerance of the list. The drift, in kJ/mol/ps per atom, is the
slope of a line through the total energy of every 50th step.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from result_rows import timed_row, write_rows

from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

INTERVAL = 50
PME = {"coulombtype": "pme", "fourierspacing": 0.12}


def water(tolerance: float, seed: int, pme: bool) -> System:
    """The bundled water in the microcanonical ensemble."""
    files = system_files("water")
    settings, _ = read_settings(files.parameters)
    settings = replace(
        settings, dt=0.002, nstlist=20, verlet_buffer_tolerance=tolerance, tcoupl="no", gen_vel=True, gen_temp=300.0,
        gen_seed=seed, ld_seed=seed, comm_mode="linear", nstcomm=100, nstcalcenergy=INTERVAL, nstenergy=INTERVAL,
        continuation=False, nsteps=1, **(PME if pme else {}),
    )  # fmt: skip
    topology, table, frame, settings = read_system(files.configuration, files.topology, settings, ())
    return prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)


def measure(precision: str, tolerance: float, seed: int, steps: int, pme: bool) -> dict[str, object]:
    """Row of one run."""
    system, table = water(tolerance, seed, pme), []
    reporter = Reporter(
        INTERVAL, energies=lambda _step, t, e: table.append((t, e["total"], e["temperature"]))
    )
    options = RunOptions(precision=precision, device="cuda", raise_nstlist=True)
    simulation = Simulation(open_transport("loopback"), system, options, [reporter])
    simulation.warm_up()
    start = time.perf_counter()
    simulation.run(steps)
    seconds = (time.perf_counter() - start) / steps
    times, total, temperature = np.array(table).T
    slope = np.polyfit(times, total, 1)[0] / system.topology.n_atoms
    row = timed_row(
        simulation.rank.device.name, [seconds], precision=precision, system="water, PME" if pme else "water",
        n_atoms=system.topology.n_atoms,
        nstlist=simulation.nstlist, steps=steps, tolerance=tolerance, seed=seed, drift_per_atom=f"{slope:.3e}",
        kelvin=f"{temperature.mean():.2f}",
    )  # fmt: skip
    print(
        precision, tolerance, seed, f"{slope:.3e} kJ/mol/ps per atom, {1e6 * seconds:.1f} us/step", flush=True
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--tolerance", type=float, nargs="+", default=(1e-5, 0.005))
    parser.add_argument("--pme", action="store_true", help="in place of the reaction field")
    options = parser.parse_args()
    rows = []
    for seed, tolerance, precision in product(options.seeds, options.tolerance, ("fast", "reproducible")):
        rows.append(measure(precision, tolerance, seed, options.steps, options.pme))
        path = write_rows(options.out, "drift_gpu", "water-pme" if options.pme else "water", rows)
    print(path)


if __name__ == "__main__":
    main()
