"""Restart: a run in pieces, on any number of ranks, is the run in one piece."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from run_files import COMMON, run, workers_of, write_input

from pulsemd.io.energies import read_energies
from pulsemd.systems import system_files


def same_results(a, b):
    for name in ("energies.csv", "trajectory.dcd", "final.gro", "checkpoint.pmd"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_restart_in_the_middle_of_a_list_lifetime_gives_the_same_hash_and_files(tmp_path):
    words = write_input(tmp_path, nstenergy=10, nstcalcenergy=10, nstxout_compressed=4)
    whole = run(tmp_path, words, "whole", 70)
    for split in (7, 20, 41):
        out = f"at{split}"
        run(tmp_path, words, out, split)
        again = run(tmp_path, words, out, 70, "--restart", tmp_path / out)
        assert again["trajectory_hash"] == whole["trajectory_hash"], split
        assert again["steps"] == 70 - split
        same_results(tmp_path / "whole", tmp_path / out)


def test_restart_on_other_ranks_and_in_another_folder_gives_the_same_hash(pulsemd):
    files = write_input(pulsemd.folder, nstxout_compressed=5)
    whole = run(pulsemd.folder, files, "whole", 60)
    words = ["run", *files, *COMMON]
    pulsemd.summary(*words, "-o", "a", "--steps", 33, "--ranks", 3)
    again = pulsemd.summary(*words, "-o", "a", "--steps", 60, "--ranks", 2, "--restart", "a/checkpoint.pmd")
    assert again["ranks"] == 2
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    same_results(pulsemd.folder / "whole", pulsemd.folder / "a")
    previous = pulsemd.folder / "a" / "checkpoint.prev.pmd"
    other = run(pulsemd.folder, files, "b", 60, "--restart", previous)
    assert other["trajectory_hash"] == whole["trajectory_hash"]


def test_restart_of_a_peptide_in_water_gives_the_same_hash_and_files(tmp_path):
    words = ["peptide", "--seed", "5"]
    whole = run(tmp_path, words, "whole", 24)
    run(tmp_path, words, "part", 13)
    again = run(tmp_path, words, "part", 24, "--restart", tmp_path / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    same_results(tmp_path / "whole", tmp_path / "part")


@pytest.mark.parametrize(
    ("kind", "pcoupl", "tcoupl"),
    [
        ("isotropic", "c-rescale", "v-rescale"),
        ("semiisotropic", "c-rescale", "v-rescale"),
        ("isotropic", "parrinello-rahman", "nose-hoover"),
        ("semiisotropic", "parrinello-rahman", "v-rescale"),
        ("anisotropic", "parrinello-rahman", "nose-hoover"),
        ("anisotropic", "c-rescale", "md-vv"),
        ("isotropic", "c-rescale", "md-vv"),
    ],
)
def test_restart_with_a_barostat_on_other_ranks_gives_the_same_hash_and_files(pulsemd, kind, pcoupl, tcoupl):
    values = {
        "isotropic": ("4.5e-5", "1"),
        "semiisotropic": ("4.5e-5 3e-5", "1 1"),
        "anisotropic": ("4.5e-5 3e-5 2e-5 0 0 0", "1 50 -50 0 0 0"),
    }[kind]
    given = {"pcoupl": pcoupl, "pcoupltype": kind, "compressibility": values[0], "ref_p": values[1]}
    given |= {
        "nstpcouple": 3,
        "tau_p": 0.5,
        "integrator": "md-vv" if tcoupl == "md-vv" else "md",
        "tcoupl": tcoupl.replace("md-vv", "v-rescale"),
        "tc_grps": "System",
        "tau_t": 0.5,
        "ref_t": 300,
    }
    words = write_input(pulsemd.folder, nstenergy=10, nstcalcenergy=10, nstxout_compressed=4, **given)
    whole = run(pulsemd.folder, words, "whole", 70)
    run(pulsemd.folder, words, "part", 23, "--ranks", 3)
    again = run(pulsemd.folder, words, "part", 70, "--ranks", 2, "--restart", pulsemd.folder / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    same_results(pulsemd.folder / "whole", pulsemd.folder / "part")
    volume = read_energies(pulsemd.folder / "part" / "energies.csv")["volume"]
    assert len(set(volume)) == len(volume) == 8


def test_restart_in_a_smaller_box_keeps_the_mesh_of_the_first(pulsemd):
    """The first box needs 36 points a side, that of the last search before the checkpoint would need 32."""
    edge = float(system_files("water").configuration.read_text().split()[-1])
    given = {"coulombtype": "pme", "fourierspacing": edge / 32.0015, "pcoupl": "berendsen", "tau_p": 0.5}
    given |= {
        "compressibility": "4.5e-5",
        "ref_p": "1000",
        "nstpcouple": 1,
        "nstenergy": 5,
        "nstcalcenergy": 5,
    }
    words = write_input(pulsemd.folder, nstxout_compressed=5, **given)
    whole = run(pulsemd.folder, words, "whole", 34)
    run(pulsemd.folder, words, "part", 27)
    again = run(pulsemd.folder, words, "part", 34, "--restart", pulsemd.folder / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    same_results(pulsemd.folder / "whole", pulsemd.folder / "part")


@pytest.mark.parametrize("scaling", ["all", "com"])
def test_restart_of_restrained_atoms_in_a_box_that_changes_gives_the_same_hash_and_files(pulsemd, scaling):
    """The box of the checkpoint is not that of the reference positions."""
    files, path = system_files("peptide"), pulsemd.folder / "run.mdp"
    more = {"define": "-DPOSRES", "pcoupl": "berendsen", "compressibility": "4.5e-5", "ref-p": "1"}
    more |= {"refcoord-scaling": scaling, "nstenergy": "10", "ld-seed": "2", "gen-seed": "3"}
    lines = [
        line for line in files.parameters.read_text().split("\n") if line.split("=")[0].strip() not in more
    ]
    path.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in more.items())]) + "\n")
    words = ["-c", files.configuration, "-p", files.topology, "-f", path, "-r", files.configuration]
    words = list(map(str, words))
    whole = run(pulsemd.folder, words, "whole", 20)
    run(pulsemd.folder, words, "part", 13, "--ranks", 2)
    again = run(pulsemd.folder, words, "part", 20, "--restart", pulsemd.folder / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    for name in ("energies.csv", "final.gro", "checkpoint.pmd"):
        assert (pulsemd.folder / "whole" / name).read_bytes() == (pulsemd.folder / "part" / name).read_bytes()


def test_restart_of_stochastic_dynamics_on_other_ranks_gives_the_same_hash_and_files(pulsemd):
    given = {"integrator": "sd", "tc_grps": "System", "tau_t": 0.5, "ref_t": 300, "tcoupl": "no"}
    words = write_input(pulsemd.folder, nstenergy=10, nstcalcenergy=10, nstxout_compressed=4, **given)
    whole = run(pulsemd.folder, words, "whole", 50)
    run(pulsemd.folder, words, "part", 23, "--ranks", 3)
    again = run(pulsemd.folder, words, "part", 50, "--ranks", 2, "--restart", pulsemd.folder / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    same_results(pulsemd.folder / "whole", pulsemd.folder / "part")


def test_restart_of_velocity_verlet_of_a_peptide_on_other_ranks_gives_the_same_hash_and_files(tmp_path):
    text = system_files("peptide").parameters.read_text()
    (tmp_path / "vv.mdp").write_text(re.sub(r"(?m)^(integrator\s*= md)$", r"\1-vv", text))
    words = ["peptide", "--seed", "5", "-f", str(tmp_path / "vv.mdp"), "--trajectory", "trr"]
    more = ("--transport", "loopback")
    whole = run(tmp_path, words, "whole", 24)
    run(tmp_path, words, "part", 13, "--ranks", 3, *more)
    again = run(tmp_path, words, "part", 24, "--ranks", 2, *more, "--restart", tmp_path / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    for name in ("energies.csv", "trajectory.trr", "final.gro", "checkpoint.pmd"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "part" / name).read_bytes(), name


def test_restart_in_fast_mode_stays_close(tmp_path):
    words = write_input(tmp_path, nstenergy=5, nstcalcenergy=5)
    fast = ["--precision", "fast"]
    run(tmp_path, words, "whole", 30, *fast)
    run(tmp_path, words, "part", 13, *fast)
    run(tmp_path, words, "part", 30, "--restart", tmp_path / "part", *fast)
    a, b = (read_energies(tmp_path / out / "energies.csv") for out in ("whole", "part"))
    assert a["step"].tolist() == b["step"].tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert abs(a["conserved"] - b["conserved"]).max() < 0.5
    assert abs(a["potential"] - b["potential"]).max() < 0.5


def kill_at_random(pulsemd, words, out, delay):
    """Start a run on two ranks, kill its launcher `delay` seconds after the first checkpoint; whether it was alive."""
    command = [sys.executable, "-m", "pulsemd.cli.main", *words, "-o", out]
    process = subprocess.Popen(command, cwd=pulsemd.folder, stderr=subprocess.DEVNULL, env=dict(os.environ))
    folder, limit = pulsemd.folder / out, time.monotonic() + 200
    while not (folder / "checkpoint.pmd").exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(delay)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    while workers_of(process.pid):
        assert time.monotonic() < limit + 10, "ranks outlive their launcher"
        time.sleep(0.01)
    return alive


def check_kills(pulsemd, steps, kills, seed):
    words = [
        "run",
        *write_input(pulsemd.folder, nstxout_compressed=10, nstenergy=20, nstcalcenergy=20),
        *COMMON,
    ]
    words += ["--steps", str(steps), "--checkpoint-minutes", "0"]
    whole = pulsemd.summary(*words, "-o", "whole")
    draw, killed, turn = random.Random(seed), 0, 0
    while killed < kills:
        assert turn < 3 * kills, "most runs ended before they were killed"
        out, turn = f"killed{turn}", turn + 1
        delay = draw.uniform(0.0, 0.4 * whole["wall_seconds"])
        if not kill_at_random(pulsemd, [*words, "--ranks", "2"], out, delay):
            continue
        killed += 1
        if (pulsemd.folder / out / "summary.json").exists():  # killed after its last step
            continue
        again = pulsemd.summary(*words, "-o", out, "--restart", out, "--ranks", draw.choice((1, 2, 3)))
        assert again["trajectory_hash"] == whole["trajectory_hash"], out
        same_results(pulsemd.folder / "whole", pulsemd.folder / out)


def test_run_killed_at_a_random_moment_and_restarted_gives_the_same_hash(pulsemd):
    check_kills(pulsemd, 400, 1, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_run_killed_at_50_random_moments_gives_the_same_hash(pulsemd):
    check_kills(pulsemd, 1000, 50, seed=2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_restart_at_20_random_splits_of_1000_steps_gives_the_same_hash(pulsemd):
    files, folder, draw = write_input(pulsemd.folder), pulsemd.folder, random.Random(3)
    whole = run(folder, files, "whole", 1000)
    for k in range(20):
        split = 500 if k == 0 else draw.randrange(1, 1000)
        first, second = draw.sample((1, 2, 3, 4, 5), 2)
        rung = "shmem" if k < 2 else "loopback"
        for steps, ranks, more in ((split, first, ()), (1000, second, ("--restart", folder / f"s{k}"))):
            last = run(folder, files, f"s{k}", steps, "--ranks", ranks, "--transport", rung, *more)
        assert last["trajectory_hash"] == whole["trajectory_hash"], (split, first, second)
        same_results(folder / "whole", folder / f"s{k}")
