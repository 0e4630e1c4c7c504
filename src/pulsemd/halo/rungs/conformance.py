"""The conformance suite on GPUs: ``python -m pulsemd.halo.conformance --device cuda --transport nccl --ranks 8``.

First the suite of the CPU transports, case by case: each plan-rank runs it in a thread of its own, and arrays travel to
the GPU and back around every exchange. Then storms: many exchanges in stream order without the host looking, with
delays on the device between them, checked on the device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import PeerError, TransportError
from pulsemd.halo.conformance import GRID_CASES, ConformanceError, conform, rank_grids
from pulsemd.halo.device.ranks import run_ranks
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.rungs.ladder import open_rung
from pulsemd.halo.transport import Transport

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport
    from pulsemd.halo.rungs.world import GpuWorld

Suites = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Of each name the rung, and how it is opened."""

_TURNS = 24
_STEP = 4096
_DELAY_US = 200
_STORMS = list(product((("int32", 4), ("float32", 3), ("int64", 4)), (False, True)))


def conform_on_rungs(world: GpuWorld, options: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """One suite after the other in one start of the processes; a target of `pulsemd.halo.launch_gpus`.

    Parameters
    ----------
    options : dict
        ``suites``: `Suites`; the others as in `conform_on_gpu`.

    Returns
    -------
    dict
        For each suite the number of cases that passed, and the path; 0 and why if its rung cannot be used here.
        Process 0 says so at once, too.
    """
    found: dict[str, tuple[int, str]] = {}
    suites: Suites = options["suites"]
    begin = time.monotonic()
    for name, (rung, how) in suites.items():
        try:
            transport = open_rung(world, rung, **how)
        except TransportError as error:
            if isinstance(error, PeerError):
                raise
            found[name] = 0, f"failed: {error}"
        else:
            with transport:
                found[name] = conform_on_gpu(transport, options), transport.path
        if world.process == 0:
            count, path = found[name]
            said = f"{time.monotonic() - begin:5.1f} s: {name}: {count} cases passed ({path})"
            print(said, file=sys.stderr, flush=True)
    return found


def conform_on_gpu(transport: GpuTransport, options: dict[str, Any]) -> int:
    """The whole suite in one GPU process; collective. The number of cases."""
    cases = int(run_ranks([transport], conform, options))
    storms = 0
    for grid in rank_grids(transport.size, options["thorough"], options.get("brief", False)):
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
    with device.current():
        wrong = xp.zeros(2, np.int64)
        ranks = [
            _StormRank(xp, array[k], plan, ids, slots[k], copies[k]) for k, (plan, ids) in enumerate(pairs)
        ]
        for rank in ranks:  # compiles and loads, which must not happen while the device waits for a peer
            rank.set_owned(0)
            wrong[0] += rank.count_forward(0)
            wrong[1] += rank.count_reverse(0)
        _delay(xp)
        wrong[...] = 0
        channel = transport.channel([plan for plan, _ in pairs], array, slots if scattered else None)
        delays = random.integers(0, 4, _TURNS)
        for turn in range(_TURNS):
            for rank in ranks:
                rank.set_owned(turn)
            if delays[turn] == 0:
                _delay(xp)
            channel.forward()
            for rank in ranks:
                wrong[0] += rank.count_forward(turn)
            if delays[turn] == 1:
                _delay(xp)
            if turn % 3 != 2:
                channel.reverse()
                for rank in ranks:
                    wrong[1] += rank.count_reverse(turn)
    transport.check()
    found = device.to_host(wrong)
    transport.meet()
    if found.any():
        raise ConformanceError(
            f"conformance of {transport.name}, {label}, {dtype} x {width}, "
            f"{'scattered' if scattered else 'in order'}, ranks {transport.ranks.start} to "
            f"{transport.ranks.stop - 1}: {found[0]} elements wrong after forward, {found[1]} after reverse"
        )


class _StormRank:
    """Rows of one plan-rank in a storm, and what they should be; everything on the device, in stream order."""

    def __init__(
        self,
        xp: Any,
        rows: Any,
        plan: HaloPlan,
        ids: NDArray[np.int64],
        slots: NDArray[np.int32],
        copies: NDArray[np.int64],
    ) -> None:
        self._rows, self._step = rows, xp.asarray(_STEP, rows.dtype)
        self._slots, self._owned = xp.asarray(slots), xp.asarray(slots[: plan.n_owned])
        self._values = xp.asarray(8 * ids[:, None] + np.arange(rows.shape[1])).astype(rows.dtype)
        self._own_values = self._values[: plan.n_owned]
        self._times = xp.asarray(1 + copies[:, None]).astype(rows.dtype)

    def set_owned(self, turn: int) -> None:
        self._rows[self._owned] = self._own_values + self._step * turn

    def count_forward(self, turn: int) -> Any:
        return (self._rows[self._slots] != self._values + self._step * turn).sum()

    def count_reverse(self, turn: int) -> Any:
        expected = (self._own_values + self._step * turn) * self._times
        return (self._rows[self._owned] != expected).sum()


def _copies(control: Transport, plan: HaloPlan, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ghosts of each owned row on all ranks."""
    ghosts = np.concatenate(control.allgather(ids[plan.n_owned :]))
    return np.bincount(ghosts, minlength=int(ids.max(initial=0)) + 1)[ids[: plan.n_owned]]


def _delay(xp: Any) -> None:
    """Keep the stream busy for a while."""
    busy = xp.empty(1 << 20, np.float32)
    for _ in range(_DELAY_US // 10):
        busy *= 1.0
