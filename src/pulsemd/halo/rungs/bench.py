"""Times of exchanges and sums on every rung, in one launch: what ``pulsemd bench halo`` measures."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import PulseMDError
from pulsemd.halo.device.transport import ExchangeOptions
from pulsemd.halo.plan import HaloPlan, Pulse, dependencies
from pulsemd.halo.rows import plan_from_ids
from pulsemd.halo.rungs.ladder import open_rung

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport
    from pulsemd.halo.rungs.world import GpuWorld

IN_GRAPH = 20
"""Exchanges of one graph."""


@dataclass(frozen=True)
class HaloBench:
    """What to measure.

    Parameters
    ----------
    rungs : tuple of str
    plans : tuple of {'staged', 'direct'}
    grids : tuple of (d,) int
        Ranks in each dimension; a dimension with one rank has no pulse.
    rows : tuple of int
        Rows that a rank sends in each pulse of a staged plan.
    widths : tuple of int
        32-bit elements of a row.
    blocks : tuple of int
        Blocks of each pulse of ``nvshmem-fused``; 0: as many as it chooses.
    puts : bool
        Reach the peers of ``nvshmem-*`` by puts, also where stores reach them.
    reduce_width : int
        Values of the all-reduce; 0: none.
    repeats : int
    seconds : float
        About how long one repeat takes.
    """

    rungs: tuple[str, ...]
    plans: tuple[str, ...] = ("staged",)
    grids: tuple[tuple[int, ...], ...] = ((2,),)
    rows: tuple[int, ...] = (4096,)
    widths: tuple[int, ...] = (4,)
    blocks: tuple[int, ...] = (0,)
    puts: bool = False
    reduce_width: int = 8
    repeats: int = 5
    seconds: float = 0.01


def measure(world: GpuWorld, bench: HaloBench) -> list[dict[str, Any]]:
    """Rows of results, on process 0's clock; a target of `pulsemd.halo.launch_gpus`.

    Repeats of all rungs alternate, so that a disturbance hits all alike.
    """
    results: list[dict[str, Any]] = []
    rungs: list[tuple[GpuTransport, int]] = []
    say = _Progress(world)
    for name in bench.rungs:
        try:
            rungs += [_open(world, bench, name, blocks) for blocks in _blocks_of(bench, name)]
        except PulseMDError as error:
            results.append({"transport": name, "path": f"failed: {error}"})
        say(f"{name} is open")
    for grid in bench.grids:
        for kind in bench.plans:
            for rows in bench.rows:
                for width in bench.widths:
                    results += _measure_case(world, rungs, bench, grid, kind, rows, width, say)
    if bench.reduce_width:
        results += _measure_sums(rungs, bench)
    return [{"device": world.device_name, "n_gpus": world.n_gpus, "n_ranks": world.size} | r for r in results]


class _Progress:
    """Tells on the terminal how far process 0 is."""

    def __init__(self, world: GpuWorld) -> None:
        self._shown, self._begin = world.process == 0, time.monotonic()

    def __call__(self, text: str) -> None:
        if self._shown:
            print(f"{time.monotonic() - self._begin:5.1f} s: {text}", file=sys.stderr, flush=True)


def _blocks_of(bench: HaloBench, name: str) -> tuple[int, ...]:
    return bench.blocks if name == "nvshmem-fused" else (0,)


def _open(world: GpuWorld, bench: HaloBench, name: str, blocks: int) -> tuple[GpuTransport, int]:
    """A rung as it is to be measured, and the blocks of each pulse that it is told to use."""
    options: dict[str, Any] = {"peer_pointers": False} if bench.puts and name.startswith("nvshmem") else {}
    if blocks:
        options["options"] = ExchangeOptions(blocks=blocks)
    return open_rung(world, name, **options), blocks


def _measure_case(
    world: GpuWorld,
    rungs: list[tuple[GpuTransport, int]],
    bench: HaloBench,
    grid: tuple[int, ...],
    kind: str,
    rows: int,
    width: int,
    say: _Progress,
) -> list[dict[str, Any]]:
    pairs = [bench_plan(grid, rank, rows) for rank in world.ranks]
    plans = [plan for plan, _ in pairs]
    if kind == "direct":
        made = world.each(lambda k, control: plan_from_ids(control, *_split(pairs[k])))
        plans = [plan for plan, _ in made]
    capacity = max(world.gather(max(plan.n_local for plan in plans)))
    timers: list[tuple[dict[str, Any], _Timer]] = []
    for transport, blocks in rungs:
        array = transport.allocate(f"bench {rows} {width}", capacity, width, "float32")
        channel = transport.channel(plans, array)
        sent = max(world.gather(max(sum(p.n_send for p in plan.pulses) for plan in plans)))
        row: dict[str, Any] = {
            "transport": transport.name,
            "path": transport.path,
            "grid": "x".join(map(str, grid)),
            "plan": kind,
            "blocks": blocks or "",
        }
        row |= {"rows": rows, "width": width, "pulses": len(plans[0].pulses), "bytes_sent": sent * width * 4}
        for what, call in (("forward", channel.forward), ("forward+reverse", _both(channel))):
            for mode in ("launched", "graph"):
                if mode == "launched" or channel.capturable:
                    timers.append((row | {"what": what, "mode": mode}, _Timer(transport, call, mode)))
        say(
            f"{transport.name}: ready for {'x'.join(map(str, grid))} ranks, {kind} plan, {rows} rows of {width}"
        )
    found = _run(timers, bench)
    say("measured")
    return found


def _measure_sums(rungs: list[tuple[GpuTransport, int]], bench: HaloBench) -> list[dict[str, Any]]:
    timers = []
    for transport, blocks in rungs:
        if blocks != _blocks_of(bench, transport.name)[0]:
            continue
        reduce = transport.reduce(bench.reduce_width, "float64")
        values = getattr(reduce, "values", None)
        if values is None:
            values = transport.device.zeros((transport.n_local, bench.reduce_width), "float64")

        def call(sum_: Callable[[Any], Any] = reduce.sum, given: Any = values) -> None:
            sum_(given)

        row: dict[str, Any] = {
            "transport": transport.name,
            "path": transport.path,
            "what": f"sum of {bench.reduce_width}",
        }
        row |= {"width": bench.reduce_width, "grid": "", "plan": "none"}
        for mode in ("launched", "graph"):
            if mode == "launched" or transport.name not in ("mpi", "nvshmem-stream"):
                timers.append((row | {"mode": mode}, _Timer(transport, call, mode)))
    return _run(timers, bench)


def _run(timers: Sequence[tuple[dict[str, Any], _Timer]], bench: HaloBench) -> list[dict[str, Any]]:
    for _ in range(bench.repeats):
        for _, timer in timers:
            timer.repeat(bench.seconds)
    return [row | timer.result() for row, timer in timers]


def _both(channel: Any) -> Callable[[], None]:
    def call() -> None:
        channel.forward()
        channel.reverse()

    return call


class _Timer:
    """Repeated times of one call on one rung, all processes together."""

    def __init__(self, transport: GpuTransport, call: Callable[[], None], mode: str) -> None:
        self._transport = transport
        self._times: list[float] = []
        self._shares: list[float] = []
        call()
        transport.check()
        waits = getattr(transport, "host_waits", 0)
        call()
        self._waits = getattr(transport, "host_waits", 0) - waits
        transport.check()
        self._per_call = IN_GRAPH if mode == "graph" else 1
        self._nodes, self._call, self._count = "", call, 0
        if mode == "graph":

            def work() -> None:  # of nothing that holds the graph: NCCL ends only after its last graph
                for _ in range(IN_GRAPH):
                    call()

            graph = transport.device.capture(work)
            self._nodes, self._call = f"{graph.nodes / IN_GRAPH:g}", graph

    def repeat(self, seconds: float) -> None:
        """Time as many calls as take about ``seconds``; collective."""
        transport = self._transport
        if self._count == 0:
            single = max(transport.each(_gathered(self._time(20)[0]))[0])
            self._count = max(10, min(2000, int(seconds / single)))
        elapsed, share = self._time(self._count)
        self._times.append(max(transport.each(_gathered(elapsed))[0]) / self._per_call)
        self._shares.append(share)

    def _time(self, count: int) -> tuple[float, float]:
        """Seconds of one call, and the part of it that the host was busy launching or waiting in calls."""
        transport, call = self._transport, self._call
        transport.settle()
        transport.meet()
        start = time.perf_counter()
        for _ in range(count):
            call()
        issued = time.perf_counter()
        transport.device.stream.synchronize()
        end = time.perf_counter()
        transport.check()
        return (end - start) / count, (issued - start) / (end - start)

    def result(self) -> dict[str, Any]:
        """Columns of results."""
        micro = [1e6 * t for t in self._times]
        return {
            "steps": self._count * self._per_call,
            "us_per_step": round(median(micro), 3),
            "us_min": round(min(micro), 3),
            "us_max": round(max(micro), 3),
            "graph_nodes": self._nodes,
            "launch_share": round(median(self._shares), 3),
            "host_blocking_waits": self._waits,
        }


def _gathered(value: float) -> Callable[[int, Any], list[float]]:
    return lambda _, control: list(control.allgather(value))


def _split(pair: tuple[HaloPlan, NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids of the owned and of the ghost rows."""
    plan, ids = pair
    return ids[: plan.n_owned], ids[plan.n_owned :]


def bench_plan(grid: Sequence[int], rank: int, rows: int) -> tuple[HaloPlan, NDArray[np.int64]]:
    """A staged plan like that of an eighth-shell decomposition, and the ids of the local rows.

    One pulse a dimension, last to first, to the lower neighbour; every pulse sends every second owned row and, of each
    earlier pulse, every fourth ghost, ``rows`` in all.
    """
    dims = [d for d in reversed(range(len(grid))) if grid[d] > 1]
    n_owned = 2 * rows
    ids = [{r: np.arange(r * n_owned, (r + 1) * n_owned) for r in range(int(np.prod(grid)))}]
    size = len(ids[0])
    pulses: list[Pulse] = []
    send_rows: list[NDArray[np.int64]] = []
    ghosts = 0
    for place, dim in enumerate(dims):
        forwarded = [n_owned + k * rows + np.arange(0, rows, 4) for k in range(place)]
        chosen = np.concatenate([np.empty(0, np.int64), *forwarded])
        chosen = np.concatenate([np.arange(rows - len(chosen)) * 2 % n_owned, chosen]).astype(np.int64)
        lower, upper = _neighbour(grid, rank, dim, -1), _neighbour(grid, rank, dim, 1)
        depends = dependencies(chosen, n_owned, [rows] * place)
        start = n_owned + ghosts
        pulses.append(Pulse(dim, lower, upper, chosen.astype(np.int32), start, rows, start, depends))
        send_rows.append(chosen)
        ids.append({r: _local(ids, _neighbour(grid, r, dim, 1))[chosen] for r in range(size)})
        ghosts += rows
    plan = HaloPlan(rank, size, n_owned, n_owned + ghosts, tuple(pulses), "staged")
    return plan, _local(ids, rank)


def _local(ids: Sequence[dict[int, NDArray[np.int64]]], rank: int) -> NDArray[np.int64]:
    return np.concatenate([part[rank] for part in ids])


def _neighbour(grid: Sequence[int], rank: int, dim: int, step: int) -> int:
    place = list(np.unravel_index(rank, tuple(grid)))
    place[dim] = (place[dim] + step) % grid[dim]
    return int(np.ravel_multi_index(place, tuple(grid)))
