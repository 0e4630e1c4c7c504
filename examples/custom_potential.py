"""Water with a softer core: a pair potential in Python on several ranks, next to Lennard-Jones.

    python custom_potential.py [--ranks N] [--steps N]

Prints the mean Lennard-Jones energy and temperature of both, and the speed of both: they should be equal.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import pulsemd
from pulsemd.systems import system_files


def soft_core(r2, c6, c12):
    """Lennard-Jones in (r^6 + s^6): finite at r = 0, the same beyond the first neighbors."""
    s6 = (r2 * r2 * r2 + 2.0e-6) ** -1
    slope = 6.0 * r2 * r2 * s6 * s6
    return (c12 * s6 - c6) * s6, (2.0 * c12 * s6 - c6) * slope


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    water = system_files("water")
    for name, potential in (("Lennard-Jones", None), ("soft core", soft_core)):
        rows: list[dict[str, float]] = []
        with pulsemd.Simulation.from_gromacs(
            water.configuration,
            water.topology,
            water.parameters,
            ranks=arguments.ranks,
            device="cpu",
            pair_potential=potential,
        ) as simulation:
            simulation.add_reporter(
                50, energies=lambda step, time, energies, rows=rows: rows.append(energies)
            )
            start = perf_counter()
            simulation.run(arguments.steps)
            ms = 1e3 * (perf_counter() - start) / arguments.steps
        mean = {key: sum(row[key] for row in rows) / len(rows) for key in ("lj", "temperature")}
        print(f"{name:<14} lj {mean['lj']:10.1f} kJ/mol  {mean['temperature']:6.1f} K  {ms:6.2f} ms/step")


if __name__ == "__main__":
    main()
