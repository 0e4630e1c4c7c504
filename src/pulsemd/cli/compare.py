"""``pulsemd census`` and ``pulsemd compare``."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

from pulsemd.cli.rank import read_input, say_preparing
from pulsemd.cli.request import RunRequest, file_fields, input_files
from pulsemd.engine.simulation import Simulation
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.mdp import located, read_settings
from pulsemd.io.gromacs.system import read_top
from pulsemd.report.census import census, census_text
from pulsemd.report.gromacs import find_gmx, gromacs_energies

ABSOLUTE = 1e-3
"""Differences up to this many kJ/mol count as none: mixed precision of gmx on small terms."""


def show_census(args: argparse.Namespace) -> int:
    """Print what a topology holds; ``-f`` gives its macros and constraints."""
    settings = RunSettings() if args.mdp is None else read_settings(args.mdp)[0]
    topology, _ = read_top(args.top, settings, args.include)
    counts = census(topology)
    print(json.dumps(counts) if args.json else census_text(counts))
    return 0


def compare(args: argparse.Namespace) -> int:
    """Print each energy as GROMACS and PulseMD have it; 0 if all agree within the tolerance, else 1."""
    find_gmx()
    conf, top, mdp = input_files(args)
    settings = replace(read_settings(mdp)[0].with_drawn_seeds(), nsteps=0, integrator="md")
    request = RunRequest(conf, top, settings, **file_fields(args))
    with located(mdp), open_transport("loopback") as transport:
        system, request = read_input(transport, request)
        say_preparing()
        ours = Simulation(transport, system, request.options).single_point()
    theirs = gromacs_energies(conf, top, settings, request.include, request.reference, request.index)
    rows = {
        name: {"gmx": value, "pulsemd": ours.get(name, 0.0), "difference": ours.get(name, 0.0) - value}
        for name, value in theirs.energies.items()
    }
    bad = [name for name, row in rows.items() if not _agree(row, args.tolerance)]
    if args.json:
        print(json.dumps({"program": theirs.program, "terms": rows, "disagree": bad}))
    else:
        print(f"{'kJ/mol':<20}{theirs.program:>20}{'pulsemd':>20}{'difference':>16}")
        for name, row in rows.items():
            mark = "  *" if name in bad else ""
            print(f"{name:<20}{row['gmx']:>20.6f}{row['pulsemd']:>20.6f}{row['difference']:>16.6f}{mark}")
    return 1 if bad else 0


def _agree(row: dict[str, float], tolerance: float) -> bool:
    return abs(row["difference"]) <= tolerance * abs(row["gmx"]) + ABSOLUTE
