"""Programs of random exchanges: channels that share arrays and plans, are bound anew and are under way together."""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np
import pytest

from pulsemd.halo import Channel, HaloPlan, Transport, cartesian_plan, launch, plan_from_ids

needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpirun or mpiexec")
TURNS, PLANS = 40, 6


def value(ids: np.ndarray, turn: int, salt: int = 0) -> np.ndarray:
    """(n, 1) what rows with these ids hold; the same wherever it is computed."""
    return ((ids * 7919 + turn * 104729 + salt * 1299709) % 2003).astype(np.int64)[:, None]


class Program:
    """Everything is drawn from a seed alike on all ranks, but for how long each of them is busy in between."""

    def __init__(self, transport: Transport, seed: int) -> None:
        self.transport, self.seed = transport, seed
        self.random, self.own_random = (
            np.random.default_rng(seed),
            np.random.default_rng((seed, transport.rank)),
        )
        self.shape = tuple(self.random.integers(1, 9, 2).tolist())
        sizes = (transport.size, 1) if self.random.integers(2) else (1, transport.size)
        self.plans = [self.grid_plan(sizes)]
        self.owned = self.plans[0][1][: self.plans[0][0].n_owned]
        self.plans += [self.any_plan(sizes) for _ in range(1, PLANS)]
        self.ghosts = [transport.allgather(ids[plan.n_owned :]) for plan, ids in self.plans]
        rows = max(transport.allgather(max(plan.n_local for plan, _ in self.plans)))
        arrays = [transport.allocate(f"array {width}", rows, width, "int64") for width in (1, 3)]
        self.arrays = [arrays[0], arrays[0], arrays[1]]
        self.bound = self.random.integers(0, PLANS, 3).tolist()
        self.channels: list[Channel] = [
            transport.channel(self.plans[n][0], array)
            for n, array in zip(self.bound, self.arrays, strict=True)
        ]

    def grid_plan(self, sizes: tuple[int, int]) -> tuple[HaloPlan, np.ndarray]:
        width, periodic, direct = (int(n) for n in self.random.integers(0, (4, 2, 2)))
        kind = "direct" if direct else "staged"
        plan, cells = cartesian_plan(self.shape, sizes, self.transport.rank, width, bool(periodic), kind)
        return plan, np.ravel_multi_index(tuple((cells % self.shape).T), self.shape)

    def any_plan(self, sizes: tuple[int, int]) -> tuple[HaloPlan, np.ndarray]:
        if self.random.integers(3):
            return self.grid_plan(sizes)
        ghosts = self.own_random.integers(0, self.shape[0] * self.shape[1], self.own_random.integers(0, 20))
        return plan_from_ids(self.transport, self.owned, ghosts)

    def be_busy(self) -> None:
        if self.own_random.random() < 0.3:
            time.sleep(2e-3 * self.own_random.random())

    def set_owned(self, k: int, turn: int) -> None:
        self.arrays[k][: len(self.owned)] = value(self.owned, turn, k)

    def expect_ghosts(self, k: int, turn: int) -> None:
        self.be_busy()
        plan, ids = self.plans[self.bound[k]]
        same = self.arrays[k][: plan.n_local] == value(ids, turn, k)
        assert same.all(), f"seed {self.seed}, turn {turn}: forward of channel {k}"

    def forward(self, k: int, turn: int) -> None:
        self.set_owned(k, turn)
        self.channels[k].forward_begin()
        self.be_busy()
        self.channels[k].forward_end()
        self.expect_ghosts(k, turn)
        if self.own_random.random() < 0.3:
            self.channels[k].release()

    def reverse(self, k: int, turn: int) -> None:
        (plan, ids), rank, array = self.plans[self.bound[k]], self.transport.rank, self.arrays[k]
        array[: plan.n_local] = value(ids, turn, 10 + rank)
        self.be_busy()
        self.channels[k].reverse_begin()
        self.be_busy()
        array[: plan.n_owned] += 5
        self.channels[k].reverse_end()
        sums = np.zeros((self.shape[0] * self.shape[1], 1), np.int64)
        for holder, ghosts in enumerate(self.ghosts[self.bound[k]]):
            np.add.at(sums, ghosts, value(ghosts, turn, 10 + holder))
        wanted = value(self.owned, turn, 10 + rank) + 5 + sums[self.owned]
        assert (array[: plan.n_owned] == wanted).all(), (
            f"seed {self.seed}, turn {turn}: reverse of channel {k}"
        )

    def two_forwards(self, turn: int) -> None:
        pair = [int(self.random.integers(2)), 2]
        for k in pair:
            self.set_owned(k, turn)
            self.channels[k].forward_begin()
            self.be_busy()
        for k in self.random.permutation(pair).tolist():
            self.channels[k].forward_end()
        for k in pair:
            self.expect_ghosts(k, turn)

    def run(self) -> None:
        for turn in range(TURNS):
            what, k = self.random.integers(0, (6, 3)).tolist()
            if what < 2:
                self.forward(k, turn)
            elif what < 4:
                self.reverse(k, turn)
            elif what == 4:
                self.two_forwards(turn)
            else:
                self.bound[k] = int(self.random.integers(PLANS))
                self.channels[k].rebind(self.plans[self.bound[k]][0])


def run_programs(transport: Transport, seeds: list[int]) -> int:
    """One program after the other."""
    for seed in seeds:
        Program(transport, seed).run()
    return len(seeds)


@pytest.mark.parametrize(
    ("ranks", "transport", "count"),
    [(3, "loopback", 25), (2, "shmem", 25), pytest.param(2, "mpi", 10, marks=[pytest.mark.mpi, needs_mpi])],
)
def test_random_programs_get_the_rows_that_their_plans_promise(
    ranks: int, transport: str, count: int
) -> None:
    assert launch(ranks, f"{__name__}:run_programs", list(range(count)), transport) == count
