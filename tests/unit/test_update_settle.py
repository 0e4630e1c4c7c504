"""SETTLE and leap-frog against an iterative solution in float64."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.kernels.constraints.settle import settle_geometry
from pulsemd.kernels.update.leapfrog import (
    KINETIC_SUMS,
    kinetic_sums,
    leapfrog_free,
    leapfrog_settle,
    new_scratch,
)

MASS_O, MASS_H, D_OH, D_HH = 15.9994, 1.008, 0.1, 0.1633
BOXES = {
    "cube": np.eye(3) * 4.0,
    "triclinic": np.array([[4.0, 0.0, 0.0], [0.7, 3.8, 0.0], [-0.9, 1.1, 3.5]]),
    "left-handed": np.array([[0.0, 4.0, 0.0], [3.8, 0.7, 0.0], [0.4, -0.9, 3.5]]),
}


def waters(n, box, seed=0):
    """n rigid waters at random places and orientations: lattice positions, velocities, forces."""
    rng = np.random.default_rng(seed)
    height = np.sqrt(D_OH**2 - D_HH**2 / 4)
    shape = np.array([[0, 0, 0], [D_HH / 2, height, 0], [-D_HH / 2, height, 0]])
    rotation = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    r = rng.uniform(0, 1, (n, 1, 3)) @ box + np.einsum("ka,mab->mkb", shape, rotation)
    frac = r.reshape(-1, 3) @ np.linalg.inv(box)
    x = np.rint(frac * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)
    mass = np.tile([MASS_O, MASS_H, MASS_H], n)
    v = (rng.normal(size=(3 * n, 3)) * np.sqrt(2.49 / mass)[:, None]).astype(np.float32)
    return x, v, rng.normal(size=(3 * n, 3)).astype(np.float32) * 500


def vectors(x, box, a, b):
    rows = x.reshape(-1, 3, 3)
    return (rows[:, b] - rows[:, a]).astype(np.float64) * 2.0**-32 @ box


def shake(old, new, mass):
    """Iterate the three constraints along the old bonds until they hold to 1e-13 (Ryckaert et al. 1977)."""
    new = new.copy()
    for _ in range(500):
        worst = 0.0
        for i, j, d in ((0, 1, D_OH), (0, 2, D_OH), (1, 2, D_HH)):
            s, r = new[j] - new[i], old[j] - old[i]
            gap = s @ s - d * d
            worst = max(worst, abs(gap))
            g = gap / (2 * (s @ r) * (1 / mass[i] + 1 / mass[j]))
            new[i] += g * r / mass[i]
            new[j] -= g * r / mass[j]
        if worst < 1e-14:
            return new
    raise AssertionError("SHAKE did not converge")


def advance(x, v, f, box, dt=0.002, scale=1.0, com=(0, 0, 0), virial=None, virial_scale=0.0):
    rows = np.arange(len(x), dtype=np.int32).reshape(-1, 3)
    geometry = settle_geometry(MASS_O, MASS_H, D_OH, D_HH)
    inverse = np.linalg.inv(box) * 2.0**32
    virial = np.zeros(0) if virial is None else virial
    return leapfrog_settle(
        x,
        v,
        f,
        1.0,
        rows,
        geometry,
        box,
        inverse,
        dt,
        scale,
        np.array(com, float),
        virial,
        virial_scale,
        new_scratch(),
    )


@pytest.mark.parametrize("name", BOXES)
def test_settle_random_waters_agree_with_shake(name):
    box = BOXES[name]
    x, v, f = waters(70, box)
    before, v_before = x.copy(), v.astype(np.float64)
    assert advance(x, v, f, box) == -1
    mass = np.array([MASS_O, MASS_H, MASS_H])
    for k in range(70):
        rows = slice(3 * k, 3 * k + 3)
        old = (before[rows] - before[3 * k]).astype(np.float64) * 2.0**-32 @ box
        free = old + 0.002 * (v_before[rows] + 0.002 * f[rows] / mass[:, None])
        expected = shake(old, free, mass)
        moved = (x[rows] - before[3 * k]).astype(np.float64) * 2.0**-32 @ box
        np.testing.assert_allclose(moved, expected, atol=5e-9)
        np.testing.assert_allclose(v[rows], (expected - old) / 0.002, atol=2e-6)


@pytest.mark.parametrize("name", BOXES)
def test_settle_after_many_steps_keeps_lengths(name):
    box = BOXES[name]
    x, v, f = waters(100, box, seed=3)
    for _ in range(200):
        assert advance(x, v, f * 0, box) == -1
    for (a, b), d in (((0, 1), D_OH), ((0, 2), D_OH), ((1, 2), D_HH)):
        np.testing.assert_allclose(np.linalg.norm(vectors(x, box, a, b), axis=1), d, atol=1e-8)


def test_settle_free_flight_conserves_momentum_and_energy():
    box = BOXES["cube"]
    x, v, f = waters(64, box, seed=5)
    mass = np.tile([MASS_O, MASS_H, MASS_H], 64)
    advance(x, v, f * 0, box)
    start = mass @ v, 0.5 * mass @ (v.astype(float) ** 2).sum(1)
    for _ in range(500):
        advance(x, v, f * 0, box)
    np.testing.assert_allclose(mass @ v, start[0], atol=1e-3)
    # the half-step kinetic energy of a rotor oscillates with (omega dt)^2; it does not drift
    assert 0.5 * mass @ (v.astype(float) ** 2).sum(1) == pytest.approx(start[1], rel=1e-3)


def test_settle_in_any_block_position_gives_the_same_bits():
    box = BOXES["triclinic"]
    x, v, f = waters(131, box, seed=7)
    whole_x, whole_v = x.copy(), v.copy()
    advance(whole_x, whole_v, f, box)
    for k in (0, 1, 63, 64, 100, 130):
        rows = slice(3 * k, 3 * k + 3)
        one_x, one_v = x[rows].copy(), v[rows].copy()
        advance(one_x, one_v, f[rows], box)
        assert np.array_equal(one_x, whole_x[rows])
        assert np.array_equal(one_v, whole_v[rows])


def test_settle_virial_equals_constraint_forces():
    box = BOXES["cube"]
    x, v, f = waters(20, box, seed=9)
    before, v_before = x.copy(), v.astype(np.float64)
    virial, fixed = np.zeros(9), np.zeros(9, np.int64)
    advance(x.copy(), v.copy(), f, box, virial=fixed, virial_scale=2.0**20)
    advance(x, v, f, box, virial=virial)
    mass = np.tile([MASS_O, MASS_H, MASS_H], 20)[:, None]
    constraint = mass * (v - v_before - 0.002 * f / mass) / 0.002
    relative = (before - np.repeat(before[::3], 3, axis=0)).astype(np.float64) * 2.0**-32 @ box
    expected = relative.T @ constraint
    np.testing.assert_allclose(virial.reshape(3, 3), expected, rtol=1e-3, atol=0.05)
    np.testing.assert_allclose(fixed / 2.0**20, virial, atol=2e-5)


def test_settle_thermostat_and_com_act_on_old_velocities():
    box = BOXES["cube"]
    x, v, f = waters(3, box, seed=11)
    rows = np.arange(9, dtype=np.int32)
    mass = np.tile([MASS_O, MASS_H, MASS_H], 3)
    u = v.copy()
    inverse = np.linalg.inv(box) * 2.0**32
    leapfrog_free(x, v, f, 1.0, rows, mass, inverse, 0.002, 0.9, np.array([0.1, -0.2, 0.3]))
    expected = 0.9 * (u - np.array([0.1, -0.2, 0.3])) + 0.002 * f / mass[:, None]
    np.testing.assert_allclose(v, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e12])
def test_update_impossible_force_names_the_row(value):
    box = BOXES["cube"]
    x, v, f = waters(10, box)
    f[13] = value
    assert advance(x, v, f, box) // 3 == 4
    x, v, f = waters(10, box)
    f[13] = value
    mass = np.full(30, 10.0)
    inverse = np.linalg.inv(box) * 2.0**32
    assert (
        leapfrog_free(x, v, f, 1.0, np.arange(30, dtype=np.int32), mass, inverse, 0.002, 1.0, np.zeros(3))
        == 13
    )


def test_update_atom_without_mass_stays():
    box = BOXES["cube"]
    x, v, f = waters(1, box)
    before = x.copy()
    inverse = np.linalg.inv(box) * 2.0**32
    mass = np.array([0.0, 1.0, 1.0])
    leapfrog_free(x, v, f, 1.0, np.arange(3, dtype=np.int32), mass, inverse, 0.002, 1.0, np.zeros(3))
    assert np.array_equal(x[0], before[0])
    assert not v[0].any()
    assert not np.array_equal(x[1], before[1])


def test_update_crossing_a_face_wraps_to_the_other_side():
    box = BOXES["cube"]
    x = np.array([[2**31 - 10, 0, 0]], np.int32)
    v = np.array([[1.0, 0.0, 0.0]], np.float32)
    inverse = np.linalg.inv(box) * 2.0**32
    leapfrog_free(x, v, v * 0, 1.0, np.zeros(1, np.int32), np.ones(1), inverse, 0.002, 1.0, np.zeros(3))
    assert x[0, 0] == -(2**31) - 10 + round(0.002 / 4.0 * 2**32)


def test_kinetic_sums_fixed_and_float_agree():
    _, v, _ = waters(50, BOXES["cube"], seed=2)
    mass = np.tile([MASS_O, MASS_H, MASS_H], 50)
    plain, fixed = np.zeros(KINETIC_SUMS), np.zeros(KINETIC_SUMS, np.int64)
    kinetic_sums(v, mass, 150, False, plain)
    kinetic_sums(v, mass, 150, True, fixed)
    assert plain[0] == pytest.approx(0.5 * mass @ (v.astype(float) ** 2).sum(1), rel=1e-12)
    assert fixed[0] / 2.0**20 == pytest.approx(plain[0], abs=1e-3)
    np.testing.assert_allclose(fixed[1:4] / 2.0**32, plain[1:4], atol=1e-6)
    np.testing.assert_allclose(plain[4:], 0.5 * mass @ v[:, 1:].astype(float) ** 2, rtol=1e-12)
    np.testing.assert_allclose(fixed[4:] / 2.0**20, plain[4:], atol=1e-3)


@pytest.mark.parametrize("bad", [(0.0, 1.0, 0.1, 0.16), (16.0, 1.0, 0.1, 0.21), (16.0, 1.0, 0.1, 0.0)])
def test_settle_geometry_impossible_water_is_refused(bad):
    with pytest.raises(ValueError, match=r"mass|triangle"):
        settle_geometry(*bad)
