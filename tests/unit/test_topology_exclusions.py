"""Exclusions by the number of bonds between atoms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsemd.topology.exclusions import neighbors_within

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12)


@given(EDGES, st.integers(0, 4))
def test_neighbors_random_graph_equal_breadth_first_search(
    edges: list[tuple[int, int]], n_bonds: int
) -> None:
    bonds = np.array([e for e in edges if e[0] != e[1]], np.int64).reshape(-1, 2)
    linked = [{int(b) for a, b in np.concatenate([bonds, bonds[:, ::-1]]) if a == i} for i in range(8)]
    expected = set()
    for start in range(8):
        reached = {start}
        for _ in range(n_bonds):
            reached |= {j for i in reached for j in linked[i]}
        expected |= {(start, j) for j in reached if j != start}
    assert {tuple(pair) for pair in neighbors_within(8, bonds, n_bonds).tolist()} == expected


@pytest.mark.parametrize("n_bonds", [0, 1, 3])
def test_neighbors_without_bonds_are_none(n_bonds: int) -> None:
    assert neighbors_within(5, np.zeros((0, 2), np.int64), n_bonds).shape == (0, 2)
