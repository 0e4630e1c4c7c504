"""Reproducible mode: one trajectory hash for every number of ranks, plan and transport."""

from __future__ import annotations

import importlib.util
import itertools
import json

import pytest

from pulsemd.systems import system_files

MPI = pytest.param("mpi", marks=pytest.mark.mpi)
has_mpi = importlib.util.find_spec("mpi4py") is not None


def run_hash(pulsemd, steps, ranks, plan="staged", transport=None, env=None):
    out = f"{steps}-{ranks}-{plan}-{transport}"
    words = ["run", "water", "-o", out, "--precision", "reproducible", "--steps", steps, "--seed", 7]
    words += ["--ranks", ranks, "--plan", plan] + (["--transport", transport] if transport else [])
    summary = pulsemd.summary(*words, env=env, timeout=600)
    assert summary["ranks"] == ranks
    assert summary["plan"] == plan
    assert transport in (None, summary["transport"])
    return summary["trajectory_hash"]


def test_hash_few_steps_is_the_same_on_1_2_5_8_ranks(pulsemd):
    expected = run_hash(pulsemd, 60, 1)
    assert run_hash(pulsemd, 59, 1) != expected
    for ranks, plan, transport in ((2, "staged", "shmem"), (5, "direct", "shmem"), (8, "staged", "loopback")):
        assert run_hash(pulsemd, 60, ranks, plan, transport) == expected, (ranks, plan, transport)


def test_hash_without_one_wait_is_another_or_the_run_fails(pulsemd):
    """The mutation that shows what the hash is worth: a rank that does not wait for a late peer is found out."""
    expected = run_hash(pulsemd, 22, 2, "staged", "shmem")
    late = run_hash(pulsemd, 22, 2, "direct", "shmem", env={"PULSEMD_FAULTS": "delay rank=1 us=3000"})
    assert late == expected
    for wait in ("arrival", "reverse_arrival"):
        fault = f"skip rank=0 wait={wait}; delay rank=1 us=3000"
        words = ["run", "water", "-o", wait, "--precision", "reproducible", "--steps", 22, "--seed", 7]
        done = pulsemd(*words, "--ranks", 2, "--transport", "shmem", "--json", env={"PULSEMD_FAULTS": fault})
        assert done.returncode != 0 or json.loads(done.stdout)["trajectory_hash"] != expected, wait


@pytest.mark.mpi
@pytest.mark.skipif(not has_mpi, reason="mpi4py is not installed")
def test_hash_few_steps_is_the_same_over_mpi(pulsemd):
    assert run_hash(pulsemd, 60, 2, "staged", "mpi") == run_hash(pulsemd, 60, 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_hash_1000_steps_full_matrix_is_one_hash(pulsemd):
    expected = run_hash(pulsemd, 1000, 1)
    transports = ["loopback", "shmem"] + (["mpi"] if has_mpi else [])
    for ranks, plan, transport in itertools.product((1, 2, 3, 4, 5, 7, 8), ("staged", "direct"), transports):
        assert run_hash(pulsemd, 1000, ranks, plan, transport) == expected, (ranks, plan, transport)


def test_hash_with_pme_is_the_same_on_1_3_7_ranks_and_after_a_restart(pulsemd):
    settings = system_files("water").parameters.read_text()
    (pulsemd.folder / "pme.mdp").write_text(settings.replace("= reaction-field", "= PME"))
    words = ["run", "water", "-f", "pme.mdp", "--precision", "reproducible", "--seed", 7]
    expected = pulsemd.summary(*words, "-o", "one", "--steps", 45)["trajectory_hash"]
    for ranks, plan, transport in ((3, "direct", "shmem"), (7, "staged", "loopback")):
        more = [
            "--ranks",
            ranks,
            "--plan",
            plan,
            "--transport",
            transport,
            "-o",
            f"of-{ranks}",
            "--steps",
            45,
        ]
        assert pulsemd.summary(*words, *more)["trajectory_hash"] == expected, (ranks, plan, transport)
    pulsemd.summary(*words, "-o", "pieces", "--steps", 25, "--ranks", 2)
    again = pulsemd.summary(*words, "-o", "pieces", "--restart", "pieces", "--steps", 45)
    assert again["trajectory_hash"] == expected
