"""Leap-frog with SHAKE against a solution of the same equations by Newton's method in float64."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.kernels.constraints.shake import leapfrog_shake

BOXES = {
    "cube": np.eye(3) * 2.0,
    "triclinic": np.array([[2.0, 0.0, 0.0], [0.7, 1.8, 0.0], [-0.9, 0.8, 1.7]]),
    "left-handed": np.array([[0.0, 2.0, 0.0], [1.8, 0.7, 0.0], [0.4, -0.9, 1.7]]),
}
TETRAHEDRON = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
DT = 0.002


def groups(n, box, seed=0):
    """n of each: O-H, CH2, CH3, NH4 and a rigid triangle, at random places and orientations.

    Returns lattice positions, velocities, forces, masses, and what the kernel calls group_offset, pair_offset, pairs
    and lengths.
    """
    rng = np.random.default_rng(seed)
    r, mass, group_offset, pair_offset, pairs, lengths = [], [], [0], [0], [], []
    for size in n * [1, 2, 3, 4, 0]:
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        if size:
            shape = np.concatenate([np.zeros((1, 3)), 0.109 * TETRAHEDRON[:size]])
            mine, masses = [(0, k + 1) for k in range(size)], [12.0] + [1.008] * size
        else:
            shape, masses = np.array([[0, 0, 0], [0.09, 0.06, 0], [-0.09, 0.06, 0]]), [16.0, 1.0, 1.0]
            mine = [(0, 1), (2, 0), (1, 2)]
        r.append(rng.uniform(0, 1, 3) @ box + shape @ turn)
        mass += masses
        pairs += mine
        lengths += [np.linalg.norm(shape[i] - shape[j]) for i, j in mine]
        group_offset.append(len(mass))
        pair_offset.append(len(pairs))
    frac = np.concatenate(r) @ np.linalg.inv(box)
    x = np.rint(frac * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)
    mass = np.array(mass)
    v = (rng.normal(size=x.shape) * np.sqrt(2.49 / mass)[:, None]).astype(np.float32)
    f = rng.normal(size=x.shape).astype(np.float32) * 800
    return (
        x,
        v,
        f,
        mass,
        np.array(group_offset),
        np.array(pair_offset),
        np.array(pairs, np.int32),
        np.array(lengths),
    )


def advance(
    x, v, f, mass, group_offset, pair_offset, pairs, lengths, box, virial=None, scale=0.0, f_scale=1.0
):
    inverse, rows = np.linalg.inv(box) * 2.0**32, np.arange(len(x), dtype=np.int32)
    virial = np.zeros(0) if virial is None else virial
    return leapfrog_shake(
        x, v, f, f_scale, group_offset, rows, pair_offset, pairs, lengths, mass, box, inverse, DT, 1.0, np.zeros(3),
        virial, scale,
    )  # fmt: skip


def solve(old, free, mass, pairs, lengths):
    """Multipliers g for the lengths: new_i = free_i + sum_c g_c r_c / m_i, with r_c = old_i - old_j, by Newton."""
    g = np.zeros(len(pairs))
    r = old[pairs[:, 0]] - old[pairs[:, 1]]
    shift = np.zeros((len(pairs), len(old), 3))  # of all atoms, per unit of each multiplier
    for c, (i, j) in enumerate(pairs):
        shift[c, i], shift[c, j] = r[c] / mass[i], -r[c] / mass[j]
    for _ in range(50):
        new = free + np.tensordot(g, shift, 1)
        s = new[pairs[:, 0]] - new[pairs[:, 1]]
        gap = (s**2).sum(1) - lengths**2
        if np.abs(gap).max() < 1e-15:
            return new, g
        change = shift[:, pairs[:, 0]] - shift[:, pairs[:, 1]]
        g -= np.linalg.solve(2 * np.einsum("cka,ka->kc", change, s), gap)
    raise AssertionError("Newton's method did not converge")


def expected(x, v, f, mass, group_offset, pair_offset, pairs, lengths, box):
    """Displacements (n, 3) and the constraint virial of the exact solution."""
    moved, virial = np.zeros(x.shape), np.zeros((3, 3))
    for k in range(len(group_offset) - 1):
        rows, cons = slice(*group_offset[k : k + 2]), slice(*pair_offset[k : k + 2])
        old = (x[rows] - x[rows][0]).astype(float) * 2.0**-32 @ box
        free = old + DT * (v[rows].astype(float) + DT * f[rows] / mass[rows, None])
        new, g = solve(old, free, mass[rows], pairs[cons], lengths[cons])
        moved[rows] = new - old
        r = old[pairs[cons, 0]] - old[pairs[cons, 1]]
        virial += np.einsum("c,ca,cb->ab", g / DT**2, r, r)
    return moved, virial


@pytest.mark.parametrize("name", BOXES)
def test_shake_step_equals_the_exact_solution_with_its_virial(name):
    box = BOXES[name]
    start = groups(8, box)
    moved, virial = expected(*start, box)
    x, v, *rest = start
    x_new, v_new, found = x.copy(), v.copy(), np.zeros(9)
    assert advance(x_new, v_new, *rest, box, found) == -1
    displacement = (x_new - x).astype(float) * 2.0**-32 @ box
    np.testing.assert_allclose(displacement, moved, atol=2e-9)
    np.testing.assert_allclose(v_new, moved / DT, atol=2e-6)
    np.testing.assert_allclose(found.reshape(3, 3), virial, atol=1e-6 * np.abs(virial).max())


def test_shake_keeps_lengths_and_momentum_over_many_steps():
    box = BOXES["triclinic"]
    x, v, f, mass, group_offset, pair_offset, pairs, lengths = groups(6, box, seed=3)
    first = np.repeat(group_offset[:-1], np.diff(pair_offset))
    advance(x, v, f, mass, group_offset, pair_offset, pairs, lengths, box)
    for _ in range(50):
        before = mass @ v.astype(float)
        advance(x, v, f, mass, group_offset, pair_offset, pairs, lengths, box)
        after = mass @ v.astype(float)
        np.testing.assert_allclose(after - before, DT * f.astype(float).sum(0), atol=2e-4)
        apart = (x[first + pairs[:, 0]] - x[first + pairs[:, 1]]).astype(float) * 2.0**-32 @ box
        np.testing.assert_allclose(np.linalg.norm(apart, axis=1), lengths, atol=2e-9)


def test_shake_fixed_point_forces_and_virial_agree_with_float():
    box = BOXES["cube"]
    x, v, f, *rest = groups(4, box, seed=5)
    f = np.rint(f).astype(np.float32)
    x1, v1, w1, x2, v2, w2 = x.copy(), v.copy(), np.zeros(9), x.copy(), v.copy(), np.zeros(9, np.int64)
    advance(x1, v1, f, *rest, box, w1)
    advance(x2, v2, f.astype(np.int64) << 32, *rest, box, w2, scale=2.0**20, f_scale=2.0**-32)
    assert np.array_equal(x1, x2)
    assert np.array_equal(v1, v2)
    np.testing.assert_allclose(w2 / 2.0**20, w1, atol=1e-4)


@pytest.mark.parametrize("speed", [300.0, np.nan])
def test_shake_group_that_cannot_be_constrained_names_its_wildest_atom_and_is_left_alone(speed):
    box = BOXES["cube"]
    x, v, f, *rest = groups(1, box, seed=7)
    v[3] = speed  # of the second group, rows 2 to 4: a hydrogen turns by more than a right angle
    before = x.copy()
    assert advance(x, v, f, *rest, box) == 3
    assert np.array_equal(x[2:5], before[2:5])
    assert not np.array_equal(x[:2], before[:2])
