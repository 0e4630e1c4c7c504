"""Friction and noise of stochastic dynamics."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.units import BOLTZMANN
from pulsemd.engine.bath import bath_of
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.update.noise import friction_and_noise, normal_table
from pulsemd.kernels.update.philox import STREAM_NOISE, philox

N = 20_000
SETTINGS = RunSettings(integrator="sd", dt=0.002, tau_t=0.02, ref_t=300.0, tc_grps=("System",), ld_seed=9)


class Atoms:
    """As much of a topology as a bath asks for."""

    n_atoms = N


@pytest.fixture
def bath():
    return bath_of(SETTINGS, Atoms())


def test_table_has_mean_0_variance_1_and_the_fourth_moment_of_normal_numbers():
    table = normal_table()
    assert table.sum() == 0.0
    assert (table**2).mean() == pytest.approx(1.0, abs=1e-12)
    assert (table**4).mean() == pytest.approx(3.0, rel=2e-3)


def test_numbers_are_those_of_philox_by_seed_step_and_atom(bath):
    gid, step, seed = np.array([7, 19_999, 0], np.int32), 2**33 + 5, 2**35 + 3
    added, v, ones = np.empty((3, 3), np.float32), np.zeros((3, 3), np.float32), np.ones(3)
    table = normal_table()
    friction_and_noise(v, gid, 3, ones, bath.group, bath.keep, np.ones(1), seed, step, table, added)
    counter = np.array([[g, 0, step & 0xFFFFFFFF, step >> 32] for g in gid.tolist()])
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32 ^ STREAM_NOISE << 24))
    np.testing.assert_array_equal(added, table[words[:, :3] >> np.uint64(18)].astype(np.float32))


def test_velocities_without_forces_lose_memory_at_rate_one_over_tau_and_keep_their_temperature(bath):
    gid, mass = np.arange(N, dtype=np.int32), np.where(np.arange(N) % 2, 16.0, 2.0)
    sigma = np.sqrt(BOLTZMANN * 300.0 / mass)[:, None]
    v = (np.random.default_rng(1).normal(size=(N, 3)) * sigma).astype(np.float32)
    start = v / sigma
    for step in range(1, 31):
        v += bath.change(v, gid, mass, step)
        if step % 10 == 0:
            now = v / sigma
            assert (now**2).mean() == pytest.approx(1.0, abs=4 * np.sqrt(2 / (3 * N)))
            kept = np.exp(-step * 0.002 / 0.02)
            assert (now * start).mean() == pytest.approx(kept, abs=4 / np.sqrt(3 * N))
    assert abs(np.corrcoef(now[:, 0], now[:, 1])[0, 1]) < 4 / np.sqrt(N)


def test_atoms_without_mass_stay(bath):
    v = np.zeros((3, 3), np.float32)
    assert not bath.change(v, np.arange(3, dtype=np.int32), np.zeros(3), 5).any()
