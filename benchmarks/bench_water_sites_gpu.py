"""Time of molecular dynamics of three-, four- and five-site water on one GPU, in alternated repeats.

    python benchmarks/bench_water_sites_gpu.py --out benchmarks/results [--waters 8000 30000]

SPC/E, TIP4P and TIP5P with reaction field, a cut-off of 1.0 nm, 2 fs and v-rescale as the bundled box, from which
the oxygens are taken. The virtual sites of the last two move with their waters, so the graphs of a step should have
the same number of nodes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from result_rows import timed_row, write_rows

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import build_system

WATERS: Final = (8_000, 30_000)
REPEATS: Final = 5
STEPS: Final = 1_000

TOPOLOGY: Final = """[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
OW 8 15.9994 0 A {sigma} {epsilon}
HW 1  1.008  0 A 0 0
MW 0  0      0 V 0 0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 {oxygen} 15.9994
2 HW 1 SOL HW1 1 {hydrogen} 1.008
3 HW 1 SOL HW2 1 {hydrogen} 1.008
{atoms}
[ settles ]
1 1 {d_oh} {d_hh}
{sites}
[ exclusions ]
{exclusions}
[ system ]
water
[ molecules ]
SOL {waters}
"""
MODELS: Final[dict[str, dict[str, Any]]] = {
    "spce": {"sigma": 0.316557, "epsilon": 0.650194, "d_oh": 0.1, "d_hh": 0.16330, "oxygen": -0.8476,
             "hydrogen": 0.4238, "charges": [], "sites": ""},
    "tip4p": {"sigma": 0.315365, "epsilon": 0.648520, "d_oh": 0.09572, "d_hh": 0.15139, "oxygen": 0.0,
              "hydrogen": 0.52, "charges": [-1.04],
              "sites": "[ virtual_sites3 ]\n4 1 2 3 1 0.128012065 0.128012065"},
    "tip5p": {"sigma": 0.312, "epsilon": 0.66944, "d_oh": 0.09572, "d_hh": 0.15139, "oxygen": 0.0,
              "hydrogen": 0.241, "charges": [-0.241, -0.241],
              "sites": "[ virtual_sites3 ]\n4 1 2 3 4 -0.344908 -0.344908 -6.4437903493\n"
                       "5 1 2 3 4 -0.344908 -0.344908 6.4437903493"},
}  # fmt: skip


def water_system(model: str, n_waters: int) -> System:
    """A box of one of the models with velocities of 300 K."""
    values = dict(MODELS[model])
    charges = values.pop("charges")
    n = 3 + len(charges)
    with tempfile.TemporaryDirectory() as folder:
        box = build_system("water", 3 * n_waters, Path(folder) / "water")
        title, _, *rows, edges = box.configuration.read_text().splitlines()
        waters = [[row[:44] for row in rows[first : first + 3]] for first in range(0, len(rows), 3)]
        rows = [row for atoms in waters for row in [*atoms, *atoms[:1] * len(charges)]]
        box.configuration.write_text("\n".join([title, str(len(rows)), *rows, edges, ""]))
        values["atoms"] = "\n".join(f"{4 + k} MW 1 SOL M{k} 1 {q} 0" for k, q in enumerate(charges))
        values["exclusions"] = "\n".join(
            " ".join([str(i), *(str(j) for j in range(1, n + 1) if j != i)]) for i in range(1, n + 1)
        )
        box.topology.write_text(TOPOLOGY.format(waters=len(waters), **values))
        settings = replace(read_settings(box.parameters)[0], nstenergy=0, gen_seed=1, ld_seed=1)
        topology, table, frame, settings = read_system(box.configuration, box.topology, settings)
    return prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)


def measure(n_waters: int) -> list[dict[str, object]]:
    """One row for each model."""
    runs: dict[str, tuple[Simulation, list[float]]] = {}
    for model in MODELS:
        options = RunOptions(device="cuda", raise_nstlist=True)
        simulation = Simulation(open_transport("loopback"), water_system(model, n_waters), options)
        simulation.warm_up()
        simulation.run(3 * simulation.nstlist)
        runs[model] = simulation, []
    for _ in range(REPEATS):
        for simulation, times in runs.values():
            steps = STEPS - STEPS % simulation.nstlist
            simulation.rank.wait()
            start = time.perf_counter()
            simulation.run(steps)
            simulation.rank.wait()
            times.append((time.perf_counter() - start) / steps)
    return [row(model, *run) for model, run in runs.items()]


def row(model: str, simulation: Simulation, times: list[float]) -> dict[str, object]:
    """One line of the results."""
    report = simulation.rank.graph_report()
    assert isinstance(report, dict), report
    return timed_row(
        simulation.rank.device_name.removeprefix("cuda: "),
        times,
        precision="fast",
        system=model,
        n_atoms=simulation.system.topology.n_atoms,
        nstlist=simulation.nstlist,
        steps=STEPS,
        r_list=f"{simulation.r_list:.3f}",
        graph_steps=report["steps"],
        graph_nodes=report["nodes"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--waters", type=int, nargs="+", default=WATERS)
    options = parser.parse_args()
    rows = [row for n_waters in options.waters for row in measure(n_waters)]
    print(write_rows(options.out, "water_sites_gpu", "models", rows))
    for line in rows:
        print(line["system"], line["n_atoms"], line["us_per_step"], "us,", line["graph_nodes"], "nodes")


if __name__ == "__main__":
    main()
