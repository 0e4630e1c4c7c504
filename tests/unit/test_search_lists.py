"""Lists of tiles: growth, reuse of memory, masks."""

import numpy as np
import pytest

from pulsemd.kernels.search.lists import FULL, Exclusions
from pulsemd.kernels.search.search import Rows, build_pair_list

BOX = np.diag([2.0, 2.1, 2.2])
TRICLINIC = np.array([[2.2, 0.0, 0.0], [0.7, 2.1, 0.0], [-0.5, 0.9, 2.3]])
ONE_RANK = (False, False, False)


def gas(n: int, seed: int = 0) -> Rows:
    """Uniformly random rows on one rank, without exclusions."""
    x = np.random.default_rng(seed).integers(-(2**31), 2**31, (n, 3)).astype(np.int32)
    none = Exclusions(np.zeros(n + 1, np.int64), np.zeros(0, np.int32))
    return Rows(x, n, np.zeros(n, bool), x, np.full(n, 7, np.uint8), none)


def count_pairs(x, box, radius: float) -> int:
    """Brute force, row by row."""
    total = 0
    for k in range(1, len(x)):
        d = (x[k] - x[:k]) / 2.0**32 @ box
        total += int(((d**2).sum(axis=1) <= radius**2).sum())
    return total


def listed_pairs(pairs) -> list[tuple[int, int]]:
    """All pairs of rows that the bitmasks of a list name."""
    result = []
    for i_cluster, first, _, last in pairs.local.entries:
        for k in range(first, last):
            for bit in range(32):
                if int(pairs.local.pair_mask[k]) >> bit & 1:
                    i = pairs.rows[4 * i_cluster + bit // 8]
                    j = pairs.rows[8 * pairs.local.j_cluster[k] + bit % 8]
                    result.append((min(i, j), max(i, j)))
    return result


@pytest.mark.parametrize("box", [BOX, TRICLINIC], ids=["orthorhombic", "triclinic"])
def test_list_that_outgrows_its_first_room_holds_every_pair(box):
    rows = gas(2000)
    pairs = build_pair_list(rows, box, 0.99, ONE_RANK, False, None)
    assert pairs.counts.tiles_local > 128 * pairs.counts.clusters + 1024
    assert pairs.counts.pairs == count_pairs(rows.x, box, 0.99)


def test_tall_columns_give_every_pair():
    rows, box = gas(2000, 5), np.diag([2.0, 2.1, 40.0])
    pairs = build_pair_list(rows, box, 0.99, ONE_RANK, False, None)
    assert np.diff(pairs.local.entries[:, 0]).min() > 0
    assert pairs.counts.clusters > 20 * 8
    assert pairs.counts.pairs == count_pairs(rows.x, box, 0.99)


def test_exact_list_names_every_pair_within_the_radius_once():
    rows = gas(300)
    pairs = build_pair_list(rows, TRICLINIC, 0.9, ONE_RANK, True, None)
    listed = listed_pairs(pairs)
    assert len(listed) == len(set(listed)) == pairs.counts.pairs == count_pairs(rows.x, TRICLINIC, 0.9)
    assert all(i >= 0 and i != j for i, j in listed)


def test_search_in_the_memory_of_an_earlier_one_gives_the_same_list():
    fresh = build_pair_list(gas(400, 1), BOX, 0.8, ONE_RANK, True, None)
    expected = sorted(listed_pairs(fresh))
    earlier = build_pair_list(gas(900, 2), BOX, 0.9, ONE_RANK, True, None)
    again = build_pair_list(gas(400, 1), BOX, 0.8, ONE_RANK, True, earlier)
    assert sorted(listed_pairs(again)) == expected
    assert again.counts == fresh.counts
    larger = build_pair_list(gas(900, 2), BOX, 0.9, ONE_RANK, True, again)
    assert larger.counts.pairs == count_pairs(gas(900, 2).x, BOX, 0.9)


def test_masked_tiles_come_first_and_only_they_have_masks():
    pairs = build_pair_list(gas(500), BOX, 0.7, ONE_RANK, False, None)
    masked = 0
    for _, first, middle, last in pairs.local.entries:
        assert (pairs.local.pair_mask[first:middle] != FULL).all()
        assert (pairs.local.pair_mask[middle:last] == FULL).all()
        masked += middle - first
    assert 0 < masked < pairs.counts.tiles_local


def test_excluded_pairs_are_masked_in_both_orders_of_rows():
    rows = gas(300, 3)
    partners = np.array([[1, 0], [0, 1]])  # of rows 0 and 1
    offset = np.minimum(np.arange(301), 2).astype(np.int64)
    near = rows.x.copy()
    near[1] = near[0] + np.int32(1000)
    exclusions = Exclusions(offset, partners[0].astype(np.int32))
    excluded = Rows(near, 300, rows.has_lj, near, rows.home, exclusions)
    pairs = build_pair_list(excluded, BOX, 0.8, ONE_RANK, True, None)
    assert pairs.counts.excluded == 1
    assert (0, 1) not in listed_pairs(pairs)
    assert pairs.counts.pairs == count_pairs(near, BOX, 0.8) - 1
