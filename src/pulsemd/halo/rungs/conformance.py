"""The conformance suite on GPUs: ``python -m pulsemd.halo.conformance --device cuda --transport nccl --ranks 8``.

First the suite of the CPU transports, case by case: each plan-rank runs it in a thread of its own, and arrays travel to
the GPU and back around every exchange. Then storms: many exchanges in stream order without the host looking, with
delays on the device between them, checked on the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from queue import Queue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pulsemd.base.errors import TransportError
from pulsemd.halo.conformance import GRID_CASES, ConformanceError, conform, rank_grids
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.transport import Transport

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

_TURNS = 24
_STEP = 4096
_DELAY_US = 200
_STORMS = list(product((("int32", 4), ("float32", 3), ("int64", 4)), (False, True)))


def conform_on_gpu(transport: GpuTransport, options: dict[str, Any]) -> int:
    """The whole suite in one GPU process; collective. The number of cases."""
    cases = Conductor(transport).run(lambda rank: conform(rank, options))
    storms = 0
    for grid in rank_grids(transport.size, options["thorough"]):
        for number, case in enumerate(GRID_CASES):
            pairs = [case.plan(grid, rank) for rank in transport.ranks]
            chosen = _STORMS if options["thorough"] else [_STORMS[(number + len(grid)) % len(_STORMS)]]
            for kind in chosen:
                storm(transport, pairs, *kind, label=f"{case.name}, grid {grid}")
            storms += len(chosen)
    return cases + storms


def storm(
    transport: GpuTransport,
    pairs: Sequence[tuple[HaloPlan, NDArray[np.int64]]],
    kind: tuple[str, int],
    scattered: bool,
    label: str,
) -> None:
    """Exchange there and back many times without the host looking; raise ConformanceError if a row was ever wrong.

    Parameters
    ----------
    pairs : (K,) sequence of (plan, ids of its local rows)
    kind : (dtype, width)
    scattered : bool
        Rows lie at slots in random order.
    """
    device, xp = transport.device, transport.device.xp
    dtype, width = kind
    random = np.random.default_rng(5 + transport.ranks.start)
    n_local = max(transport.each(lambda k, control: control.allgather(pairs[k][0].n_local))[0])
    capacity = max(1, n_local)
    slots = [
        random.permutation(capacity)[: plan.n_local].astype(np.int32)
        if scattered
        else np.arange(plan.n_local, dtype=np.int32)
        for plan, _ in pairs
    ]
    copies = transport.each(lambda k, control: _copies(control, *pairs[k]))
    array = transport.allocate("storm", capacity, width, dtype)
    channel = transport.channel([plan for plan, _ in pairs], array, slots if scattered else None)
    with device.current():
        places = [xp.asarray(own) for own in slots]
        values = [xp.asarray(8 * ids[:, None] + np.arange(width)).astype(dtype) for _, ids in pairs]
        times = [xp.asarray(1 + n[:, None]).astype(dtype) for n in copies]
        wrong = xp.zeros(2, np.int64)
        delays = random.integers(0, 4, _TURNS)
        for turn in range(_TURNS):
            for k, (plan, _) in enumerate(pairs):
                own = places[k][: plan.n_owned]
                array[k, own] = values[k][: plan.n_owned] + xp.asarray(_STEP * turn, dtype)
            if delays[turn] == 0:
                _delay(device)
            channel.forward()
            for k in range(len(pairs)):
                wrong[0] += (array[k, places[k]] != values[k] + xp.asarray(_STEP * turn, dtype)).sum()
            if delays[turn] == 1:
                _delay(device)
            if turn % 3 == 2:
                continue
            channel.reverse()
            for k, (plan, _) in enumerate(pairs):
                own = places[k][: plan.n_owned]
                expected = (values[k][: plan.n_owned] + xp.asarray(_STEP * turn, dtype)) * times[k]
                wrong[1] += (array[k, own] != expected).sum()
    transport.check()
    found = device.to_host(wrong)
    transport.meet()
    if found.any():
        raise ConformanceError(
            f"conformance of {transport.name}, {label}, {dtype} x {width}, "
            f"{'scattered' if scattered else 'in order'}, ranks {transport.ranks.start} to "
            f"{transport.ranks.stop - 1}: {found[0]} elements wrong after forward, {found[1]} after reverse"
        )


def _copies(control: Transport, plan: HaloPlan, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ghosts of each owned row on all ranks."""
    ghosts = np.concatenate(control.allgather(ids[plan.n_owned :]))
    return np.bincount(ghosts, minlength=int(ids.max(initial=0)) + 1)[ids[: plan.n_owned]]


def _delay(device: Any) -> None:
    """Keep the stream busy for a while."""
    busy = device.xp.empty(1 << 20, np.float32)
    for _ in range(_DELAY_US // 10):
        busy *= 1.0


@dataclass
class _Request:
    """A collective call of one plan-rank, to be made once for all of this process."""

    call: str
    arguments: tuple[Any, ...]
    answer: Queue[Any] = field(default_factory=Queue)


class Conductor:
    """Runs a function of the CPU's transports on all plan-ranks of a GPU process, in threads.

    Calls that concern the GPU are made by the main thread, once all plan-ranks have come to the same call.
    """

    def __init__(self, transport: GpuTransport) -> None:
        self.transport = transport
        self._requests: Queue[tuple[int, Any]] = Queue()
        self._fields: dict[str, tuple[Any, list[NDArray[Any]]]] = {}

    def run(self, function: Callable[[Any], int]) -> int:
        """``function(plan_rank)`` on all; the result of the first."""
        results: dict[int, Any] = {}

        def work(index: int) -> None:
            try:
                self._requests.put((index, ("done", function(PlanRank(self, index)))))
            except BaseException as error:
                self._requests.put((index, ("failed", error)))

        n_local = self.transport.n_local
        for index in range(n_local):
            threading.Thread(target=work, args=(index,), daemon=True).start()
        while len(results) < n_local:
            round_: dict[int, Any] = {}
            while len(round_) + len(results) < n_local:
                index, request = self._requests.get()
                if isinstance(request, _Request):
                    round_[index] = request
                elif request[0] == "failed":
                    raise request[1]
                else:
                    results[index] = request[1]
            if round_:
                self._serve([round_[index] for index in sorted(round_)])
        return int(results[0])

    def ask(self, index: int, call: str, *arguments: Any) -> Any:
        """Called by the plan-ranks' threads: make a call together with the others."""
        request = _Request(call, arguments)
        self._requests.put((index, request))
        answer = request.answer.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _serve(self, requests: list[_Request]) -> None:
        calls = {request.call for request in requests}
        if len(calls) > 1 or len(requests) != self.transport.n_local:
            raise TransportError(f"conformance: plan-ranks make different calls: {sorted(calls)}")
        try:
            answers = getattr(self, f"_{calls.pop()}")([request.arguments for request in requests])
        except TransportError as error:
            answers = [error] * len(requests)
        for request, answer in zip(requests, answers, strict=True):
            request.answer.put(answer)

    def _allocate(self, asked: list[tuple[Any, ...]]) -> list[Any]:
        name, rows, width, dtype = asked[0]
        array = self.transport.allocate(name, rows, width, dtype)
        mirrors = [np.zeros((rows, width), dtype) for _ in asked]
        self._fields[name] = array, mirrors
        return mirrors

    def _channel(self, asked: list[tuple[Any, ...]]) -> list[Any]:
        mirror = asked[0][1]
        array, mirrors = next(pair for pair in self._fields.values() if pair[1][0] is mirror)
        channel = self.transport.channel([plan for plan, _ in asked], array)
        return [(channel, array, mirrors)] * len(asked)

    def _exchange(self, asked: list[tuple[Any, ...]]) -> list[Any]:
        (channel, array, mirrors), step = asked[0][0], asked[0][1]
        device = self.transport.device
        if step.endswith("begin"):
            with device.current():
                array[...] = device.xp.asarray(np.stack(mirrors))
        getattr(channel, step)()
        if step.endswith("end"):
            self.transport.check()
            for mirror, rows in zip(mirrors, device.to_host(array), strict=True):
                mirror[...] = rows
        return [None] * len(asked)

    def _rebind(self, asked: list[tuple[Any, ...]]) -> list[Any]:
        asked[0][0][0].rebind([plan for _, plan in asked])
        return [None] * len(asked)

    def _reduce(self, asked: list[tuple[Any, ...]]) -> list[Any]:
        return [self.transport.reduce(*asked[0])] * len(asked)

    def _sum(self, asked: list[tuple[Any, ...]]) -> list[Any]:
        device = self.transport.device
        values = device.to_device(np.stack([given for _, given in asked]))
        total = asked[0][0].sum(values)
        self.transport.check()
        return list(device.to_host(total))


class PlanRank:
    """One plan-rank of a GPU process, as a transport for the CPU's suite; arrays are mirrors on the host."""

    def __init__(self, conductor: Conductor, index: int) -> None:
        self._conductor, self._index = conductor, index
        transport = conductor.transport
        self._control = transport.controls[index]
        self.name, self.path = transport.name, transport.path
        self.rank, self.size = self._control.rank, self._control.size
        for call in ("barrier", "broadcast", "allgather", "alltoall", "agree"):
            setattr(self, call, getattr(self._control, call))

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> Any:
        """See `Transport`."""
        return self._conductor.ask(self._index, "allocate", name, rows, width, np.dtype(dtype))

    def channel(self, plan: HaloPlan, array: Any) -> Any:
        """See `Transport`."""
        return _MirrorChannel(self._conductor, self._index, plan, array)

    def reduce(self, width: int, dtype: DTypeLike) -> Any:
        """See `Transport`."""
        made = self._conductor.ask(self._index, "reduce", width, np.dtype(dtype))
        return _MirrorReduce(self._conductor, self._index, made)


class _MirrorChannel:
    def __init__(self, conductor: Conductor, index: int, plan: HaloPlan, array: Any) -> None:
        self._ask = conductor.ask
        self._index, self.plan = index, plan
        self._made = self._ask(index, "channel", plan, array)

    def rebind(self, plan: HaloPlan) -> None:
        self._ask(self._index, "rebind", self._made, plan)
        self.plan = plan

    def _step(self, step: str) -> None:
        self._ask(self._index, "exchange", self._made, step)

    def forward_begin(self) -> None:
        self._step("forward_begin")

    def forward_end(self) -> None:
        self._step("forward_end")

    def reverse_begin(self) -> None:
        self._step("reverse_begin")

    def reverse_end(self) -> None:
        self._step("reverse_end")

    def release(self) -> None:
        self._step("release")

    def forward(self) -> None:
        self.forward_begin()
        self.forward_end()

    def reverse(self) -> None:
        self.reverse_begin()
        self.reverse_end()


class _MirrorReduce:
    def __init__(self, conductor: Conductor, index: int, made: Any) -> None:
        self._conductor, self._index, self._made = conductor, index, made

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        total: NDArray[Any] = self._conductor.ask(self._index, "sum", self._made, np.asarray(values))
        return total
