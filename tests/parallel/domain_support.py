"""Random systems and worlds of plan-ranks for the decomposition tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit
from ownership_rule import pair_is_mine

from pulsemd.base.box import widths_of
from pulsemd.domain.atoms import LocalAtoms, UpdateGroups, select_owned
from pulsemd.domain.grid import Grid
from pulsemd.domain.lattice import LATTICE, difference, reduce_box, to_lattice, to_positions
from pulsemd.domain.migrate import migrate
from pulsemd.domain.plan import LocalDomain, build_halo
from pulsemd.halo import Transport
from pulsemd.halo.transports.loopback import loopback_world
from pulsemd.kernels.search.lists import Exclusions
from pulsemd.kernels.search.search import Rows, build_pair_list


def on_ranks(size: int, work: Callable[[Transport], Any], expect_errors: bool = False) -> list[Any]:
    """Result of ``work(transport)`` of every rank; errors are returned if expected, else raised."""
    results: list[Any] = [None] * size

    def run(transport: Transport) -> None:
        try:
            results[transport.rank] = work(transport)
        except BaseException as error:
            results[transport.rank] = error

    # hundreds of threads on two cores reach their second meeting after a minute
    threads = [threading.Thread(target=run, args=(t,)) for t in loopback_world(size, timeout=240.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException) and not expect_errors:
            raise result
    return results


class World:
    """A system of random update groups in a box, and the domains of all ranks."""

    def __init__(
        self, box: np.ndarray, n_groups: int, reach: float, seed: int, extent_of_places: float = 1.0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.box = rng, reduce_box(box)[0]
        sizes = rng.integers(1, 5, n_groups) if reach > 0 else np.ones(n_groups, int)
        offset = np.concatenate([[0], np.cumsum(sizes)])
        n = int(offset[-1])
        self.groups = UpdateGroups(offset, rng.permutation(n).astype(np.int32))
        centre = rng.uniform(-0.5, 0.5, (n_groups, 3)) * extent_of_places @ self.box
        move = rng.normal(size=(n, 3))
        move *= (reach * rng.uniform(0, 1, n) / np.linalg.norm(move, axis=1))[:, None]
        move[offset[:-1]] = 0.0
        positions = np.empty((n, 3))
        positions[self.groups.atoms] = np.repeat(centre, sizes, axis=0) + move
        self.x = to_lattice(positions, self.box)
        self.v = rng.normal(size=(n, 3)).astype(np.float32)
        self.leader = np.empty(n, np.int32)
        self.leader[self.groups.atoms] = np.repeat(self.groups.atoms[offset[:-1]], sizes)

    @property
    def n(self) -> int:
        return len(self.x)

    def start(self, transport: Transport, grid: Grid) -> LocalAtoms:
        return select_owned(grid, transport.rank, self.groups, self.x, self.v)

    def domains(
        self, grid: Grid, r_list: float, kind: str = "staged", extent: float = 0.0
    ) -> list[LocalDomain]:
        def work(transport: Transport) -> LocalDomain:
            atoms = migrate(transport, grid, self.groups, self.start(transport, grid))
            return build_halo(transport, grid, self.groups, atoms, self.box, r_list, extent, kind)

        return on_ranks(grid.size, work)

    def pairs_within(self, r_list: float) -> np.ndarray:
        """Pairs i < j of global ids within ``r_list``, by float64 search over images."""
        i, j = np.triu_indices(self.n, 1)
        frac = to_positions(difference(self.x[i], self.x[j]), np.eye(3))
        shortest = np.full(len(i), np.inf)
        for image in np.ndindex(3, 3, 3):
            shortest = np.minimum(shortest, np.linalg.norm((frac + np.array(image) - 1) @ self.box, axis=1))
        near = shortest <= r_list
        return np.column_stack([i[near], j[near]])


@njit
def count_pairs(gid, leader_x, home, split, seen):
    """Add the pairs of local rows that this rank owns."""
    for a in range(gid.size):
        for b in range(a):
            if pair_is_mine(leader_x[a], leader_x[b], home[a], home[b], split):
                seen[gid[a], gid[b]] += 1
                seen[gid[b], gid[a]] += 1


def seen_pairs(world: World, grid: Grid, domains: Sequence[LocalDomain]) -> np.ndarray:
    """How many ranks compute each pair (n, n)."""
    seen, split = np.zeros((world.n, world.n), np.int32), np.array(grid.split_dims, np.int64)
    for d in domains:
        count_pairs(d.gid, d.leader_x, d.home, split, seen)
    return seen


def listed_pairs(world: World, grid: Grid, domains: Sequence[LocalDomain], r_list: float) -> int:
    """Pairs in the lists that the ranks make for their kernels."""
    split, total = [n > 1 for n in grid.shape], 0
    for d in domains:
        none = Exclusions(np.zeros(d.n_local + 1, np.int64), np.zeros(0, np.int32))
        rows = Rows(world.x[d.gid], d.n_owned, np.ones(d.n_local, bool), d.leader_x, d.home, none)
        total += build_pair_list(rows, world.box, r_list, split, True, None).counts.pairs
    return total


def forwarded(domains: Sequence[LocalDomain]) -> list[np.ndarray]:
    """Global ids of all local rows, with those of ghosts carried by the plans alone."""
    gids = [np.full(d.n_local, -1, np.int32) for d in domains]
    for gid, d in zip(gids, domains, strict=True):
        gid[: d.n_owned] = d.atoms.gid
    for p in range(len(domains[0].plan.pulses)):
        for rank, d in enumerate(domains):
            pulse = d.plan.pulses[p]
            target = domains[pulse.send_rank].plan.pulses[p]
            assert target.recv_rank == rank
            assert target.recv_start == pulse.remote_start
            assert target.n_recv == len(pulse.send_rows)
            rows = gids[rank][pulse.send_rows]
            assert (rows >= 0).all()
            gids[pulse.send_rank][pulse.remote_start : pulse.remote_start + len(rows)] = rows
    return gids


def check_domains(world: World, grid: Grid, domains: Sequence[LocalDomain], r_list: float) -> None:
    """All promises of a set of domains."""
    owned = np.concatenate([d.atoms.gid for d in domains])
    assert np.array_equal(np.sort(owned), np.arange(world.n))
    leader_of = world.x[world.leader]
    for rank, (d, gid) in enumerate(zip(domains, forwarded(domains), strict=True)):
        assert np.array_equal(gid, d.gid)
        assert np.array_equal(d.atoms.x, world.x[d.atoms.gid])
        assert np.array_equal(d.atoms.v, world.v[d.atoms.gid])
        assert np.array_equal(d.leader_x, leader_of[d.gid])
        assert np.array_equal(d.local_row[d.gid], np.arange(d.n_local))
        assert (d.local_row >= 0).sum() == d.n_local == len(np.unique(d.gid))
        sent = np.concatenate([np.empty(0, int), *(p.send_rows for p in d.plan.pulses)])
        assert set(range(d.n_interior, d.n_owned)) == set(sent[sent < d.n_owned].tolist())
        cell = grid.cell_of_rank(rank)
        bits = sum((grid.cell_of(d.leader_x)[:, k] == cell[k]).astype(int) << k for k in range(3))
        assert np.array_equal(d.home, bits)
    seen = seen_pairs(world, grid, domains)
    near = world.pairs_within(r_list)
    assert (seen[near[:, 0], near[:, 1]] == 1).all()
    assert listed_pairs(world, grid, domains, r_list) == len(near)


def random_bounds(n: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Cells between a half and one and a half times the mean width."""
    edges = np.arange(n + 1) / n
    edges[1:-1] += rng.uniform(-0.25, 0.25, n - 1) / n
    return tuple(int(e * LATTICE) for e in edges)


def halo_limit(grid: Grid, box: np.ndarray) -> float:
    """Widest halo [nm] that fits a grid in a box."""
    w = widths_of(box)
    limits = [w[d] * min(0.5, 1 - max(grid.cell_widths[d]) / LATTICE) for d in grid.split_dims]
    return 0.999 * min([*limits, w.min() / 2])
