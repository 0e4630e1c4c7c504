"""Ranks that only plan: threads of this process that hand each other what they have by reference.

A transport would copy every message and let waiting ranks poll, which hundreds of threads on a few cores cannot afford.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pulsemd.base.errors import DomainError
from pulsemd.halo import Transport

T = TypeVar("T")


class PlanningRank:
    """The control plane of one rank, as far as planning a halo needs it.

    Parameters
    ----------
    rank, size : int
    barrier : threading.Barrier
        Of all ranks.
    shelf : list
        Of all ranks: what each hands to the others.
    """

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, shelf: list[Any]) -> None:
        self.rank, self.size = rank, size
        self._barrier, self._shelf = barrier, shelf

    def allgather(self, value: Any) -> list[Any]:
        """What every rank gave, by rank; not to be changed, as all ranks hold the same objects."""
        self._shelf[self.rank] = value
        self._barrier.wait()
        found = list(self._shelf)
        self._barrier.wait()
        return found

    def alltoall(self, parts: list[Any]) -> list[Any]:
        """What every rank gave for this one, by rank."""
        return [given[self.rank] for given in self.allgather(parts)]


def on_all_ranks(size: int, work: Callable[[Transport], T]) -> list[T]:
    """The result of ``work(transport)`` of every rank, which may use what `PlanningRank` has.

    Raises
    ------
    DomainError
        If there are more ranks than this machine starts threads.
    Exception
        What a rank met, of the lowest rank that met something itself.
    """
    barrier, shelf = threading.Barrier(size), [None] * size
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def run(rank: int) -> None:
        try:
            results[rank] = work(cast(Transport, PlanningRank(rank, size, barrier, shelf)))
        except threading.BrokenBarrierError:
            return  # another rank has the cause
        except BaseException as error:
            errors[rank] = error
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        barrier.abort()  # those that wait for the others end
        raise DomainError(
            f"{size} ranks are planned by as many threads, and the machine starts no more; use fewer"
        ) from error
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[rank] for rank in range(size)]
