"""``pulsemd systems`` and ``pulsemd build``."""

from __future__ import annotations

import argparse

from pulsemd.systems import build_system, list_systems, system_files


def show_systems(_: argparse.Namespace) -> int:
    """List the bundled systems, one a line."""
    for name in list_systems():
        print(f"{name:<14} {system_files(name).description}")
    return 0


def build(args: argparse.Namespace) -> int:
    """Write the files of a bundled system in another size."""
    box = build_system(args.name, args.atoms, args.out)
    print(f"{box.n_atoms} atoms in a cube of {box.edge:.4f} nm")
    print(f"pulsemd run -c {box.configuration} -p {box.topology} -f {box.parameters} -o OUT")
    return 0
