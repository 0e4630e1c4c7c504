"""Plans: what is refused, and what the builders number."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import PlanError
from pulsemd.halo import HaloPlan, Pulse, cartesian_plan, dependencies
from pulsemd.halo.exchange import DEPENDS, LAST, PULSE
from pulsemd.halo.tables import build_tables


def one_rank_pulse(**changes: object) -> Pulse:
    """A pulse of rank 0 to itself that copies rows 0 and 1 to 4 and 5."""
    fields = {
        "dim": 0,
        "send_rank": 0,
        "recv_rank": 0,
        "send_rows": [0, 1],
        "recv_start": 4,
        "n_recv": 2,
        "remote_start": 4,
        "depends": [-1, -1],
    }
    return Pulse(**(fields | changes))


def test_dependencies_of_forwarded_rows_name_the_pulse_that_brings_them() -> None:
    assert dependencies([0, 3, 4, 6, 7, 9], 4, [3, 0, 3]).tolist() == [-1, -1, 0, 0, 2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"send_rank": 1}, "peer 1 is not one of 1 ranks"),
        ({"recv_start": 5}, "expected to begin at 4"),
        ({"n_recv": 3}, "has 6 local rows"),
        ({"send_rows": [0, 4]}, "only 0..3 are there"),
        ({"send_rows": [-1, 0]}, "sends rows -1..0"),
        ({"depends": [-1, 0]}, "depends"),
        ({"remote_start": -1}, "remote_start"),
    ],
)
def test_plan_with_a_wrong_pulse_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=f"rank 0.*{message}"):
        HaloPlan(0, 1, 4, 6, (one_rank_pulse(**changes),))


def test_direct_plan_that_forwards_is_refused() -> None:
    second = one_rank_pulse(send_rows=[4], depends=[0], recv_start=6, n_recv=1, remote_start=6)
    assert HaloPlan(0, 1, 4, 7, (one_rank_pulse(), second), "staged").n_local == 7
    with pytest.raises(PlanError, match="pulse 1: a direct plan forwards nothing"):
        HaloPlan(0, 1, 4, 7, (one_rank_pulse(), second), "direct")


def test_plan_rows_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="read-only"):
        one_rank_pulse().send_rows[0] = 3


def test_cartesian_plan_of_ten_cells_on_three_ranks_holds_every_cell_once() -> None:
    plans = [cartesian_plan((10,), (3,), rank, 1) for rank in range(3)]
    assert [plan.n_owned for plan, _ in plans] == [3, 3, 4]
    owned = np.concatenate([cells[: plan.n_owned, 0] for plan, cells in plans])
    assert owned.tolist() == list(range(10))
    assert [sorted(cells[plan.n_owned :, 0]) for plan, cells in plans] == [[-1, 3], [2, 6], [5, 10]]


@pytest.mark.parametrize("kind", ["staged", "direct"])
@pytest.mark.parametrize("periodic", [True, False, (True, False, True)])
@pytest.mark.parametrize("width", [1, 3])
def test_cartesian_plan_brings_exactly_the_padded_block(kind: str, periodic: object, width: int) -> None:
    shape, grid = (5, 4, 3), (2, 3, 1)
    sides = (periodic,) * 3 if isinstance(periodic, bool) else periodic
    for rank in range(6):
        plan, cells = cartesian_plan(shape, grid, rank, width, periodic, kind)
        low = cells[: plan.n_owned].min(axis=0)
        high = cells[: plan.n_owned].max(axis=0) + 1
        ranges = [
            range(a - width, b + width) if side else range(max(0, a - width), min(n, b + width))
            for a, b, side, n in zip(low, high, sides, shape, strict=True)
        ]
        wanted = {(i, j, k) for i in ranges[0] for j in ranges[1] for k in ranges[2]}
        assert sorted(map(tuple, cells.tolist())) == sorted(wanted)


def test_cartesian_plan_wider_than_a_block_takes_several_pulses_that_forward() -> None:
    plan, _ = cartesian_plan((6,), (3,), 0, 3)
    assert [pulse.n_recv for pulse in plan.pulses] == [2, 1, 2, 1]
    assert plan.pulses[1].depends.tolist() == [0]
    assert plan.pulses[3].depends.tolist() == [2]


def test_cartesian_plan_on_one_periodic_rank_sends_to_itself() -> None:
    plan, cells = cartesian_plan((2, 3), (1, 1), 0, 1)
    assert {(pulse.send_rank, pulse.recv_rank) for pulse in plan.pulses} == {(0, 0)}
    assert plan.n_local == len(cells) == 4 * 5


def test_cartesian_plan_with_empty_blocks_is_legal() -> None:
    plans = [cartesian_plan((3,), (5,), rank, 1)[0] for rank in range(5)]
    assert sum(plan.n_owned for plan in plans) == 3
    assert len({len(plan.pulses) for plan in plans}) == 1


def test_cartesian_plan_with_arguments_that_differ_is_refused() -> None:
    with pytest.raises(PlanError, match="cartesian"):
        cartesian_plan((4, 4), (2,), 0, 1)
    with pytest.raises(PlanError, match="rank 4"):
        cartesian_plan((4, 4), (2, 2), 4, 1)


def test_tables_send_owned_rows_before_those_that_wait() -> None:
    plan, _ = cartesian_plan((4, 4), (1, 1), 0, 1)
    tables = build_tables(plan, plan.table()[None], ())
    second_dim = [pulse for pulse, p in enumerate(plan.pulses) if p.dim == 0]
    for pulse in second_dim:
        groups = tables.sends[tables.sends[:, PULSE] == pulse]
        assert groups[:, DEPENDS].tolist() == [-1, 0, 1]
        assert groups[:, LAST].tolist() == [0, 0, 1]
    assert sorted(tables.early.tolist()) == second_dim


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0.5, 1.0], "send_rows are float64; give whole"),
        (np.array([0, 2**32]), "send_rows are 0..4294967296; at most"),
    ],
)
def test_rows_that_int32_would_change_are_refused(rows: object, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        one_rank_pulse(send_rows=rows)


def test_rows_of_an_empty_list_are_whole_numbers() -> None:
    assert one_rank_pulse(send_rows=[], depends=np.empty(0)).n_send == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((10, 12), (3,), 0, 1), "each needs one value for every dimension"),
        (((10, 12), (3, 1), 3, 1), "a rank from 0 to the ranks of the grid less one"),
        (((10.5, 12), (3, 1), 0, 1), "needs whole numbers"),
        (((10, 12), (3, 1), 0, (1, 2)), "needs whole numbers"),
        (((10, 0), (3, 1), 0, 1), "cells and ranks in every dimension"),
    ],
)
def test_cartesian_plan_of_what_fits_not_together_says_what_it_needs(given: tuple, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        cartesian_plan(*given)
