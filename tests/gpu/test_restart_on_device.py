"""Restarts on a GPU, in a list lifetime or from the checkpoint of a CPU; and the ends of runs."""

from __future__ import annotations

import pytest
from last_lines import CASES, ends_with_and_without_looking, last_records, water
from run_files import run, write_input

from test_engine_ranks import on_one, on_ranks

pytestmark = pytest.mark.gpu
CUDA = ("--device", "cuda")


def test_restart_on_device_inside_a_list_lifetime_gives_the_same_hash_and_energies(device, tmp_path):
    words = write_input(tmp_path, nstenergy=10, nstcalcenergy=10, nstxout_compressed=5)
    whole = run(tmp_path, words, "whole", 70, *CUDA)
    run(tmp_path, words, "part", 33, *CUDA)
    again = run(tmp_path, words, "part", 70, *CUDA, "--restart", tmp_path / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    for name in ("energies.csv", "trajectory.dcd", "checkpoint.pmd"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "part" / name).read_bytes(), name


def test_checkpoint_of_a_cpu_goes_on_on_the_device(device, tmp_path):
    words = write_input(tmp_path)
    run(tmp_path, words, "part", 33)
    assert run(tmp_path, words, "part", 70, *CUDA, "--restart", tmp_path / "part")["steps"] == 37


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_last_energies_on_device_are_those_of_the_step_in_a_longer_run(device, case, n_ranks):
    system = water(case)
    ranks = {1: lambda: on_one(system, "reproducible"), 2: lambda: on_ranks(system, 2, "reproducible")}
    found, expected = last_records(ranks[n_ranks])
    assert found == expected


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("case", ["v-rescale", "extended", "chains"])
def test_energies_asked_for_between_steps_on_device_leave_no_trace(device, case, n_ranks):
    system = water(case)
    ranks = {1: lambda: on_one(system, "reproducible"), 2: lambda: on_ranks(system, 2, "reproducible")}
    looked, expected = ends_with_and_without_looking(ranks[n_ranks])
    assert looked == expected
