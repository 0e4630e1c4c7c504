"""What the command line asks for, in a form that travels to the ranks."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError
from pulsemd.engine.options import RunOptions
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp_writer import to_mdp
from pulsemd.systems import system_files

FLAGS = ("ranks", "ranks_per_gpu", "grid", "device", "transport", "plan", "precision", "timeout")
"""Flags of all commands that a settings file in TOML may give in its ``[pulsemd]`` table; the command line wins."""

TRAJECTORIES = ("dcd", "xtc", "trr")
"""Formats of a trajectory."""

OUTPUT_FLAGS = ("checkpoint_minutes", "max_hours", "trajectory", "positions", "xvg")
"""The same of runs alone."""


@dataclass(frozen=True)
class RunRequest:
    """A run or a single-point energy as asked for.

    Parameters
    ----------
    conf, top : Path
    settings : RunSettings
        Of the settings file, with what flags replace.
    include : tuple of Path
    reference : Path or None
        Reference positions of restraints.
    options : RunOptions
    out : Path or None
        None: energies only.
    json : bool
    restart : Path or None
        Checkpoint to go on from.
    append : bool
        The results in `out` are continued.
    checkpoint_minutes : float
    max_hours : float or None
    index : Path or None
        File of groups.
    trajectory : {'dcd', 'xtc', 'trr'}
    positions : {'whole', 'unwrapped'}
    xvg : bool
    atoms : (k,) int32 or None
        Global ids of the atoms in the trajectory, once groups are known; None: all.
    mdp : Path or None
        The settings file, for messages that point into it.
    """

    conf: Path
    top: Path
    settings: RunSettings
    include: tuple[Path, ...] = ()
    reference: Path | None = None
    options: RunOptions = field(default_factory=RunOptions)
    out: Path | None = None
    json: bool = False
    restart: Path | None = None
    append: bool = False
    checkpoint_minutes: float = 15.0
    max_hours: float | None = None
    index: Path | None = None
    trajectory: Literal["dcd", "xtc", "trr"] = "dcd"
    positions: Literal["whole", "unwrapped"] = "whole"
    xvg: bool = False
    atoms: NDArray[np.int32] | None = None
    mdp: Path | None = None


def input_files(args: argparse.Namespace) -> tuple[Path, Path, Path]:
    """Configuration, topology and settings, from a bundled system's name or from -c, -p and -f.

    Raises
    ------
    ConfigError
        If neither or both are given.
    """
    given = [args.conf, args.top, args.mdp]
    if args.name is not None:
        files = system_files(args.name)
        if args.conf or args.top:
            raise ConfigError(f"'{args.name}' is a bundled system; give it or -c and -p, not both")
        return files.configuration, files.topology, Path(args.mdp) if args.mdp else files.parameters
    missing = [flag for flag, value in zip(("-c", "-p", "-f"), given, strict=True) if value is None]
    if missing:
        raise ConfigError(
            f"{' and '.join(missing)} missing; give -c, -p and -f, or the name of a bundled system"
        )
    return Path(args.conf), Path(args.top), Path(args.mdp)


def file_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of `RunRequest` about files besides configuration, topology and settings."""
    return {
        "include": tuple(Path(folder) for folder in args.include),
        "reference": None if args.ref is None else Path(args.ref),
        "index": None if args.index is None else Path(args.index),
    }


def overrides(args: argparse.Namespace) -> dict[str, Any]:
    """Settings that flags replace."""
    values: dict[str, Any] = {}
    if args.command == "energy":
        values["nsteps"] = 0
    elif getattr(args, "steps", None) is not None:
        values["nsteps"] = args.steps
    if args.nstlist is not None:
        if args.nstlist < 1:
            raise ConfigError("--nstlist 0: at least 1 step between searches is needed")
        values["nstlist"] = args.nstlist
    if args.seed is not None:
        values["gen_seed"] = values["ld_seed"] = args.seed
    return values


def run_options(args: argparse.Namespace, table: dict[str, Any], started_ranks: int | None) -> RunOptions:
    """Common flags, from the command line, else from a TOML's ``[pulsemd]`` table, else defaults.

    Parameters
    ----------
    table : dict
    started_ranks : int or None
        Ranks that mpirun or srun started; None outside of them.

    Raises
    ------
    ConfigError
        For unknown keys, or a number of ranks other than the one started.
    """
    known = (*FLAGS, *OUTPUT_FLAGS)
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ConfigError(f"[pulsemd] {unknown[0]}: no such setting; there are {', '.join(known)}")
    values = {name: table[name] for name in FLAGS if name in table}
    values |= {name: value for name in FLAGS if (value := getattr(args, name)) is not None}
    values.setdefault("device", "auto")
    if isinstance(values.get("grid"), list):
        values["grid"] = tuple(values["grid"])
    if started_ranks is not None:
        started_ranks *= values.get("ranks_per_gpu", 1)  # others than 1 are refused on CPUs
        if values.setdefault("ranks", started_ranks) != started_ranks:
            raise ConfigError(
                f"--ranks {values['ranks']}: {started_ranks} ranks were started; leave --ranks out"
            )
    return RunOptions(**values)


@contextmanager
def located_in_table(path: Path, table: dict[str, Any], args: argparse.Namespace) -> Iterator[None]:
    """Errors about a key of a TOML's ``[pulsemd]`` table that no flag replaces get its file and line."""
    try:
        yield
    except ConfigError as error:
        name = re.sub(r"^\[pulsemd\] ", "", str(error)).partition(" ")[0].rstrip(":")
        if name not in table or getattr(args, name, None) is not None:
            raise
        text = path.read_text("utf-8")
        place = re.compile(rf"(?m)^[ \t]*{re.escape(name)}[ \t]*=").search(
            text, max(0, text.find("[pulsemd]"))
        )
        line = 1 if place is None else text.count("\n", 0, place.end()) + 1
        raise ConfigError(f"{path}:{line}: {error}") from error


def settings_of_run(request: RunRequest, settings: RunSettings) -> bytes:
    """The text of ``run.mdp``: the settings that were used, and the flags as comments in the form of a TOML's table."""
    used = vars(request.options) | vars(request)
    flags = {name: used[name] for name in (*FLAGS, *OUTPUT_FLAGS) if used[name] is not None}
    table = [f"; {name} = {json.dumps(value)}\n" for name, value in flags.items()]
    return "".join([to_mdp(settings), "\n; [pulsemd]\n", *table]).encode()


def output_options(args: argparse.Namespace, table: dict[str, Any]) -> dict[str, Any]:
    """Fields of `RunRequest` about results, from the command line, else from a TOML's ``[pulsemd]`` table."""
    values = {name: table[name] for name in OUTPUT_FLAGS if name in table}
    values |= {name: value for name in OUTPUT_FLAGS if (value := getattr(args, name, None)) is not None}
    for name, known in (("trajectory", TRAJECTORIES), ("positions", ("whole", "unwrapped"))):
        if values.get(name, known[0]) not in known:
            raise ConfigError(f"[pulsemd] {name} = {values[name]}: there are {', '.join(known)}")
    for name in ("checkpoint_minutes", "max_hours"):
        if name in values and not (isinstance(values[name], int | float) and values[name] >= 0):
            raise ConfigError(f"[pulsemd] {name} = {values[name]}: a number that is not negative is needed")
    if not isinstance(values.get("xvg", False), bool):
        raise ConfigError(f"[pulsemd] xvg = {values['xvg']}: there are true, false")
    return values
