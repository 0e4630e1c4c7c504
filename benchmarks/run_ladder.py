"""Every rung on all GPUs of a machine in one call that ends in time: is it right, and how fast is it?

    python benchmarks/run_ladder.py --gpus 8 --minutes 9 -o FOLDER
    python benchmarks/run_ladder.py --gpus 8 --plan

Cases run one after the other, the most important first: conformance, hashes in reproducible mode, exchanges alone,
molecular dynamics. Each is a process of its own with a limit of its own, so that one that fails or hangs costs its own
rows at most. A case that no longer fits into the minutes is left out; the call never takes longer. ``--plan`` shows the
cases and what they take, and needs no GPU. FOLDER gets the tables as they come, a log of each case, what became of each
(``ladder__cases__*.csv``) and at the end ``verdict.md``.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, TextIO

from ladder_verdict import RUNGS, read_passed, read_rows, verdict
from result_rows import current_commit

GRIDS: Final = {2: ("2x1x1",), 4: ("2x2x1", "4x1x1"), 8: ("2x2x2", "4x2x1", "8x1x1")}
"""Decompositions over so many GPUs with a rank each, the most wanted first."""
SOME: Final = ("nvshmem-fused", "mpi", "nvshmem-pulse", "nccl")
BOTH: Final = SOME[:2]
PLANS: Final = ("direct", "staged")
STEPS: Final = 2000
SPARE: Final = 15.0
"""Seconds by which a limit is longer than half as much again as is expected."""
STOP: Final = 8.0
"""Seconds that it takes to stop a case at the most."""
VERDICT: Final = 4.0
"""Seconds kept for the last table."""
COLUMNS: Final = ("date", "commit", "n_gpus", "case", "seconds", "expected", "limit", "end")

Words = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """What is measured in one go.

    Parameters
    ----------
    name : str
    seconds : float
        That it is expected to take, measured on two H200 and scaled.
    commands : tuple of tuple of str
        What follows ``python -m``; several run at the same time. ``OUT`` stands for the folder of results.
    """

    name: str
    seconds: float
    commands: tuple[Words, ...]

    @property
    def limit(self) -> float:
        """Seconds after which it is stopped."""
        return 1.5 * self.seconds + SPARE


def start_of(n_gpus: int) -> float:
    """Seconds until processes, libraries and rungs stand, where files and kernels are cached."""
    return 8.0 + 0.75 * n_gpus


def conformance(n_gpus: int, which: str, rungs: Words, beside: tuple[Words, ...] = ()) -> Case:
    """The suite on rungs; ``beside``: what compiles and loads meanwhile, on a machine that did neither yet."""
    words = f"pulsemd.halo.conformance --device cuda --processes {n_gpus} --ranks {n_gpus}"
    command = (*words.split(), *(("--brief",) if n_gpus > 2 else ()), "--transport", *rungs)
    cold = 40.0 if beside else 0.0
    seconds = start_of(n_gpus) + 4.0 * len(rungs) + cold
    return Case(f"conformance-{which}-{n_gpus}", seconds, (command, *beside))


def first_use(system: str) -> Words:
    """Compiles the kernels of a system on one GPU."""
    words = f"pulsemd.cli.main bench md --gpus 1 --ranks-per-gpu 2 --system {system} --atoms 6000"
    how = "--timeout 60 --check 100 --lifetimes 1 --repeats 1 --transport"
    return (*words.split(), *how.split(), "nvshmem-fused", "nvshmem-pulse")


def md(
    name: str,
    n_gpus: int,
    atoms: Iterable[int],
    rungs: Words = BOTH,
    *more: str,
    grids: Words = (),
    plans: Words = ("direct",),
    per_gpu: int = 1,
    system: str = "water",
    check: int = 0,
) -> Case:
    """Molecular dynamics: times, or with ``check`` the hash after so many steps."""
    atoms = tuple(atoms)
    huge = max(atoms) > 1_000_000
    grids = grids or GRIDS[n_gpus][:1]
    rows = len(rungs) * len(plans) * len(grids) * (2 if "--trace" in more else 1)
    of_row = (1.2 if per_gpu == 1 else 3.0) if check else 0.5
    seconds = start_of(n_gpus) + sum(1.5 + 6e-6 * n + rows * (of_row + 2.2e-6 * n) for n in atoms)
    words = [
        *f"pulsemd.cli.main bench md --gpus {n_gpus} --ranks-per-gpu {per_gpu} --system {system}".split(),
        *("--atoms", *map(str, atoms), "--grid", *grids, "--plan", *plans, "--transport", *rungs),
        *f"--timeout {60 if huge else 30} --check {check}".split(),
        *("--nstlist 40 --repeats 0" if check else f"--lifetimes {2 - huge} --repeats {3 - huge}").split(),
    ]
    return Case(name, seconds, ((*words, *more, "-o", "OUT"),))


def hashes(n_gpus: int, per_gpu: int = 1, plans: Words = ("direct",)) -> Case:
    """The trajectory hash after 2,000 steps on all rungs."""
    n_ranks = n_gpus * per_gpu
    name = f"hash-{n_gpus}" + (f"-of-{n_ranks}-ranks" if per_gpu > 1 else "")
    rungs, grids = (*RUNGS, "nvshmem-step"), GRIDS[n_ranks][:1]
    return md(name, n_gpus, (6000,), rungs, grids=grids, plans=plans, per_gpu=per_gpu, check=STEPS)


def halo(n_gpus: int) -> Case:
    """Exchanges alone."""
    grid = GRIDS[n_gpus][0]
    words = f"pulsemd.cli.main bench halo --gpus {n_gpus} --grid {grid} --rows 256 4096 65536 --plan staged direct"
    name = f"halo-{n_gpus}"
    more = ("--timeout", "6", "--repeats", "3", "-o", f"OUT/{name}")
    return Case(name, start_of(n_gpus) + 6 * 1.2, ((*words.split(), *more),))


def plan(n_gpus: int) -> list[Case]:
    """All cases for so many GPUs, the most important first."""
    fewer = [n for n in sorted(GRIDS, reverse=True) if n < n_gpus]
    shared = 8 // n_gpus
    by_the_device, by_the_host = RUNGS[:2], RUNGS[2:]
    beside = (first_use("water"), first_use("water-pme"))
    cases = [
        conformance(n_gpus, "device", by_the_device, beside),
        conformance(n_gpus, "host", by_the_host),
        hashes(n_gpus, plans=PLANS),
        *(hashes(n) for n in fewer),
    ]
    if shared > 1:
        cases.append(hashes(n_gpus, shared))
    cases += [
        halo(n_gpus),
        md(f"latency-{n_gpus}", n_gpus, (45_000, 90_000), SOME, plans=PLANS),
        md(f"large-{n_gpus}", n_gpus, (720_000,)),
        *(md(f"efficiency-{n}", n, (720_000, 45_000, 90_000)) for n in fewer),
        md(f"pme-{n_gpus}", n_gpus, (45_000, 90_000, 720_000), system="water-pme"),
        md(f"sizes-{n_gpus}", n_gpus, (180_000, 360_000), SOME),
        md(f"trace-{n_gpus}", n_gpus, (45_000,), BOTH, "--trace"),
        md(f"ten-million-{n_gpus}", n_gpus, (10_000_000,)),
    ]
    if len(GRIDS[n_gpus]) > 1:
        cases.append(md(f"grids-{n_gpus}", n_gpus, (180_000, 720_000), grids=GRIDS[n_gpus][1:]))
    if shared > 1:
        cases.append(md(f"shared-{n_gpus}", n_gpus, (45_000, 90_000), grids=GRIDS[8][:1], per_gpu=shared))
    return cases


def fitting(cases: Iterable[Case], seconds: float) -> Iterator[tuple[Case, float]]:
    """Cases that fit if all take what is expected, and when each begins."""
    now = 0.0
    for case in cases:
        if now + case.seconds + STOP + VERDICT <= seconds:
            yield case, now
            now += case.seconds


class Run:
    """Runs cases until a point of time."""

    def __init__(self, out: Path, n_gpus: int, end: float) -> None:
        self.out, self.n_gpus, self.end = out, n_gpus, end
        self.begin = time.monotonic()
        self.table = out / "cases.csv"

    def case(self, case: Case) -> None:
        """One case, if there is time for it; what became of it is a row."""
        left = self.end - time.monotonic() - STOP - VERDICT
        limit, begin, end = min(case.limit, left), time.monotonic(), "left out: no time"
        if case.seconds <= left:
            self._say(f"{case.name} ... (about {case.seconds:.0f} s)")
            end = self._ended(case, begin + limit)
            collect(self.out, case.name)
        seconds = time.monotonic() - begin
        self._say(f"{case.name}: {end}, {seconds:.1f} s")
        row = (datetime.date.today().isoformat(), current_commit(), self.n_gpus, case.name)
        times = (round(seconds, 1), round(case.seconds, 1), round(max(0.0, limit), 1))
        with self.table.open("a", newline="") as file:
            writer = csv.writer(file)
            if file.tell() == 0:
                writer.writerow(COLUMNS)
            writer.writerow((*row, *times, end))

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.begin:5.1f} s] {text}", file=sys.stderr, flush=True)

    def _ended(self, case: Case, deadline: float) -> str:
        with (self.out / f"{case.name}.log").open("w") as log:
            processes = [self._start(words, log) for words in case.commands]
            try:
                late = [process for process in processes if not ends(process, deadline - time.monotonic())]
            finally:
                stop(processes)
        if late:
            return "stopped at its limit"
        bad = [process.returncode for process in processes if process.returncode != 0]
        return f"failed: exit code {bad[0]}" if bad else "ended"

    def _start(self, words: Words, log: TextIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *(word.replace("OUT", str(self.out)) for word in words)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PULSEMD_COMMIT": current_commit()},
        )


def ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process ends within so many seconds."""
    try:
        process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes. A launcher passes the first signal on to its ranks and kills them at the second."""
    for _ in range(2):
        running = [process for process in processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 0.4 * STOP
        if all(ends(process, until - time.monotonic()) for process in running):
            return
    for process in processes:
        process.kill()
        process.wait()


def collect(out: Path, name: str) -> None:
    """Files of a case that wrote into a folder of its own, under its name."""
    folder = out / name
    if folder.is_dir():
        for path in folder.iterdir():
            path.rename(out / path.name.replace("__exchange__", f"__{name}__"))
        folder.rmdir()


def show(cases: Sequence[Case], seconds: float) -> None:
    """The plan as text."""
    chosen = dict(fitting(cases, seconds))
    for case in cases:
        when = f"{chosen[case]:6.0f}" if case in chosen else "   out"
        print(f"{when}  {case.seconds:5.0f}  {case.limit:5.0f}  {case.name}")
        for words in case.commands:
            print(" " * 23, "python -m", *words)


def end_all(number: int, frame: FrameType | None) -> NoReturn:
    """So that a case does not outlive the call."""
    raise SystemExit(128 + number)


def main() -> None:
    """Show the plan, or run it and write the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpus", type=int, choices=sorted(GRIDS), required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="that all of it may take (9)")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only these")
    parser.add_argument(
        "--plan", action="store_true", help="show begin, seconds and limit of each case, and end"
    )
    parser.add_argument("-o", dest="out", type=Path, metavar="FOLDER", default=Path("ladder"))
    args = parser.parse_args()
    begin = time.monotonic()
    cases = plan(args.gpus)
    names = [case.name for case in cases]
    if unknown := set(args.cases or ()) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: no such case; choose from {', '.join(names)}")
    cases = [case for case in cases if args.cases is None or case.name in args.cases]
    if args.plan:
        show(cases, 60.0 * args.minutes)
        return
    signal.signal(signal.SIGTERM, end_all)
    args.out.mkdir(parents=True, exist_ok=True)
    run = Run(args.out.resolve(), args.gpus, begin + 60.0 * args.minutes)
    for case in cases:
        run.case(case)
    rows = read_rows(args.out)
    device = next((row["device"] for row in rows if row["device"]), "none").replace(" ", "-")
    run.table.rename(args.out / f"ladder__cases__{device}x{args.gpus}__{current_commit()}.csv")
    text = verdict(rows, read_passed(args.out), args.gpus)
    (args.out / "verdict.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
