"""The suite that every transport has to pass: ``python -m pulsemd.halo.conformance --transport shmem --ranks 8``.

Each rank builds the same plans, exchanges ids, and compares what it gets with what the plan promises. A transport that
loses, repeats, mixes up or delays rows, or overwrites them too early, fails with the case, rank and row named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, PulseMDError, TransportError
from pulsemd.halo.cartesian import cartesian_plan
from pulsemd.halo.launch import launch, launch_gpus
from pulsemd.halo.plan import HaloPlan, Kind
from pulsemd.halo.rows import plan_from_ids
from pulsemd.halo.transport import FIELD_TYPES, Channel, Transport

RANKS: Final = (1, 2, 3, 4, 5, 7, 8)
WIDTHS: Final = (1, 3, 7)
FORMATS: Final = tuple(product(FIELD_TYPES, WIDTHS))
_ROUNDS: Final = 8
_STEP: Final = 4096
_SEED: Final = 20260
Ids = NDArray[np.int64]
World = Callable[[int, str, Any], Any]


class ConformanceError(TransportError):
    """A transport did not do what the plan says."""


@dataclass(frozen=True)
class GridCase:
    """A regular grid: cells per rank and dimension (plus ``extra`` cells in all), and the halo over them."""

    name: str
    cells: int
    extra: int
    width: int
    periodic: bool
    kind: Kind
    ascending: bool = False

    def plan(self, grid: Sequence[int], rank: int) -> tuple[HaloPlan, Ids]:
        """Plan and ids of the local rows of a rank."""
        shape = [max(1, self.cells * n + (self.extra if n > 1 else 1)) for n in grid]
        order = range(len(grid)) if self.ascending else None
        plan, cells = cartesian_plan(shape, grid, rank, self.width, self.periodic, self.kind, order)
        return plan, np.ravel_multi_index(tuple((cells % shape).T), shape).astype(np.int64)


ONE_PULSE: Final = GridCase("one pulse a dimension", 3, 1, 2, True, "staged")
TWO_PULSES: Final = GridCase("two pulses a dimension", 2, 1, 3, True, "staged", ascending=True)
GRID_CASES: Final = (
    ONE_PULSE,
    TWO_PULSES,
    GridCase("three pulses a dimension", 1, 1, 3, True, "staged"),
    GridCase("empty domains", 1, -1, 1, True, "staged"),
    GridCase("empty domains, wide halo", 1, -1, 2, True, "staged", ascending=True),
    GridCase("open boundaries", 2, 1, 3, False, "staged"),
    GridCase("direct", 3, 1, 2, True, "direct"),
    GridCase("direct over two blocks", 1, 1, 2, True, "direct"),
    GridCase("direct, empty domains", 1, -1, 1, True, "direct"),
    GridCase("direct, open boundaries", 2, 1, 2, False, "direct"),
)


def run_conformance(world: World, ranks: Sequence[int] = RANKS, thorough: bool = False) -> int:
    """Run the suite.

    Parameters
    ----------
    world : callable ``(n_ranks, target, payload) -> result of rank 0``
        Starts ranks, as `pulsemd.halo.launch` does.
    ranks : sequence of int
    thorough : bool
        Every order of the factors of a rank count, and every case with every dtype and width.

    Returns
    -------
    int
        Number of cases passed.

    Raises
    ------
    ConformanceError
        With case, rank and row.
    """
    return sum(world(n, "pulsemd.halo.conformance:conform", {"thorough": thorough}) for n in ranks)


def conform(transport: Transport, options: dict[str, bool]) -> int:
    """The whole suite on one rank of a world; collective. The number of cases.

    ``options``: ``thorough`` as in `run_conformance`, ``brief``: see `rank_grids`.
    """
    thorough, brief = options["thorough"], options.get("brief", False)
    count = 0
    for grid in rank_grids(transport.size, thorough, brief):
        for number, case in enumerate(GRID_CASES):
            plan, ids = case.plan(grid, transport.rank)
            chosen = FORMATS if thorough else (FORMATS[(5 * number + len(grid)) % len(FORMATS)],)
            for dtype, width in chosen:
                label = f"{case.name}, grid {grid}, {dtype} x {width}"
                check_plan(Field(transport, plan, ids, dtype, width, label))
                count += 1
    irregular = (
        check_any_rows,
        check_one_row,
        check_nothing_sent,
        check_many_channels,
        check_rebind,
        check_control,
    )
    for check in irregular:
        check(transport)
    return count + len(irregular)


def rank_grids(size: int, thorough: bool = False, brief: bool = False) -> Iterator[tuple[int, ...]]:
    """Grids of ``size`` ranks in 1, 2 and 3 dimensions.

    ``thorough``: in every order of their factors; ``brief``: only those with several ranks in each dimension.
    """
    for n_dims in (1, 2, 3):
        for grid in product(range(1 + brief, size + 1), repeat=n_dims):
            if prod(grid) == size and (thorough or list(grid) == sorted(grid)):
                yield grid


class Field:
    """A channel, the ids of its rows, and what its elements should be."""

    def __init__(
        self,
        transport: Transport,
        plan: HaloPlan,
        ids: Ids,
        dtype: str,
        width: int,
        label: str,
        name: str = "field",
    ) -> None:
        self.transport, self.label = transport, label
        capacity = max(transport.allgather(plan.n_local))
        self.array = transport.allocate(name, capacity, width, dtype)
        self.channel: Channel = transport.channel(plan, self.array)
        self.bind(plan, ids)

    def bind(self, plan: HaloPlan, ids: Ids) -> None:
        """Take the ids of another plan."""
        self.plan, self.ids = plan, ids
        ghosts = np.concatenate(self.transport.allgather(ids[plan.n_owned :]))
        owned = ids[: plan.n_owned]
        self.copies = np.bincount(ghosts, minlength=int(ids.max(initial=0)) + 1)[owned]

    def values(self, turn: int) -> NDArray[Any]:
        """(n_local, width) values of a turn: small whole numbers, exact in every dtype."""
        columns = np.arange(self.array.shape[1])
        return (8 * self.ids[:, None] + columns + _STEP * turn).astype(self.array.dtype)

    def set_owned(self, turn: int) -> None:
        """Give the owned rows the values of a turn."""
        self.array[: self.plan.n_owned] = self.values(turn)[: self.plan.n_owned]

    def expect(self, rows: slice, expected: NDArray[Any], what: str) -> None:
        """Compare rows with what they should be."""
        found = self.array[: self.plan.n_local][rows]
        wrong = np.argwhere(found != expected)
        if len(wrong):
            row, column = wrong[0]
            raise ConformanceError(
                f"conformance of {self.transport.name}, {self.label}, rank {self.transport.rank} of "
                f"{self.transport.size}: {what}: row {range(self.plan.n_local)[rows][row]} (id "
                f"{self.ids[rows][row]}) column {column} holds {found[row, column]}, expected {expected[row, column]}; "
                f"{len(wrong)} of {found.size} elements differ"
            )

    def expect_forward(self, turn: int) -> None:
        """All rows hold the values of a turn."""
        self.expect(slice(None), self.values(turn), f"forward {turn}")

    def expect_reverse(self, turn: int) -> None:
        """Each owned row holds the values of a turn once for itself and once for each ghost of it."""
        owned = slice(0, self.plan.n_owned)
        times = (1 + self.copies[:, None]).astype(self.array.dtype)
        self.expect(owned, self.values(turn)[owned] * times, f"reverse {turn}")


def check_plan(field: Field) -> None:
    """Forward, reverse, and many of both without a barrier in between."""
    check_adjoint(field)
    for turn in range(_ROUNDS):
        field.set_owned(turn)
        field.channel.forward()
        field.expect_forward(turn)
        if turn % 3 == 0:
            field.channel.release()
    for turn in range(_ROUNDS):
        field.set_owned(turn)
        field.channel.forward_begin()
        field.channel.forward_end()
        field.expect_forward(turn)
        field.channel.reverse_begin()
        field.channel.reverse_end()
        field.expect_reverse(turn)
    for turn in range(_ROUNDS):
        field.array[: field.plan.n_local] = field.values(turn)
        field.channel.reverse()
        field.expect_reverse(turn)


def check_adjoint(field: Field) -> None:
    """<forward(x), y> == <x, reverse(y)>, exact for whole numbers."""
    transport, plan, array = field.transport, field.plan, field.array
    random = np.random.default_rng((_SEED, transport.rank))
    x = random.integers(-9, 10, (plan.n_owned, array.shape[1]))
    y = random.integers(-9, 10, (plan.n_local, array.shape[1]))
    array[: plan.n_owned] = x
    field.channel.forward()
    left = int((array[: plan.n_local].astype(np.int64) * y).sum())
    array[: plan.n_local] = y
    field.channel.reverse()
    right = int((array[: plan.n_owned].astype(np.int64) * x).sum())
    total = transport.reduce(2, "int64").sum(np.array([left, right]))
    if total[0] != total[1]:
        raise ConformanceError(
            f"conformance of {transport.name}, {field.label}: <forward(x), y> = {total[0]}, "
            f"but <x, reverse(y)> = {total[1]}"
        )


def check_any_rows(transport: Transport) -> None:
    """Rows dealt out at random, ghosts chosen at random, the own ones among them."""
    random = np.random.default_rng(_SEED)
    n_rows = 60
    owners = random.integers(0, transport.size, n_rows)
    ghosts = random.integers(0, n_rows, (transport.size, 25))[transport.rank]
    plan, ids = plan_from_ids(transport, np.flatnonzero(owners == transport.rank), ghosts)
    check_plan(Field(transport, plan, ids, "float64", 3, "rows at random"))


def check_one_row(transport: Transport) -> None:
    """One row in all, owned by the last rank, a ghost everywhere."""
    owned = [0] if transport.rank == transport.size - 1 else []
    plan, ids = plan_from_ids(transport, owned, [0])
    check_plan(Field(transport, plan, ids, "int64", 1, "one row"))


def check_nothing_sent(transport: Transport) -> None:
    """Pulses, but no ghosts."""
    plan, ids = plan_from_ids(transport, [transport.rank], [])
    check_plan(Field(transport, plan, ids, "int32", 7, "nothing sent"))


def check_many_channels(transport: Transport) -> None:
    """Channels of every dtype and width on one plan, their exchanges under way at the same time."""
    plan, ids = TWO_PULSES.plan((transport.size, 1, 1), transport.rank)
    fields = [
        Field(
            transport, plan, ids, dtype, width, f"many channels, {dtype} x {width}", f"field {dtype} {width}"
        )
        for dtype, width in FORMATS
    ]
    for turn in range(_ROUNDS):
        for field in fields:
            field.set_owned(turn)
            field.channel.forward_begin()
        for field in reversed(fields):
            field.channel.forward_end()
        for field in fields:
            field.expect_forward(turn)
            field.channel.reverse_begin()
        for field in reversed(fields):
            field.channel.reverse_end()
            field.expect_reverse(turn)


def check_rebind(transport: Transport) -> None:
    """Pulse counts 1 -> 2 -> 1 and back on one channel; nothing of an old plan may show."""
    grid = (1, transport.size)
    plans = [case.plan(grid, transport.rank) for case in (ONE_PULSE, TWO_PULSES)]
    plan, ids = max(plans, key=lambda pair: pair[0].n_local)
    field = Field(transport, plan, ids, "float32", 3, "pulses 1 -> 2 -> 1")
    turn = 0
    for plan, ids in (*plans, *plans):
        field.channel.rebind(plan)
        field.bind(plan, ids)
        for _ in range(_ROUNDS // 2):
            turn += 1
            field.set_owned(turn)
            field.channel.forward()
            field.expect_forward(turn)
            field.channel.reverse()
            field.expect_reverse(turn)


def check_control(transport: Transport) -> None:
    """Control plane: copies arrive whole, an error is everybody's."""
    rank, size = transport.rank, transport.size
    problems = []
    if transport.allgather({"rank": rank}) != [{"rank": r} for r in range(size)]:
        problems.append("allgather")
    if transport.broadcast(("root", rank), size - 1) != ("root", size - 1):
        problems.append("broadcast")
    for scale in (1, 20000):
        sent = [np.full((scale * (r + 1), rank), 10 * rank + r, np.int16) for r in range(size)]
        for r, got in enumerate(transport.alltoall(sent)):
            if got.shape != (scale * (rank + 1), r) or got.dtype != np.int16 or (got != 10 * r + rank).any():
                problems.append(f"alltoall from rank {r}")
    thirds = transport.reduce(1, "float64")
    expected = 0.0
    for r in range(size):  # not sum(): from Python 3.12 on it compensates rounding errors
        expected += 1.0 / (3 + r)
    if any(thirds.sum(np.array([1.0 / (3 + rank)]))[0] != expected for _ in range(_ROUNDS)):
        problems.append("reduce, in rank order")
    try:
        transport.agree(ValueError(f"of rank {rank}") if rank == size - 1 else None)
        problems.append("agree")
    except ValueError as error:
        if str(error) != f"of rank {size - 1}":
            problems.append("agree on the error of the lowest rank")
    if problems:
        raise ConformanceError(
            f"conformance of {transport.name}, rank {rank} of {size}: {'; '.join(problems)}"
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pulsemd.halo.conformance", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--transport", nargs="+", default=[], help="rungs; shmem, on GPUs the best one")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--processes", type=int, default=2, help="GPU processes that share the ranks (2)")
    parser.add_argument("--thorough", action="store_true", help="all grids with all dtypes and widths")
    parser.add_argument(
        "--brief", action="store_true", help="only grids with several ranks in each dimension"
    )
    arguments = parser.parse_args()
    suite = _on_gpus if arguments.device == "cuda" else _on_cpus
    try:
        for n_ranks in arguments.ranks:
            suite(arguments, n_ranks)
    except PulseMDError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _options(arguments: argparse.Namespace) -> dict[str, bool]:
    return {"thorough": arguments.thorough, "brief": arguments.brief}


def _on_cpus(arguments: argparse.Namespace, n_ranks: int) -> None:
    for name in arguments.transport or ["shmem"]:
        count = launch(n_ranks, "pulsemd.halo.conformance:conform", _options(arguments), name)
        print(f"{name}: {count} cases passed on {n_ranks} ranks", flush=True)


def _on_gpus(arguments: argparse.Namespace, n_ranks: int) -> None:
    """All rungs in one start of the processes; what is wrong with one is raised after the last."""
    n_processes = arguments.processes
    if n_ranks % n_processes:
        raise ConfigError(f"--ranks {n_ranks}: not a multiple of --processes {n_processes}")
    names = arguments.transport or ["auto"]
    options: dict[str, Any] = _options(arguments) | {"suites": {name: (name, {}) for name in names}}
    found = launch_gpus(
        n_processes,
        "pulsemd.halo.rungs.conformance:conform_on_rungs",
        options,
        None,
        ranks_per_gpu=n_ranks // n_processes,
        rungs=names,
    )
    for name, (count, path) in found.items():
        if count:
            print(f"{name}: {count} cases passed on {n_ranks} ranks ({path})", flush=True)
    problems = [path.removeprefix("failed: ") for count, path in found.values() if count == 0]
    if problems:
        raise TransportError("; ".join(problems))


if __name__ == "__main__":
    main()
