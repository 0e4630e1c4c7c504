"""Coupling groups with baths of their own: on any number of ranks, and after a restart."""

from __future__ import annotations

import json

import numpy as np
import pytest
from run_files import write_input

from pulsemd import Simulation
from pulsemd.cli.main import main
from pulsemd.io.energies import read_energies
from pulsemd.systems import system_files

COMMON = ["--precision", "reproducible", "--device", "cpu", "--transport", "loopback"]
HALVES = {"tc_grps": "First Rest", "tau_t": "0.2 0.5", "ref_t": "300 350"}
BOX = {"pcoupl": "parrinello-rahman", "tau_p": 0.5, "compressibility": "4.5e-5", "ref_p": 1, "nstpcouple": 3}
CASES = {
    "v-rescale": {"tcoupl": "v-rescale", "nstcomm": 5},
    "nose-hoover": {"tcoupl": "nose-hoover", "nsttcouple": 2} | BOX,
    "one not coupled": {"tcoupl": "berendsen", "tau_t": "-1 0.5"},
    "sd": {"integrator": "sd", "tcoupl": "no"},
}


def run(folder, words, out, steps, *more):
    """Run in this process; the hash."""
    words = ["run", *words, "-o", str(folder / out), "--steps", str(steps), *COMMON, *map(str, more)]
    assert main(words) == 0
    return json.loads((folder / out / "summary.json").read_text())["trajectory_hash"]


@pytest.mark.parametrize("case", CASES)
def test_runs_with_several_baths_have_one_hash_on_1_2_3_ranks_and_after_a_restart(tmp_path, case):
    folder, atoms = tmp_path, [str(atom) for atom in range(1, 3001)]
    text = f"[ First ]\n{' '.join(atoms[:1200])}\n[ Rest ]\n{' '.join(atoms[1200:])}\n"
    (folder / "index.ndx").write_text(text)
    words = write_input(folder, nstenergy=5, nstcalcenergy=5, nstlist=10, **HALVES | CASES[case])
    words += ["-n", str(folder / "index.ndx")]
    expected = run(folder, words, "one", 30)
    run(folder, words, "part", 17, "--ranks", 2)
    assert run(folder, words, "part", 30, "--ranks", 3, "--restart", folder / "part") == expected
    for name in ("energies.csv", "checkpoint.pmd"):
        assert (folder / "one" / name).read_bytes() == (folder / "part" / name).read_bytes(), name
    found = read_energies(folder / "one" / "energies.csv")
    first, rest = found["temperature_First"], found["temperature_Rest"]
    assert np.all(np.minimum(first, rest) < found["temperature"])
    assert np.all(np.maximum(first, rest) > found["temperature"])


def test_settings_of_groups_in_python_are_those_of_the_run():
    files = system_files("peptide")
    given = {
        "tcoupl": "v-rescale",
        "tc_grps": "Protein non-Protein",
        "tau_t": (0.1, 0.5),
        "ref_t": (310, 300),
    }
    found = []
    with Simulation.from_gromacs(
        files.configuration, files.topology, files.parameters, device="cpu", **given
    ) as simulation:
        simulation.add_reporter(1, energies=lambda step, time, record: found.append(record))
        simulation.run(1)
    assert simulation.settings.ref_t == (310.0, 300.0)
    assert {"temperature_Protein", "temperature_non-Protein"} <= found[0].keys()
