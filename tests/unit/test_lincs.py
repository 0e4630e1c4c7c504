"""LINCS on a branched chain: lengths and momentum, the solution of SHAKE, and what ties atoms together."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.engine.networks import find_triangles
from pulsemd.kernels.constraints.lincs import couple_constraints, lincs, worst_rotation
from pulsemd.kernels.constraints.shake import leapfrog_shake
from pulsemd.topology.groups import constraint_links

BOX = np.diag([4.0, 4.0, 4.0])
N = 24


def chain():
    """A zigzag of 16 atoms in which every second one has a side atom: positions, pairs, lengths and masses."""
    rng = np.random.default_rng(5)
    r = np.zeros((N, 3))
    r[:16, 0], r[:16, 1] = 0.12 * np.arange(16), 0.04 * (np.arange(16) % 2)
    r[16:] = r[0:16:2] + np.array([0.0, -0.08, 0.05])
    pairs = [(k, k + 1) for k in range(15)] + [(2 * k, 16 + k) for k in range(8)]
    pairs = np.array(pairs, np.int32)
    x = np.rint(r / 4.0 * 2**32).astype(np.int64).astype(np.int32)
    lengths = np.linalg.norm(r[pairs[:, 0]] - r[pairs[:, 1]], axis=1)
    mass = np.where(np.arange(N) < 16, 12.0, 1.0)
    return x, pairs, lengths, mass, rng.normal(0.0, 0.003, (N, 3))


def solve(order, iterations):
    x, pairs, lengths, mass, free = chain()
    inverse, moves = 1.0 / mass, free.copy()
    weights = 1.0 / np.sqrt(inverse[pairs].sum(1))
    by_atom = np.argsort(pairs.ravel(), kind="stable")
    offset = np.concatenate([[0], np.cumsum(np.bincount(pairs.ravel()))])
    every = np.arange(len(pairs), dtype=np.int32)
    of_atom = (by_atom // 2).astype(np.int32)
    coupling = couple_constraints(every, every, pairs, offset, of_atom, weights, inverse)
    found = np.empty((len(pairs), 4))
    lincs(x, moves, inverse, pairs, (lengths, weights), coupling, BOX, order, iterations, found)
    return x, pairs, lengths, mass, free, moves, found


def deviation(order, iterations):
    x, pairs, lengths, _, _, moves, _ = solve(order, iterations)
    r = x * 4.0 / 2**32 + moves
    now = np.linalg.norm(r[pairs[:, 0]] - r[pairs[:, 1]], axis=1)
    return float(np.abs(now / lengths - 1.0).max())


def test_lengths_become_more_exact_with_order_and_iterations():
    found = [deviation(*options) for options in ((1, 0), (4, 1), (8, 2), (30, 8))]
    assert found == sorted(found, reverse=True)
    assert found[1] < 2e-3
    assert found[3] < 1e-12


def test_momentum_is_what_it_was():
    _, _, _, mass, free, moves, _ = solve(4, 1)
    np.testing.assert_allclose(mass @ moves, mass @ free, atol=1e-14)


def test_a_long_series_gives_the_positions_of_shake():
    x, pairs, lengths, mass, free, moves, _ = solve(40, 10)
    rows, offset = np.arange(N, dtype=np.int32), np.array([0, N])
    x_shake, v = x.copy(), free.astype(np.float32)
    bad = leapfrog_shake(
        *(x_shake, v, np.zeros((N, 3), np.float32), 1.0, offset, rows, np.array([0, len(pairs)]), pairs, lengths),
        *(mass, BOX, np.linalg.inv(BOX) * 2**32, 1.0, 1.0, np.zeros(3), np.zeros(0), 0.0),
    )  # fmt: skip
    assert bad < 0
    np.testing.assert_allclose(moves, v, atol=3e-9)  # of float32 velocities


def test_multipliers_are_the_moves_that_constraints_made():
    _, pairs, _, mass, free, moves, found = solve(8, 4)
    expected = np.zeros((N, 3))
    push = found[:, 3:] * found[:, :3]
    np.add.at(expected, pairs[:, 0], -push)
    np.add.at(expected, pairs[:, 1], push)
    np.testing.assert_allclose(mass[:, None] * (moves - free), expected, atol=1e-13)


def test_the_constraint_that_turns_most_is_found():
    x, pairs, _, _, _, moves, found = solve(4, 1)
    moves[20] += [0.0, 0.0, 0.2]
    worst, cosine = worst_rotation(x, moves, pairs, BOX, found, N)
    assert pairs[worst].tolist() == [8, 20]
    assert cosine == pytest.approx(np.cos(np.arctan2(0.25, 0.08) - np.arctan2(0.05, 0.08)), abs=0.02)
    assert worst_rotation(x, moves, pairs, BOX, found, 0) == (-1, 1.0)


@pytest.mark.parametrize(("most", "tied"), [(N, 23), (N - 1, 10)])
def test_of_a_network_only_atoms_with_one_constraint_stay_with_their_partner(most, tied):
    """Eight side atoms, and the last of the chain; the first one has a side atom, so it is no end."""
    _, pairs, *_ = chain()
    links, largest = constraint_links(N, pairs.astype(np.int64), most)
    assert largest == N
    assert len(links) == tied - (most < N)
    degree = np.bincount(pairs.ravel())
    assert most == N or (degree[links] == 1).any(1).all()


def test_triangles_among_constraints_are_found():
    ends = np.array([[0, 1], [2, 1], [2, 3], [3, 1], [3, 4], [4, 5], [5, 0]], np.int32)
    order = np.argsort(ends.ravel(), kind="stable")
    offset = np.concatenate([[0], np.cumsum(np.bincount(ends.ravel()))])
    assert find_triangles(offset, (order // 2).astype(np.int32), ends).tolist() == [[1, 2, 3]]
