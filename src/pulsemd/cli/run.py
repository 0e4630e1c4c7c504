"""``pulsemd run`` and ``pulsemd energy``: from the command line to the ranks."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulsemd.base.cores import usable_cores
from pulsemd.base.errors import ConfigError, InputError, OutputError, PeerError
from pulsemd.cli.request import (
    RunRequest,
    file_fields,
    input_files,
    located_in_table,
    output_options,
    overrides,
    run_options,
)
from pulsemd.cli.started import started_as
from pulsemd.engine.device import choose_device, fit_device
from pulsemd.engine.options import RunOptions
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import launch, launch_gpus, open_transport
from pulsemd.halo.launch import check_crowd
from pulsemd.io.checkpoint import NAME, PREVIOUS
from pulsemd.io.gromacs.mdp import located, read_settings
from pulsemd.io.gromacs.system import read_top
from pulsemd.io.output import make_folder
from pulsemd.io.xdr import load_chemfiles

RESULTS = (
    "energies.csv", "trajectory.dcd", "trajectory.xtc", "trajectory.trr", "final.gro", "summary.json", "run.mdp",
    "energies.xvg", "checkpoint.pmd", "checkpoint.prev.pmd", "crash.gro",
    "trace.json",
)  # fmt: skip
"""Files of a run's directory."""

_READ_TWICE = 2**20
"""Bytes of a configuration, some 15,000 atoms, up to which it is read before ranks are started, in some tenths of a
second. Larger boxes have room for about any grid; where not, the ranks find out."""


def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    started = started_as()
    request = _requested(args, started)
    if started is None and request.options.ranks > 1 and _size(request.conf) <= _READ_TWICE:
        check_crowd(request.options.n_processes)
        _refuse_early(request)
    try:
        return (
            _run_on_gpus(request, started is not None)
            if request.options.several_on_gpus
            else _run(request, started)
        )
    except PeerError as error:
        if request.out is not None and (request.out / NAME).exists():
            error.add_note(f"to go on from the last checkpoint, give --restart {request.out / NAME}")
        raise


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it says more
        return 0


def _refuse_early(request: RunRequest) -> None:
    """Raise what the ranks would raise once all of them are there, as of a grid that does not fit."""
    from pulsemd.cli.rank import read_here
    from pulsemd.plan.cut import choose_cut

    logging.disable(logging.WARNING)  # they are said by the rank that reads for the run
    try:
        with located(request.mdp):
            system, _ = read_here(request, quiet=True)
            choose_cut(system, fit_device(request.options, system.topology, system.settings, started=True))
    finally:
        logging.disable(logging.NOTSET)


def _requested(args: argparse.Namespace, started: tuple[int, int] | None) -> RunRequest:
    """All that the command line and the settings file ask for, checked as far as it can be before ranks start."""
    conf, top, mdp = input_files(args)
    settings, table = read_settings(mdp)
    runs = args.command == "run"
    with located_in_table(mdp, table, args):
        options = run_options(args, table, None if started is None else started[1])
        output = output_options(args, table)
        if runs and not settings.minimises:
            _check_trajectory(settings, output)
    if args.seed is not None and not settings.draws:
        raise ConfigError(f"--seed {args.seed}: with these settings nothing is drawn at random; leave it out")
    options = replace(
        options,
        raise_nstlist=args.nstlist is None,
        count_images=output.get("positions") == "unwrapped",
        trace=runs and args.trace,
    )
    options = _with_device(options, args, top, settings, started is not None)
    restart = _checkpoint_file(args) if runs else None
    if settings.minimises and runs:
        _check_minimisation(args)
    append = restart is not None and _same_folder(restart.parent, Path(args.out))
    first = started is None or started[0] == 0
    return RunRequest(
        conf,
        top,
        replace(settings, **overrides(args)),
        options=options,
        out=_prepare(args.out, first, append) if runs else None,
        json=args.json,
        restart=restart,
        append=append,
        mdp=mdp,
        **file_fields(args),
        **output,
    )


def _with_device(
    options: RunOptions, args: argparse.Namespace, top: Path, settings: RunSettings, started: bool
) -> RunOptions:
    """The options with the device that is taken, and with the transport of ranks of CPUs that mpirun started."""
    options = choose_device(options, started)
    if options.several_on_gpus and not options.device_asked:
        # one rank can still change when it has read the system
        topology, _ = read_top(top, settings, args.include)
        options = fit_device(options, topology, settings)
    if started and options.device == "cpu" and options.transport is None:
        options = replace(options, transport="mpi")
    return options


def _check_trajectory(settings: RunSettings, output: dict[str, Any]) -> None:
    """Refuse what is asked of a trajectory that is not written, and a format whose library is not there."""
    asked = [name for name in ("trajectory", "positions") if name in output]
    if asked and not (settings.nstxout_compressed or settings.nstxout):
        raise ConfigError(
            f"{asked[0]} = {output[asked[0]]}: no trajectory is written, since nstxout-compressed and nstxout are 0; "
            f"set nstxout-compressed, or leave {asked[0]} out"
        )
    if (kind := output.get("trajectory", "dcd")) != "dcd":
        load_chemfiles(kind)


def _check_minimisation(args: argparse.Namespace) -> None:
    """Refuse flags for what a minimisation does not have."""
    if args.restart is not None:
        raise ConfigError(
            "--restart: a minimisation has no checkpoints; give the final.gro it left as -c, without --restart"
        )
    if args.trace or args.trajectory is not None or args.positions is not None:
        raise ConfigError(
            "--trace, --trajectory, --positions: a minimisation writes neither trace nor trajectory; leave them out"
        )


def _run(request: RunRequest, started: tuple[int, int] | None) -> int:
    """One rank in this process, or several in processes of their own."""
    options = request.options
    if started is not None or (options.ranks == 1 and options.rung == "loopback"):
        from pulsemd.cli.rank import run_rank

        with open_transport(options.rung, timeout=options.timeout) as transport:
            return run_rank(transport, request)
    cores = usable_cores()
    _tell_start(f"{options.ranks} ranks" + f" on {cores} core(s)" * (options.ranks > cores))
    code: int = launch(
        options.ranks,
        "pulsemd.cli.rank:run_rank",
        request,
        transport=options.rung,
        timeout=options.timeout,
    )
    return code


def _run_on_gpus(request: RunRequest, started: bool) -> int:
    """Processes with a GPU each, started here or by mpirun."""
    options = request.options
    if not started:
        n_gpus = options.n_processes
        _tell_start(f"{n_gpus} process(es) with a GPU each (the first time on a machine up to a minute)")
        code: int = launch_gpus(
            n_gpus,
            "pulsemd.cli.rank:run_process",
            request,
            transport=options.rung,
            ranks_per_gpu=options.ranks_per_gpu,
            timeout=options.timeout,
        )
        return code
    from pulsemd.cli.rank import run_process
    from pulsemd.halo.rungs.ladder import open_rung
    from pulsemd.halo.rungs.world import open_gpu_world

    with (
        open_gpu_world(options.ranks_per_gpu, options.timeout) as world,
        open_rung(world, options.rung) as transport,
    ):
        return run_process(transport, request)


def _tell_start(what: str) -> None:
    """Say what takes a few seconds, and longer the first time on a machine."""
    print(f"starting {what}", file=sys.stderr, flush=True)


def _checkpoint_file(args: argparse.Namespace) -> Path | None:
    """The checkpoint to go on from; a folder stands for the newest one in it.

    Raises
    ------
    InputError
        If there is none, before anything is said about the results beside it.
    """
    if args.restart is None:
        return None
    path = Path(args.restart)
    file = path / NAME if path.is_dir() else path
    if not file.exists() and not file.with_name(PREVIOUS).exists():
        raise InputError("does not exist; give a checkpoint, or the folder of a run that has one", file)
    return file


def _same_folder(a: Path, b: Path) -> bool:
    return b.exists() and a.exists() and b.samefile(a)


def _prepare(out: str, first: bool, append: bool) -> Path:
    """The directory of the results, made if absent.

    Raises
    ------
    InputError
        If it already holds results that are not to be continued.
    OutputError
        If it cannot be made or written to.
    """
    folder = Path(out)
    if not first:
        return folder
    make_folder(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{folder}: cannot be written to; choose another -o")
    for name in RESULTS:
        if not append and (folder / name).exists():
            remedy = "choose another -o, or continue with --restart where there is a checkpoint"
            raise InputError(f"exists already and is not overwritten; {remedy}", folder / name)
    return folder
