"""``pulsemd plan``: how a system would be cut for numbers of ranks, without running it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from typing import Any

from pulsemd.base.errors import DomainError
from pulsemd.cli.rank import read_input
from pulsemd.cli.request import RunRequest, file_fields, input_files, overrides, run_options
from pulsemd.engine.device import choose_device, fit_device
from pulsemd.engine.options import RunOptions
from pulsemd.engine.system import System
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.mdp import located, read_settings
from pulsemd.plan.cut import Cut, cut_system


def plan(args: argparse.Namespace) -> int:
    """Print how the system would be cut for each number of ranks; the result is the exit code.

    Numbers of ranks that cannot be met are named on stderr, as a run names them, and the others are shown.
    """
    conf, top, mdp = input_files(args)
    settings, table = read_settings(mdp)
    request = RunRequest(conf, top, replace(settings, **overrides(args)), mdp=mdp, **file_fields(args))
    with located(mdp), open_transport("loopback") as transport:
        system, _ = read_input(transport, request)
        found, code = [], 0
        for ranks in args.ranks or [None]:
            try:
                cut = cut_system(system, _options(args, table, ranks, system))
            except DomainError as error:
                print(f"error: {error}", file=sys.stderr)
                found.append({"ranks": ranks, "refused": str(error)})
                code = error.exit_code
                continue
            found.append(as_json(cut))
            if not args.json:
                print(as_text(cut), end="\n\n")
    if args.json:
        print(json.dumps({"cuts": found}))
    return code


def _options(
    args: argparse.Namespace, table: dict[str, Any], ranks: int | None, system: System
) -> RunOptions:
    """The options of a run; GPUs that are asked for need not be there."""
    options = run_options(argparse.Namespace(**vars(args) | {"ranks": ranks}), table, None)
    options = replace(options, raise_nstlist=args.nstlist is None)
    if options.device == "auto":
        options = choose_device(options)
    return fit_device(options, system.topology, system.settings)


def as_json(cut: Cut) -> dict[str, Any]:
    """A cut as plain values."""
    fields = {name: value for name, value in vars(cut).items() if name not in ("grids", "exchanges")}
    forward, reverse = cut.bytes_per_step
    return fields | {
        "grid": list(cut.grids[0].grid),
        "grids": [asdict(grid) for grid in cut.grids],
        "owned": cut.owned.tolist(),
        "ghosts": cut.ghosts.tolist(),
        "ghost_share": cut.ghost_share,
        "exchanges": {kind: asdict(exchange) for kind, exchange in cut.exchanges.items()},
        "bytes_per_step": {"forward": forward, "reverse": reverse},
    }


def as_text(cut: Cut) -> str:
    """A cut for people."""
    raised = f" (raised from {cut.nstlist_of_settings})" * (cut.nstlist > cut.nstlist_of_settings)
    lines = [
        f"{cut.ranks} rank(s), {cut.atoms} atoms, device {cut.device}, precision {cut.precision}",
        f"list cut-off {cut.list_cutoff_nm:.3f} nm, nstlist {cut.nstlist}{raised}: {cut.list_cutoff_why}",
        f"halo {cut.halo_nm:.3f} nm wide",
        f"{'grid':<12}{'cost nm^3':>10}{'cell nm':>22}{'pulses':>10}",
    ]
    for number, row in enumerate(cut.grids):
        cell = " x ".join(f"{width:.3f}" for width in row.cell_nm)
        name, pulses = "x".join(map(str, row.grid)), "+".join(map(str, row.pulses))
        lines.append(f"{name:<12}{row.cost:>10.1f}{cell:>22}{pulses:>10}" + "  taken" * (number == 0))
    lines.append(f"{'atoms of a rank':<20}{'least':>10}{'mean':>12}{'most':>10}")
    for name, counts in (("owned", cut.owned), ("ghosts", cut.ghosts)):
        lines.append(f"{name:<20}{counts.min():>10}{counts.mean():>12.1f}{counts.max():>10}")
    lines.append(f"{'plan':<10}{'pulses of a rank':>18}{'in a row':>10}{'messages':>10}{'rows':>10}")
    for kind, e in cut.exchanges.items():
        row_of_plan = f"{kind:<10}{e.pulses:>18}{e.in_a_row:>10}{e.messages:>10}{e.rows:>10}"
        lines.append(row_of_plan + "  taken" * (kind == cut.plan))
    forward, reverse = cut.bytes_per_step
    lines.append(
        f"a step sends {forward} bytes forward and {reverse} in reverse, all ranks together; "
        f"{cut.ghost_share:.1%} of all rows are ghosts"
    )
    return "\n".join(lines)
