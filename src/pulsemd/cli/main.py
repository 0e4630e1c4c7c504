"""The command ``pulsemd``: arguments, dispatch, errors and exit codes."""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from pulsemd.base.cache import check_numba_cache
from pulsemd.base.errors import OutputError, PulseMDError
from pulsemd.base.version import VERSION
from pulsemd.cli.stop import INTERRUPTED, ended_at_once

RUNGS = (
    "loopback",
    "shmem",
    "mpi",
    "nccl",
    "nvshmem-stream",
    "nvshmem-pulse",
    "nvshmem-fused",
    "nvshmem-step",
)
GPU_RUNGS = RUNGS[:1:-1]
"""Those between GPUs, the best first."""

_SPACE = "free some space, or set PULSEMD_CACHE_DIR to a folder elsewhere for compiled kernels"
_ACCESS = "give a file or folder that can be used"
_MEMORY = "use fewer ranks here, or more machines or memory"
REMEDIES = {errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE, errno.ENOMEM: _MEMORY} | dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG), _ACCESS
)
"""What to do about errors of the machine, wherever they come from."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="pulsemd", description="Molecular dynamics on many ranks, from Python."
    )
    parser.add_argument("--version", action="version", version=f"pulsemd {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _add_command(commands, "run", "run:main", "run molecular dynamics")
    _add_input(run)
    run.add_argument(
        "-o", dest="out", type=_folder, required=True, metavar="OUT", help="directory for the results"
    )
    _add_common(run)
    run.add_argument(
        "--steps", type=_count, help="number of steps, counted from the first start, instead of nsteps"
    )
    _add_output(run)
    energy = _add_command(commands, "energy", "run:main", "energies of one configuration, term by term")
    _add_input(energy)
    _add_common(energy)
    plan = _add_command(
        commands, "plan", "plan:plan", "how a system would be cut into ranks, without running it"
    )
    _add_input(plan)
    _add_common(plan, several=True)
    report = _add_command(commands, "report", "report:report", "what runs did and found, side by side")
    report.add_argument("out", nargs="+", metavar="OUT", help="directory of a run")
    _add_json(report)
    build = _add_command(
        commands, "build", "systems:build", "write input files of a bundled system in any size"
    )
    build.add_argument("name", choices=("water", "water-ethanol"))
    build.add_argument("--atoms", type=_count, required=True, help="number of atoms wanted")
    build.add_argument("-o", dest="out", required=True, metavar="DIR")
    _add_command(commands, "systems", "systems:show_systems", "list the bundled systems")
    counts = _add_command(
        commands, "census", "compare:show_census", "count the molecules and terms of a topology"
    )
    counts.add_argument("-p", dest="top", required=True, metavar="TOPOL.top")
    counts.add_argument("-f", dest="mdp", metavar="RUN.mdp", help="settings, for macros and constraints")
    _add_format(counts)
    compare = _add_command(
        commands, "compare", "compare:compare", "compare each energy with that of another program"
    )
    compare.add_argument("program", choices=("gmx",))
    _add_input(compare)
    compare.add_argument(
        "--tolerance", type=float, default=1e-4, help="relative difference at which a term disagrees (1e-4)"
    )
    bench = commands.add_parser("bench", help="measure a part of the program")
    _add_bench(bench.add_subparsers(dest="part", required=True, metavar="PART"))
    timeline = _add_command(commands, "timeline", "timeline:timeline", "draw one step of runs with --trace")
    timeline.add_argument("out", nargs="+", metavar="OUT", help="directory of a run, or a trace of bench md")
    timeline.add_argument(
        "-o",
        dest="picture",
        type=_picture,
        metavar="FILE",
        help="the picture, .svg or .png (OUT/timeline.svg)",
    )
    timeline.add_argument("--table", metavar="FILE.csv", help="also write the phases in it")
    _add_json(timeline)
    _add_json(
        _add_command(
            commands, "doctor", "doctor:doctor", "say what works on this machine, and why the rest does not"
        )
    )
    return parser


def _add_command(commands: Any, name: str, target: str, help_: str) -> argparse.ArgumentParser:
    """A command and the function that runs it, ``module:function`` of `pulsemd.cli`."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_)
    parser.set_defaults(target=target)
    return parser


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a bundled system, instead of -c, -p and -f")
    parser.add_argument("-c", dest="conf", metavar="CONF.gro", help="positions, velocities and box")
    parser.add_argument("-p", dest="top", metavar="TOPOL.top", help="topology")
    parser.add_argument("-f", dest="mdp", metavar="RUN.mdp", help="settings, .mdp or .toml")
    parser.add_argument(
        "-r", dest="ref", metavar="REF.gro", help="reference positions of position restraints"
    )
    parser.add_argument("-n", dest="index", metavar="INDEX.ndx", help="groups besides the default ones")
    _add_format(parser)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-I", dest="include", action="append", default=[], metavar="DIR", help="folder of included files"
    )
    _add_json(parser)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--restart", metavar="CHECKPOINT", help="go on from a checkpoint; in the same OUT: append"
    )
    parser.add_argument(
        "--checkpoint-minutes",
        type=_amount,
        metavar="MINUTES",
        help="between checkpoints (15; 0: each search)",
    )
    parser.add_argument(
        "--max-hours", type=_amount, metavar="HOURS", help="checkpoint and stop after this time"
    )
    parser.add_argument("--trajectory", choices=("dcd", "xtc", "trr"), help="format of the trajectory (dcd)")
    parser.add_argument(
        "--positions",
        choices=("whole", "unwrapped"),
        help="in the trajectory: molecules whole (default) or unwrapped",
    )
    parser.add_argument("--xvg", action="store_const", const=True, help="write energies.xvg too, at the end")
    parser.add_argument(
        "--trace", action="store_true", help="write the times of the last steps' phases to trace.json"
    )


def _add_common(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Flags of all commands on ranks; with `several`, of one that goes through numbers of ranks."""
    ranks = (
        "numbers of ranks, each for itself (1)"
        if several
        else "number of ranks (1, or those of mpirun or srun)"
    )
    parser.add_argument("--ranks", type=_count, nargs="+" if several else None, help=ranks)
    parser.add_argument(
        "--ranks-per-gpu", type=_count, metavar="K", help="with several ranks on GPUs, those of each (1)"
    )
    parser.add_argument("--grid", type=_grid, metavar="AxBxC", help="cells along each box vector")
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), help="auto: a GPU where one can be used")
    parser.add_argument("--transport", choices=RUNGS, help="of the halo exchange (the fastest that works)")
    parser.add_argument("--plan", choices=("staged", "direct", "auto"), help="of the halo exchange (auto)")
    parser.add_argument(
        "--precision",
        choices=("fast", "reproducible"),
        help="reproducible: the same bits on any number of ranks (fast)",
    )
    parser.add_argument("--nstlist", type=_count, help="steps between neighbor searches")
    parser.add_argument("--seed", type=int, help="seed of velocities and thermostat")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="bound of every wait for another rank"
    )


def _add_bench(parts: Any) -> None:
    halo = _add_command(
        parts, "halo", "bench:bench_halo", "times of the halo exchange between GPUs, on every rung"
    )
    halo.add_argument("--gpus", type=int, default=2, help="processes, one for each GPU (2)")
    halo.add_argument("--ranks-per-gpu", type=int, default=1, metavar="K", help="plan-ranks of each GPU (1)")
    halo.add_argument(
        "--grid", type=_rank_grid, nargs="+", help="ranks in each dimension, as 2x2x2; all in one"
    )
    halo.add_argument("--rows", type=int, nargs="+", default=[256, 4096, 65536], help="sent in each pulse")
    halo.add_argument("--width", type=int, nargs="+", default=[4], help="32-bit elements of a row (4)")
    # Alone, an exchange of nvshmem-step is one of nvshmem-fused.
    halo.add_argument("--transport", nargs="+", choices=GPU_RUNGS[1:], default=list(GPU_RUNGS[1:]))
    halo.add_argument("--plan", nargs="+", choices=("staged", "direct"), default=["staged"])
    halo.add_argument(
        "--blocks", type=int, nargs="+", default=[0], help="of each pulse of nvshmem-fused; 0: it chooses (0)"
    )
    halo.add_argument("--puts", action="store_true", help="reach peers by puts, also where stores reach them")
    halo.add_argument("--repeats", type=int, default=5, help="of which the median is taken (5)")
    halo.add_argument("--timeout", type=float, metavar="SECONDS", help="bound of every wait for another rank")
    halo.add_argument("-o", dest="out", metavar="DIR", help="folder for the CSV and the plot")
    _add_json(halo)
    _add_bench_md(
        _add_command(parts, "md", "bench:bench_md", "times of molecular dynamics on GPUs, on every rung")
    )


def _add_bench_md(md: argparse.ArgumentParser) -> None:
    md.add_argument("--gpus", type=int, default=2, help="processes, one for each GPU (2)")
    md.add_argument(
        "--ranks-per-gpu", type=int, nargs="+", default=[1], metavar="K", help="ranks of each GPU (1)"
    )
    md.add_argument("--system", nargs="+", choices=("water", "water-pme", "water-ethanol"), default=["water"])
    md.add_argument("--atoms", type=int, nargs="+", default=[11_000, 45_000, 90_000, 180_000, 720_000])
    md.add_argument("--transport", nargs="+", choices=GPU_RUNGS, default=list(GPU_RUNGS))
    md.add_argument("--plan", nargs="+", choices=("staged", "direct"), default=["direct"])
    md.add_argument(
        "--grid",
        type=_grid,
        nargs="+",
        default=[],
        metavar="AxBxC",
        help="each for as many ranks as it has cells",
    )
    md.add_argument("--no-graph", action="store_true", help="also without graphs")
    md.add_argument(
        "--nstlist", type=int, nargs="+", default=[100], metavar="N", help="steps between searches (100)"
    )
    md.add_argument("--lifetimes", type=int, default=5, help="list lifetimes of one repeat (5)")
    md.add_argument("--repeats", type=int, default=5, help="of which the median is taken (5; 0: no times)")
    md.add_argument("--check", type=int, default=200, help="steps of the hash (200; 0: none)")
    md.add_argument(
        "--trace", action="store_true", help="also a traced run: how long GPUs wait for exchanges"
    )
    md.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="of every wait (120)")
    md.add_argument(
        "-o", dest="out", metavar="DIR", help="folder of the CSV, to which rows are added, and of traces"
    )
    _add_json(md)


def _rank_grid(text: str) -> tuple[int, ...]:
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not one to three positive numbers as in 2x2x2")
    return tuple(int(part) for part in parts)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number that is not negative, as in 1000")
    return int(text)


def _folder(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name of the folder is empty; give . for this one")
    return text


def _picture(text: str) -> str:
    if not text.endswith((".svg", ".png")):
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .svg or .png, the formats there are")
    return text


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number that is not negative")
    return value


def _grid(text: str) -> tuple[int, int, int]:
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not three positive numbers as in 2x1x1")
    a, b, c = (int(part) for part in parts)
    return a, b, c


def dispatch(args: argparse.Namespace) -> int:
    """Run one command; imports what it needs and no more."""
    module, function = args.target.split(":")
    with ended_at_once(getattr(args, "out", None)) if module == "run" else nullcontext():
        code: int = getattr(import_module(f"pulsemd.cli.{module}"), function)(args)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the result is the exit code."""
    if "PULSEMD_CACHE_DIR" in os.environ:
        os.environ.setdefault("NUMBA_CACHE_DIR", os.environ["PULSEMD_CACHE_DIR"])
    _repair_streams()
    args = build_parser().parse_args(argv)
    try:
        check_numba_cache()
        return dispatch(args)
    except PulseMDError as error:
        print(f"error: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            # Tracebacks are for bugs, and this is none; input is read by rank 0, and a blow-up names its rank.
            if "\n" not in note and not (error.exit_code in (3, 6) and note.startswith("raised on rank")):
                print(f"  {note}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except SystemExit as ending:
        if ending.code != 128 + signal.SIGTERM:
            raise
        return _interrupted()
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except MemoryError as error:
        print(f"error: there is not enough memory ({str(error) or 'for Python'}); {_MEMORY}", file=sys.stderr)
        return OutputError.exit_code
    except OSError as error:
        if error.errno not in REMEDIES:
            return _bug()
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror}; {REMEDIES[error.errno]}", file=sys.stderr)
        return OutputError.exit_code
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while a class was made, by an import
            return _interrupted()
        return _bug()


def _repair_streams() -> None:
    """Let streams that are closed go nowhere, and names of files be printed that the terminal's encoding lacks."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the next file opened would be this stream, with all that is printed in it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _bug() -> int:
    traceback.print_exc()
    print(
        f"error: this is a bug in pulsemd {VERSION}; please report it with the lines above and the command",
        file=sys.stderr,
    )
    return 1


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
