"""Time of molecular dynamics of rigid water on one core, next to gmx and OpenMM with the same list settings.

    python benchmarks/bench_md_cpu.py --out benchmarks/results [--atoms 11000] [--ranks 2] [--clock cpu]

Reaction field with a cut-off of 1.0 nm, a list of 1.1 nm for 10 steps, 2 fs, v-rescale, no output. Programs alternate,
so that whatever else the machine does meets all of them. Rows of one rank are CPU times of one thread or, with
``--clock wall``, wall times; rows of several ranks are wall times, which need as many idle cores. ``peer`` is the
program that ran in the same rounds, ``peer_us`` its median.
"""

from __future__ import annotations

import argparse
import platform
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from result_rows import timed_row, write_rows

import pulsemd
from pulsemd.systems import build_system

REPEATS = 5
STEPS = 400
SKIPPED = 200  # before each measurement: gmx tunes itself, cores that were idle have to wake up
PEER_STEPS = 100  # of OpenMM, which is slower
SETTINGS = {
    "verlet_buffer_tolerance": -1,
    "rlist": 1.1,
    "nstlist": 10,
    "nstenergy": 0,
    "nstxout_compressed": 0,
    "gen_seed": 1,
    "ld_seed": 1,
}

Timer = Callable[[], float]
"""Runs some steps and returns the seconds of one."""


class Ours:
    """A simulation of this package."""

    def __init__(self, box, ranks: int, precision: str, clock: str) -> None:
        files = box.configuration, box.topology, box.parameters
        self.simulation = pulsemd.Simulation.from_gromacs(
            *files, ranks=ranks, precision=precision, device="cpu", **SETTINGS
        )
        self.grid = re.search(r"as (\S+),", repr(self.simulation))[1]
        self.clock = time.thread_time if clock == "cpu" and ranks == 1 else time.perf_counter
        self.simulation.run(50)

    def __call__(self) -> float:
        self.simulation.run(SKIPPED)
        start = self.clock()
        self.simulation.run(STEPS)
        return (self.clock() - start) / STEPS


def gmx_timer(box, folder: Path, clock: str) -> Timer:
    """mdrun on one thread, without its start: by the difference of two runs or, for wall times, by its log."""
    text = Path(box.parameters).read_text(encoding="utf-8")
    known = {name.replace("_", "-") for name in SETTINGS}
    lines = [
        line for line in text.splitlines() if line.partition("=")[0].strip().replace("_", "-") not in known
    ]
    lines += [f"{name.replace('_', '-')} = {value}" for name, value in SETTINGS.items()]
    lines = [line for line in lines if not line.startswith("nsteps")] + ["nsteps = -1"]
    (folder / "gmx.mdp").write_text("\n".join(lines) + "\n")
    files = "-c", box.configuration, "-p", box.topology, "-f", "gmx.mdp", "-o", "gmx.tpr", "-maxwarn", "5"
    subprocess.run(["gmx", "grompp", *map(str, files)], cwd=folder, check=True, capture_output=True)
    command = ["gmx", "mdrun", "-s", "gmx.tpr", "-ntmpi", "1", "-ntomp", "1", "-noconfout", "-pin", "off"]

    def spend(steps: int, *more: str) -> float:
        """CPU time of a whole run."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "-nsteps", str(steps), *more], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run() -> float:
        if clock == "cpu":
            return (spend(STEPS + SKIPPED) - spend(SKIPPED)) / STEPS
        spend(STEPS + SKIPPED, "-resetstep", str(SKIPPED), "-g", "gmx.log")
        found = re.findall(r"Time:\s+([\d.]+)\s+([\d.]+)", (folder / "gmx.log").read_text())[-1]
        return float(found[1]) / STEPS

    return run


def openmm_timer(box, clock: str) -> Timer:
    """The CPU platform of OpenMM on one thread."""
    from openmm import LangevinMiddleIntegrator, Platform, app, unit

    gro = app.GromacsGroFile(str(box.configuration))
    top = app.GromacsTopFile(str(box.topology), periodicBoxVectors=gro.getPeriodicBoxVectors())
    system = top.createSystem(
        nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=1.0 * unit.nanometer, rigidWater=True
    )
    integrator = LangevinMiddleIntegrator(300.0, 2.0, 0.002)
    cpu = Platform.getPlatformByName("CPU")
    simulation = app.Simulation(top.topology, system, integrator, cpu, {"Threads": "1"})
    simulation.context.setPositions(gro.positions)
    simulation.context.setVelocitiesToTemperature(300.0, 1)
    simulation.step(20)
    now = time.process_time if clock == "cpu" else time.perf_counter

    def run() -> float:
        start = now()
        simulation.step(PEER_STEPS)
        return (now() - start) / PEER_STEPS

    return run


def measure(timers: dict[str, Timer]) -> dict[str, list[float]]:
    """Seconds of one step, program by program, in alternated rounds."""
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(REPEATS):
        for name, timer in timers.items():
            times[name].append(timer())
    return times


def rows_of(n_atoms: int, ranks: int, clock: str, folder: Path) -> list[dict[str, object]]:
    """All rows of one size."""
    box = build_system("water", n_atoms, folder / "water")
    ours = {
        (1, "fast"): Ours(box, 1, "fast", clock),
        (1, "reproducible"): Ours(box, 1, "reproducible", clock),
    }
    if ranks > 1:
        ours[ranks, "fast"] = Ours(box, ranks, "fast", clock)
    timers: dict[str, Timer] = {f"pulsemd {n} {precision}": timer for (n, precision), timer in ours.items()}
    if shutil.which("gmx"):
        timers["gmx"] = gmx_timer(box, folder, clock)
    if find_spec("openmm"):
        timers["openmm"] = openmm_timer(box, clock)
    times = measure(timers)
    peers = [name for name in ("gmx", "openmm") if name in times] or [""]
    rows = []
    for (n, precision), timer in ours.items():
        for peer in peers if n == 1 else [""]:
            row = timed_row(
                _device(),
                times[f"pulsemd {n} {precision}"],
                n_gpus=0,
                n_ranks=n,
                grid=timer.grid,
                transport="loopback" if n == 1 else "shmem",
                plan="staged",
                path="host",
                precision=precision,
                system="water",
                n_atoms=box.n_atoms,
                nstlist=SETTINGS["nstlist"],
                steps=STEPS,
                peer=peer,
                peer_us=f"{1e6 * median(times[peer]):.2f}" if peer else "",
                clock=clock if n == 1 else "wall",
            )
            rows.append(row)
        timer.simulation.close()
    return rows


def _device() -> str:
    """Name of the processor."""
    text = Path("/proc/cpuinfo").read_text()
    found = re.search(r"model name\s*:\s*(.*)", text)
    name = found[1] if found else platform.machine()
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def main() -> None:
    """Measure and write ``md_cpu__water__DEVICEx0__COMMIT.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--atoms", type=int, nargs="+", default=[11_000])
    parser.add_argument("--ranks", type=int, default=2, help="also measured beside one rank")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    options = parser.parse_args()
    rows = []
    for n_atoms in options.atoms:
        with tempfile.TemporaryDirectory() as folder:
            rows += rows_of(n_atoms, options.ranks, options.clock, Path(folder))
    for row in rows:
        print(*(f"{key}={value}" for key, value in row.items() if value != ""))
    print(write_rows(options.out, "md_cpu", "water", rows))


if __name__ == "__main__":
    main()
