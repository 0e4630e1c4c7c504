"""`pulsemd.Simulation` with several ranks on one GPU and on two, started and ended behind it."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from processes import children

import pulsemd
from pulsemd.base.errors import PeerError, UnstableError
from pulsemd.device.cuda import count_devices
from pulsemd.systems import system_files
from systems import SEEDS

pytestmark = pytest.mark.gpu

PLACES = pytest.mark.parametrize(("ranks", "per_gpu"), [(4, 4), (2, 1), (8, 4)])


def water(ranks=1, per_gpu=1, **options):
    if ranks // per_gpu > count_devices():
        pytest.skip(f"needs {ranks // per_gpu} GPUs, has {count_devices()}")
    files = system_files("water")
    options = {"precision": "reproducible", "nstlist": 5, "nstcalcenergy": 5, **SEEDS} | options
    return pulsemd.Simulation.from_gromacs(
        files.configuration,
        files.topology,
        files.parameters,
        device="cuda",
        ranks=ranks,
        ranks_per_gpu=per_gpu,
        **options,
    )


@pytest.fixture(scope="module")
def alone(device):
    """What one rank gives at step 20: its hash, its positions and velocities, its energies."""
    with water() as sim:
        sim.run(20)
        return sim.trajectory_hash, sim.snapshot, sim.energies


@PLACES
def test_ranks_on_gpus_run_report_and_end_as_one_rank_does(alone, ranks, per_gpu):
    before, rows, frames = children(), [], []
    with water(ranks, per_gpu) as sim:
        assert f"{ranks} rank(s)" in repr(sim)
        assert "device cuda: " in repr(sim)
        sim.add_reporter(10, energies=lambda *row: rows.append(row))
        sim.add_reporter(20, frame=frames.append)
        sim.run(7).run(13)
        found = sim.trajectory_hash, sim.snapshot, sim.energies
        assert sim.run(5).step == 25
    assert children() <= before
    assert found[0] == alone[0]
    for name in ("positions", "velocities"):
        np.testing.assert_array_equal(getattr(found[1], name), getattr(alone[1], name))
    for energies in (found[2], rows[-1][2]):
        assert energies["potential"] == pytest.approx(alone[2]["potential"], rel=1e-9)
    assert [(step, round(time, 6)) for step, time, _ in rows] == [(n, n * 0.002) for n in (0, 10, 20)]
    assert [frame.step for frame in frames] == [0, 20]
    np.testing.assert_array_equal(frames[-1].positions, alone[1].positions)


@PLACES
def test_killed_process_of_ranks_on_gpus_is_named_and_no_other_is_left(device, ranks, per_gpu):
    before = children()
    with water(ranks, per_gpu, timeout=10.0) as sim:
        started = children() - before
        victim = max(started)
        sim.add_reporter(5, energies=lambda step, *_: step == 10 and os.kill(victim, signal.SIGKILL))
        with pytest.raises(PeerError, match=rf"\(process {victim}\) killed by SIGKILL"):
            sim.run(10**6)
    assert len(started) == ranks // per_gpu
    assert children() <= before


def test_simulation_of_ranks_on_a_gpu_that_blows_up_says_so_and_ends_them(device):
    before = children()
    listing = {"verlet_buffer_tolerance": -1, "rlist": 1.1}
    with water(4, 4, dt=0.012, precision="fast", **listing) as sim, pytest.raises(UnstableError):
        sim.run(500)
    assert children() <= before
