"""Whole runs of several ranks that share a device: outputs, checkpoints and restarts on other numbers of ranks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pulsemd.cli.rank import run_process, run_rank
from pulsemd.cli.request import RunRequest
from pulsemd.engine import gpu_fields
from pulsemd.engine.options import RunOptions
from pulsemd.halo import open_transport
from pulsemd.halo.device.local import local_transports
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.systems import system_files

pytestmark = pytest.mark.gpu


@pytest.fixture
def run(device, tmp_path):
    """Run water on ``ranks`` of a device; the folder and the summary."""
    files = system_files("water")
    settings, _ = read_settings(files.parameters)
    settings = replace(
        settings, nstlist=4, gen_seed=5, ld_seed=5, nstxout_compressed=4, nstenergy=4, nstcalcenergy=4
    )

    def run(name, ranks, steps, restart=None, where="cuda", rung="nvshmem-fused", given=None, **options):
        out = tmp_path / name
        out.mkdir()
        request = RunRequest(
            files.configuration,
            files.topology,
            replace(settings, nsteps=steps, **given or {}),
            options=RunOptions(
                device=where, ranks=ranks, ranks_per_gpu=ranks, precision="reproducible", **options
            ),
            out=out,
            restart=None if restart is None else tmp_path / restart / "checkpoint.pmd",
            checkpoint_minutes=0.0,
        )
        if ranks == 1:
            with open_transport("loopback") as transport:
                assert run_rank(transport, request) == 0
        else:
            (transport,) = local_transports(rung, ranks)
            assert run_process(transport, request) == 0
        return out, json.loads((out / "summary.json").read_text())

    return run


@pytest.mark.parametrize("rung", ["nvshmem-fused", "nvshmem-step"])
def test_outputs_of_ranks_that_share_a_device_are_those_of_one_rank(run, monkeypatch, rung):
    monkeypatch.setattr(gpu_fields, "FEW_RANKS", 4)
    one, of_one = run("one", 1, 16)
    four, of_four = run("four", 4, 16, rung=rung, trace=True)
    assert of_four["trajectory_hash"] == of_one["trajectory_hash"]
    assert (four / "trajectory.dcd").read_bytes() == (one / "trajectory.dcd").read_bytes()
    columns = [np.genfromtxt(out / "energies.csv", delimiter=",", names=True) for out in (one, four)]
    for name in columns[0].dtype.names:
        assert columns[1][name] == pytest.approx(columns[0][name], rel=1e-9, abs=1e-9), name
    assert (of_four["ranks"], of_four["ranks_per_gpu"], of_four["host_blocking_waits_per_step"]) == (4, 4, 0)
    assert sum(of_four["owned_atoms"]) == of_four["atoms"]
    names = {event["name"] for event in json.loads((four / "trace.json").read_text())["traceEvents"]}
    assert ({"forces.pairs", "update"} if rung == "nvshmem-step" else {"forces.nonlocal", "update"}) <= names


def test_a_checkpoint_of_ranks_on_a_device_goes_on_with_any_number_of_ranks_and_on_a_cpu(run):
    _, whole = run("whole", 1, 16)
    run("half", 2, 8)
    for name, ranks, where in (("four", 4, "cuda"), ("one", 1, "cuda"), ("cpu", 1, "cpu")):
        out, summary = run(name, ranks, 16, "half", where)
        if where == "cuda":
            assert summary["trajectory_hash"] == whole["trajectory_hash"], name
        else:
            assert (out / "trajectory.dcd").stat().st_size > 0


@pytest.mark.parametrize(
    ("rung", "tcoupl"), [("nvshmem-fused", "nose-hoover"), ("nvshmem-step", "v-rescale")]
)
def test_velocity_verlet_of_ranks_that_share_a_device_is_that_of_one_rank_and_restarts(run, rung, tcoupl):
    given = {"integrator": "md-vv", "tcoupl": tcoupl, "nsttcouple": 3, "tau_t": 0.1}
    one, of_one = run("one", 1, 16, given=given)
    run("half", 2, 8, given=given, rung=rung)
    four, of_four = run("four", 4, 16, "half", given=given, rung=rung)
    assert of_four["trajectory_hash"] == of_one["trajectory_hash"]
    assert (four / "final.gro").read_bytes() == (one / "final.gro").read_bytes()
    last = [(out / "energies.csv").read_text().splitlines()[-1].split(",") for out in (one, four)]
    np.testing.assert_allclose(np.array(last[1], float), np.array(last[0], float), rtol=1e-9, atol=1e-9)
