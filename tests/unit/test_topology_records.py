"""Records of the topology: groups, exclusions, expansion, names."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsemd.base.errors import TopologyError
from pulsemd.topology.exclusions import to_rows
from pulsemd.topology.expand import build_topology
from pulsemd.topology.groups import update_groups
from pulsemd.topology.records import MoleculeType


def molecule(n: int, pairs: list[tuple[int, int]], residues: list[int] | None = None) -> MoleculeType:
    links = np.array(pairs, np.int64).reshape(-1, 2)
    number = np.array(residues or [1] * n, np.int32)
    exclusion_offset, exclusion_atoms = to_rows(n, np.concatenate([links, links[:, ::-1]]))
    group_offset, group_atoms = update_groups(n, links)
    return MoleculeType(
        name="M",
        atom_name=tuple(f"A{i}" for i in range(n)),
        residue_name=("RES",) * n,
        residue_number=number,
        residue_index=np.cumsum(np.diff(number, prepend=number[0]) != 0, dtype=np.int32),
        type_index=np.arange(n, dtype=np.int32),
        charge=np.arange(n, dtype=np.float64),
        mass=np.ones(n),
        exclusion_offset=exclusion_offset,
        exclusion_atoms=exclusion_atoms,
        settle_atoms=np.zeros((0, 3), np.int32),
        settle_parameters=np.zeros((0, 2)),
        group_offset=group_offset,
        group_atoms=group_atoms,
        terms={},
    )


graphs = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12)
    )
)


@given(graphs)
def test_update_groups_random_links_are_connected_sets(graph: tuple[int, list[tuple[int, int]]]) -> None:
    n, pairs = graph
    offset, atoms = update_groups(n, np.array(pairs, np.int64).reshape(-1, 2))
    sets = [{i} for i in range(n)]
    for i, j in pairs:
        merged = sets[i] | sets[j]
        for k in merged:
            sets[k] = merged
    groups = [atoms[a:b].tolist() for a, b in pairwise(offset.tolist())]
    assert groups == sorted(sorted(g) for g in {frozenset(s) for s in sets})


@given(graphs)
def test_exclusion_rows_random_pairs_are_sorted_and_without_self(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    n, pairs = graph
    offset, partner = to_rows(n, np.array(pairs, np.int64).reshape(-1, 2))
    rows = [partner[a:b].tolist() for a, b in pairwise(offset.tolist())]
    assert rows == [sorted({j for k, j in pairs if k == i != j}) for i in range(n)]


def test_topology_blocks_of_two_types_shift_indices() -> None:
    topology = build_topology(
        "t", list("ab"), [molecule(2, [(0, 1)]), molecule(1, [])], [(0, 2), (1, 3), (0, 1)]
    )
    assert topology.n_atoms == 9
    assert topology.molecule.tolist() == [0, 0, 1, 1, 2, 3, 4, 5, 5]
    assert topology.exclusion_atoms.tolist() == [1, 0, 3, 2, 8, 7]
    assert topology.exclusion_offset.tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 5, 6]
    assert topology.leader.tolist() == [0, 0, 2, 2, 4, 5, 6, 7, 7]
    assert topology.charge.tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 1]
    assert [topology.describe_atom(i) for i in (0, 4, 8)] == [
        "RES 1 A0 (atom 1)",
        "RES 3 A0 (atom 5)",
        "RES 6 A1 (atom 9)",
    ]


def test_topology_labels_over_blocks_equal_single_ones() -> None:
    kinds = [molecule(2, [], [3, 4]), molecule(3, [])]
    topology = build_topology("t", list("abc"), kinds, [(0, 2), (1, 2), (0, 0), (0, 1)])
    for first in range(topology.n_atoms):
        for last in range(first + 1, topology.n_atoms + 1):
            labels = topology.labels(first, last)
            single = [topology.describe_atom(i) for i in range(first, last)]
            text = zip(
                labels.residue_name, labels.residue_number, labels.atom_name, range(first, last), strict=True
            )
            assert [f"{r.decode()} {n} {a.decode()} (atom {i + 1})" for r, n, a, i in text] == single
    assert topology.labels(0, 4).residue_number.tolist() == [3, 4, 3, 4]
    assert topology.labels(4, 10).residue_number.tolist() == [5, 5, 5, 6, 6, 6]


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3), (1, 1), (2, 1)])
def test_topology_labels_outside_refused(first: int, last: int) -> None:
    topology = build_topology("t", ["a"], [molecule(1, [])], [(0, 2)])
    with pytest.raises(IndexError):
        topology.labels(first, last)


@pytest.mark.parametrize("count", [0, 2**31])
def test_topology_without_or_with_too_many_atoms_refused(count: int) -> None:
    with pytest.raises(TopologyError, match="can be simulated"):
        build_topology("t", ["a"], [molecule(1, [])], [(0, count)])
