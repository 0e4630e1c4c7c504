"""Coupling groups with baths of their own, and groups whose centres of mass are stopped: on any number of ranks, and
after a restart."""

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
ANNEALED = {"annealing": "single periodic", "annealing_npoints": "2 3"}
ANNEALED |= {"annealing_time": "0 0.04 0 0.01 0.016", "annealing_temp": "300 420 350 200 350"}
STOPPED = {"comm_grps": "Early Late"}
CASES = {
    "annealed": {"tcoupl": "v-rescale", "nsttcouple": 2} | ANNEALED,
    "sd annealed": {"integrator": "sd", "tcoupl": "no"} | ANNEALED,
    "v-rescale": {"tcoupl": "v-rescale", "nstcomm": 5},
    "nose-hoover": {"tcoupl": "nose-hoover", "nsttcouple": 2} | BOX,
    "one not coupled": {"tcoupl": "berendsen", "tau_t": "-1 0.5"},
    "md-vv": {"integrator": "md-vv", "tcoupl": "v-rescale", "nstcomm": 5},
    "chains": {"integrator": "md-vv", "tcoupl": "nose-hoover", "nsttcouple": 2, "nh_chain_length": 4},
    "sd": {"integrator": "sd", "tcoupl": "no"},
    "stopped": {"tcoupl": "v-rescale", "nstcomm": 5} | STOPPED,
    "some stopped": {"tcoupl": "no", "integrator": "sd", "nstcomm": 3, "comm_grps": "Early"},
    "stopped in a box": {"tcoupl": "nose-hoover", "nsttcouple": 2, "nstcomm": 3} | BOX | STOPPED,
    "stopped, md-vv": {"integrator": "md-vv", "tcoupl": "v-rescale", "nstcomm": 4} | STOPPED,
}


def write_halves(folder, n_first):
    """An index file whose group First has the first atoms, and Early half of them."""
    atoms = [str(atom) for atom in range(1, 3001)]
    text = ""
    for (first, second), n in ((("First", "Rest"), n_first), (("Early", "Late"), n_first // 2)):
        text += f"[ {first} ]\n{' '.join(atoms[:n])}\n[ {second} ]\n{' '.join(atoms[n:])}\n"
    (folder / "index.ndx").write_text(text)
    return folder / "index.ndx"


def run(folder, words, out, steps, *more):
    """Run in this process; the hash."""
    words = ["run", *words, "-o", str(folder / out), "--steps", str(steps), *COMMON, *map(str, more)]
    assert main(words) == 0
    return json.loads((folder / out / "summary.json").read_text())["trajectory_hash"]


@pytest.mark.parametrize("case", CASES)
def test_runs_with_several_baths_have_one_hash_on_1_2_3_ranks_and_after_a_restart(tmp_path, case):
    folder = tmp_path
    words = write_input(folder, nstenergy=5, nstcalcenergy=5, nstlist=10, **HALVES | CASES[case])
    words += ["-n", str(write_halves(folder, 1200))]
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


def test_stopped_groups_in_python_take_the_motion_of_each():
    """In the first step; of the whole system nothing moves at the start."""
    files, momenta = system_files("peptide"), []
    given = {"gen_vel": True, "gen_seed": 3, "ld_seed": 4, "nstcomm": 10}
    for groups in ((), ("Protein", "non-Protein")):
        arguments = files.configuration, files.topology, files.parameters
        with Simulation.from_gromacs(*arguments, device="cpu", comm_grps=groups, **given) as simulation:
            simulation.run(1)
            assert simulation.settings.comm_grps == groups
            mass = np.asarray(simulation.topology.mass)[:304]
            momenta.append(np.abs(mass @ simulation.velocities[:304]).max())
    assert momenta[1] < 0.2 * momenta[0]


@pytest.mark.parametrize("settings", [HALVES | CASES["v-rescale"], STOPPED | {"tcoupl": "no"}])
def test_restart_with_other_atoms_in_the_groups_is_refused(tmp_path, capsys, settings):
    words = write_input(tmp_path, **settings)
    words += ["-n", str(write_halves(tmp_path, 1200))]
    run(tmp_path, words, "part", 2)
    write_halves(tmp_path, 1500)
    again = ["run", *words, "-o", str(tmp_path / "part"), "--steps", "4", "--restart", str(tmp_path / "part")]
    assert main([*again, *COMMON]) == 3
    assert "atoms in tc-grps or comm-grps" in capsys.readouterr().err
