"""Restart on a GPU: in the middle of a list lifetime the same hash, and from a CPU's checkpoint at all."""

from __future__ import annotations

import pytest
from run_files import run, write_input

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
