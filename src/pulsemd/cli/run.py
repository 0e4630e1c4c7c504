"""``pulsemd run`` and ``pulsemd energy``: from the command line to the ranks."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulsemd.base.errors import ConfigError, InputError, TransportError
from pulsemd.cli.request import RunRequest, input_files, run_options
from pulsemd.cli.started import started_as
from pulsemd.engine.device import choose_device
from pulsemd.halo import TRANSPORTS, launch, open_transport
from pulsemd.io.gromacs.mdp import read_settings

RESULTS = ("energies.csv", "trajectory.dcd", "final.gro", "summary.json", "run.mdp")
"""Files of a run's directory."""


def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    conf, top, mdp = input_files(args)
    settings, table = read_settings(mdp)
    started = started_as()
    options = run_options(args, table, None if started is None else started[1])
    if options.rung not in TRANSPORTS:
        raise TransportError(
            f"--transport {options.rung}: is not part of this version, which runs one GPU alone"
        )
    options = choose_device(options)
    request = RunRequest(
        conf,
        top,
        replace(settings, **_overrides(args)),
        include=tuple(Path(folder) for folder in args.include),
        reference=None if args.ref is None else Path(args.ref),
        options=options,
        out=_prepare(args.out, started is None or started[0] == 0) if args.command == "run" else None,
        json=args.json,
    )
    if started is not None or (options.ranks == 1 and options.rung == "loopback"):
        from pulsemd.cli.rank import run_rank

        with open_transport(options.rung, timeout=options.timeout) as transport:
            run_rank(transport, request)
    else:
        launch(
            options.ranks,
            "pulsemd.cli.rank:run_rank",
            request,
            transport=options.rung,
            timeout=options.timeout,
        )
    return 0


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    """Settings that flags replace."""
    values: dict[str, Any] = {}
    if args.command == "energy":
        values["nsteps"] = 0
    elif args.steps is not None:
        values["nsteps"] = args.steps
    if args.nstlist is not None:
        if args.nstlist < 1:
            raise ConfigError("--nstlist 0: at least 1 step between searches is needed")
        values["nstlist"] = args.nstlist
    if args.seed is not None:
        values["gen_seed"] = values["ld_seed"] = args.seed
    return values


def _prepare(out: str, first: bool) -> Path:
    """The directory of the results, made if absent.

    Raises
    ------
    InputError
        If it cannot be made or already holds results.
    """
    folder = Path(out)
    if not first:
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}; choose another -o", folder) from error
    for name in RESULTS:
        if (folder / name).exists():
            raise InputError("exists already and is not overwritten; choose another -o", folder / name)
    return folder
