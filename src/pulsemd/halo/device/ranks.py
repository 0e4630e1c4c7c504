"""Each plan-rank of a GPU process as a `Transport` of its own, with its rows on the host: how a GPU rung runs programs
written for one rank, above all the conformance suite.

Fields are host arrays. An exchange copies the rows of all plan-ranks of the process to the device, launches once for
all of them, and copies them back at its end. Rows lie in shuffled slots, so that places are exercised too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pulsemd.base.errors import TransportError
from pulsemd.halo.device.transport import GpuTransport
from pulsemd.halo.plan import HaloPlan

_SPARE: Final = 5
_SEED: Final = 71


class _Team:
    """The threads of a process's plan-ranks: they meet, and the first of them acts for all."""

    def __init__(self, n: int) -> None:
        self._barrier = threading.Barrier(n)
        self._given: list[Any] = [None] * n
        self._answer: Any = None

    def act(self, local: int, given: Any, function: Callable[[list[Any]], Any]) -> Any:
        """``function`` of what all threads gave, called by the first; every thread gets its result or its error."""
        self._given[local] = given
        self._barrier.wait()
        if local == 0:
            try:
                self._answer = (function(list(self._given)), None)
            except BaseException as error:
                self._answer = (None, error)
        self._barrier.wait()
        result, failure = self._answer  # replaced only after all have come back here with their next call
        if failure is not None:
            raise failure
        return result

    def break_up(self) -> None:
        """Make everybody who waits stop."""
        self._barrier.abort()


class RankTransport:
    """One plan-rank of a `GpuTransport`, used by a thread of its own; see `pulsemd.halo.transport.Transport`."""

    def __init__(self, transport: GpuTransport, local: int, team: _Team) -> None:
        self._transport, self._local, self._team = transport, local, team
        self._control = transport.controls[local]
        self.name, self.path, self.size = transport.name, transport.path, transport.size
        self.rank = transport.ranks[local]
        self.barrier, self.broadcast = self._control.barrier, self._control.broadcast
        self.allgather, self.alltoall = self._control.allgather, self._control.alltoall
        self.agree = self._control.agree
        self._fields: list[tuple[NDArray[Any], Any]] = []

    def act(self, given: Any, function: Callable[[list[Any]], Any]) -> Any:
        """See `_Team.act`."""
        return self._team.act(self._local, given, function)

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> NDArray[Any]:
        def make(_: Any) -> Any:
            self._transport.free_replaced()
            return self._transport.allocate(name, rows + _SPARE, width, dtype)

        device = self.act(None, make)
        host: NDArray[Any] = np.zeros((rows, width), dtype)
        self._fields.append((host, device))
        return host

    def channel(self, plan: HaloPlan, array: NDArray[Any]) -> RankChannel:
        device = next(device for host, device in self._fields if host is array)
        return RankChannel(self, self._transport, self._local, plan, array, device)

    def reduce(self, width: int, dtype: DTypeLike) -> RankReduce:
        return RankReduce(self, self._transport, self._local, width, dtype)


class RankChannel:
    """Channel of one plan-rank; see `pulsemd.halo.transport.Channel`."""

    def __init__(
        self,
        rank: RankTransport,
        transport: GpuTransport,
        local: int,
        plan: HaloPlan,
        host: NDArray[Any],
        device: Any,
    ) -> None:
        self._rank, self._transport, self._local = rank, transport, local
        self._host, self._array = host, device
        self._random = np.random.default_rng((_SEED, rank.rank))
        self._channel: Any = None
        self.rebind(plan)

    def rebind(self, plan: HaloPlan) -> None:
        self.plan = plan
        slots = self._random.permutation(self._array.shape[1])[: plan.n_local].astype(np.int32)

        def bind(given: list[Any]) -> tuple[Any, list[NDArray[np.int32]]]:
            plans, places = [plan for plan, _ in given], [slots for _, slots in given]
            if self._channel is None:
                return self._transport.channel(plans, self._array, places), places
            self._channel.rebind(plans, places)
            return self._channel, places

        self._channel, self._slots = self._rank.act((plan, slots), bind)

    def _upload(self, rows: Sequence[NDArray[Any]]) -> None:
        """Give the first rows of every plan-rank to the device."""
        device, capacity = self._transport.device, self._array.shape[1]
        places = [
            k * capacity + slots[: len(own)]
            for k, (own, slots) in enumerate(zip(rows, self._slots, strict=True))
        ]
        with device.current():
            flat = self._array.reshape(-1, self._array.shape[2])
            flat[device.xp.asarray(np.concatenate(places))] = device.xp.asarray(np.concatenate(rows))

    def _download(self, hosts: Sequence[tuple[NDArray[Any], HaloPlan]]) -> None:
        self._transport.check()
        rows = self._transport.device.to_host(self._array)
        for local, (host, plan) in enumerate(hosts):
            host[: plan.n_local] = rows[local][self._slots[local]]

    def _begin(self, n_rows: int, begin: Callable[[], None]) -> None:
        def run(rows: list[Any]) -> None:
            self._upload(rows)
            begin()

        self._rank.act(np.array(self._host[:n_rows]), run)

    def _end(self, end: Callable[[], None]) -> None:
        def run(hosts: list[Any]) -> None:
            end()
            self._download(hosts)

        self._rank.act((self._host, self.plan), run)

    def forward_begin(self) -> None:
        self._begin(self.plan.n_owned, self._channel.forward_begin)

    def forward_end(self) -> None:
        self._end(self._channel.forward_end)

    def forward(self) -> None:
        self.forward_begin()
        self.forward_end()

    def release(self) -> None:
        self._rank.act(None, lambda _: self._channel.release())

    def reverse_begin(self) -> None:
        self._begin(self.plan.n_local, self._channel.reverse_begin)

    def reverse_end(self) -> None:
        self._end(self._channel.reverse_end)

    def reverse(self) -> None:
        self.reverse_begin()
        self.reverse_end()


class RankReduce:
    """All-reduce of one plan-rank; see `pulsemd.halo.transport.Reduce`."""

    def __init__(
        self, rank: RankTransport, transport: GpuTransport, local: int, width: int, dtype: DTypeLike
    ) -> None:
        self._rank, self._transport, self._local = rank, transport, local
        self._reduce = rank.act(None, lambda _: transport.reduce(width, dtype))

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        def run(given: list[Any]) -> NDArray[Any]:
            device = self._transport.device
            total = self._reduce.sum(device.to_device(np.stack(given)))
            self._transport.check()
            totals: NDArray[Any] = device.to_host(total)
            return totals

        own: NDArray[Any] = self._rank.act(np.asarray(values), run)[self._local]
        return own


def run_ranks(transports: Sequence[GpuTransport], function: Callable[[Any, Any], Any], payload: Any) -> Any:
    """``function(rank_transport, payload)`` on every plan-rank of the processes that live here; the first result.

    Raises
    ------
    Exception
        The first error that is no consequence of another rank's.
    """
    results: dict[int, Any] = {}
    errors: list[BaseException] = []
    teams = [_Team(transport.n_local) for transport in transports]

    def run(transport: GpuTransport, local: int, team: _Team) -> None:
        rank = RankTransport(transport, local, team)
        try:
            with transport.device.current():
                results[rank.rank] = function(rank, payload)
        except threading.BrokenBarrierError:
            errors.append(TransportError(f"rank {rank.rank} stopped with the others"))
        except BaseException as error:
            errors.insert(0, error)
            team.break_up()

    threads = [
        threading.Thread(target=run, args=(transport, local, team), daemon=True)
        for transport, team in zip(transports, teams, strict=True)
        for local in range(transport.n_local)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results[transports[0].ranks.start]
