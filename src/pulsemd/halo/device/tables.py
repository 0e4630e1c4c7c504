"""Plans of the local plan-ranks as tables that the exchange kernels read; layouts as in exchange.cuh, reverse.cu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo.device.region import Region
from pulsemd.halo.device.routes import Routes
from pulsemd.halo.faults import WAITS, Fault
from pulsemd.halo.plan import N_SEND

ARRIVAL, CREDIT, REVERSE_ARRIVAL, REVERSE_CREDIT, SCATTERED, REVERSE_PUT = range(6)
WORD_KINDS: Final = 6
MOST_PARTS: Final = 64
"""Words of a signal, so most blocks of a message."""
PARTS_BYTES: Final = 8 * MOST_PARTS
SIGNAL_BYTES: Final = 128
"""From one signal that is a single word to the next, see arrival.cuh."""

_BY_STORES, _SAME_GPU = -1, -2
_WORDS: Final = ("target", "put_target", "put_bytes", "signal", "credit", "landing", "target_half")
_NUMBERS: Final = (
    *("signal_process", "credit_process", "begin", "end", "group_begin", "group_end"),
    *("add_begin", "add_end", "scatter_begin", "scatter_end", "delay", "skip"),
)
MESSAGE: Final = np.dtype(
    [(name, np.int64) for name in _WORDS]
    + [(name, np.int32) for name in _NUMBERS]
    + [("unused", np.int32, (6,))]
)
ITEM: Final = np.dtype(
    [(name, np.int32) for name in ("slot", "target", "begin", "end")]
    + [(name, np.int64) for name in ("first", "unused")]
)
_GROUP: Final = 4


@dataclass(frozen=True, eq=False)
class Memory:
    """Where rows, signals and buffers of a channel lie.

    Attributes
    ----------
    field, signals : Region
    buffers : dict of str to Region
        'landing' and 'staging' of forward puts; 'back_landing' (two halves) and 'back_staging' (likewise).
    row_bytes, slots : int
        Bytes of a row; pulses that there are signals for.
    half : int
        Bytes of half a buffer of the reverse exchange.
    first_rank, n_local : int
    direct : (K, size) bool
        Whether a local plan-rank and another rank exchange by loads and stores.
    """

    field: Region
    signals: Region
    buffers: dict[str, Region]
    row_bytes: int
    slots: int
    half: int
    first_rank: int
    n_local: int
    direct: NDArray[np.bool_]

    def word(self, local: int, rank: int, kind: int, pulse: int) -> tuple[int, int]:
        """Address of a signal word of ``rank`` as a local plan-rank stores to it, and the process (or by a store)."""
        offset = (kind * self.slots + pulse) * PARTS_BYTES
        if self.direct[local, rank]:
            here = rank // self.n_local == self.first_rank // self.n_local
            return self.signals.address(rank) + offset, _SAME_GPU if here else _BY_STORES
        return self.signals.address(rank, put=True) + offset, rank // self.n_local


@dataclass(frozen=True, eq=False)
class HostTables:
    """Tables of one direction; all are flat, and indices run over all local plan-ranks.

    Attributes
    ----------
    messages : (K, slots) MESSAGE
    groups : (n, 4) int32
        First item and end, first wait and end.
    waits : (n,) int32
        Word kind * slots + pulse.
    items : (n, 2) int32, slot here and at the peer; or (n,) ITEM for the reverse exchange
    more : (n,) int64 addresses of rows to add; or (n,) int32 slots of ghost rows for the forward exchange
    """

    messages: NDArray[Any]
    groups: NDArray[np.int32]
    waits: NDArray[np.int32]
    items: NDArray[Any]
    more: NDArray[Any]


class _Lists:
    """Groups, waits and items while they are collected."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.groups: list[tuple[int, int, int, int]] = []
        self.waits: list[int] = []
        self.items: list[NDArray[Any]] = []
        self.n_items = 0

    def add_items(self, items: NDArray[Any]) -> tuple[int, int]:
        """Append items; where they begin and end."""
        self.items.append(items)
        self.n_items += len(items)
        return self.n_items - len(items), self.n_items

    def add_group(self, items: NDArray[Any], kinds_and_pulses: Sequence[tuple[int, int]]) -> None:
        """Append items that wait for signal words."""
        begin = len(self.waits)
        self.waits += [kind * self._slots + pulse for kind, pulse in kinds_and_pulses]
        self.groups.append((*self.add_items(items), begin, len(self.waits)))

    def tables(self, messages: NDArray[Any], none: NDArray[Any], more: NDArray[Any]) -> HostTables:
        """All of it as arrays; ``none``: no items, of the right dtype."""
        return HostTables(
            messages,
            np.array(self.groups, np.int32).reshape(-1, _GROUP),
            np.array(self.waits, np.int32),
            np.concatenate([none, *self.items]),
            more,
        )


def _empty_messages(memory: Memory, faults: Sequence[Sequence[Fault]]) -> NDArray[Any]:
    """Messages with nothing but their injected faults."""
    messages = np.zeros((memory.n_local, memory.slots), MESSAGE)
    for row, concerned in zip(messages, faults, strict=True):
        for fault in concerned:
            if fault.kind == "delay":
                row["delay"][fault.pulses()] = 1000 * fault.us
            elif fault.kind == "skip":
                row["skip"][fault.pulses()] |= 1 << WAITS.index(fault.wait)
    return messages


def forward_tables(routes: Routes, memory: Memory, faults: Sequence[Sequence[Fault]]) -> HostTables:
    """Tables of the forward exchange.

    Parameters
    ----------
    routes : Routes
    memory : Memory
    faults : (K,) sequence of sequences of Fault
        Those that concern this channel on each local plan-rank.
    """
    messages = _empty_messages(memory, faults)
    lists, ghosts, n_ghosts = _Lists(memory.slots), [np.empty(0, np.int32)], 0
    for k, plan in enumerate(routes.plans):
        puts_before = 0
        stored = [bool(memory.direct[k, pulse.recv_rank]) for pulse in plan.pulses]
        for p, pulse in enumerate(plan.pulses):
            message, peer, source = messages[k, p], pulse.send_rank, pulse.recv_rank
            direct = memory.direct[k, peer]
            items = np.empty((pulse.n_send, 2), np.int32)
            items[:, 0] = routes.slots[k][pulse.send_rows]
            items[:, 1] = routes.there[k][p] if direct else np.arange(pulse.n_send)
            if direct:
                message["target"] = memory.field.address(peer)
            else:
                message["target"] = memory.buffers["staging"].own(k) + puts_before * memory.row_bytes
                place = pulse.remote_start - routes.n_owned(peer)
                landing = memory.buffers["landing"].address(peer, put=True)
                message["put_target"] = landing + place * memory.row_bytes
                message["put_bytes"] = pulse.n_send * memory.row_bytes
            puts_before += pulse.n_send
            if not stored[p]:
                place = pulse.recv_start - plan.n_owned
                message["landing"] = memory.buffers["landing"].own(k) + place * memory.row_bytes
                begin = n_ghosts + place
                message["scatter_begin"], message["scatter_end"] = begin, begin + pulse.n_recv
            message["signal"], message["signal_process"] = memory.word(k, peer, ARRIVAL, p)
            message["credit"], message["credit_process"] = memory.word(k, source, CREDIT, p)
            _add_forward_groups(
                lists, message, items, pulse.depends, [memory.direct[k, q.recv_rank] for q in plan.pulses]
            )
        ghosts.append(routes.slots[k][plan.n_owned :])
        n_ghosts += plan.n_local - plan.n_owned
    return lists.tables(messages, np.empty((0, 2), np.int32), np.concatenate(ghosts))


def _add_forward_groups(
    lists: _Lists, message: Any, items: NDArray[np.int32], depends: NDArray[np.int32], stored: Sequence[bool]
) -> None:
    """Items of a message: owned rows, then forwarded ones grouped by the pulse that brings them."""
    message["begin"], message["end"] = lists.add_items(items[depends < 0])
    message["group_begin"] = len(lists.groups)
    for source in np.unique(depends[depends >= 0]):
        kind = ARRIVAL if stored[source] else SCATTERED
        lists.add_group(items[depends == source], [(kind, int(source))])
    message["group_end"] = len(lists.groups)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What is added to the rows of a plan-rank: sorted by row, within a row last pulse first.

    Attributes
    ----------
    rows : (n,) int64
        Rows that something is added to, ascending.
    begin, end : (n,) int64
        Where in ``addresses`` what is added to each is listed.
    pulses, addresses : (m,) int64
    kinds : (pulses,) list of int
        Words that announce what comes back by each pulse.
    """

    rows: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    pulses: NDArray[np.int64]
    addresses: NDArray[np.int64]
    kinds: list[int]


def _sums(routes: Routes, memory: Memory, local: int, way: str) -> _Sums:
    """Rows of a plan-rank that come back from its peers."""
    plan = routes.plans[local]
    none = np.empty(0, np.int64)
    rows, pulses, addresses = [none], [none], [none]
    places = np.cumsum([0, *(pulse.n_send for pulse in plan.pulses)])
    for p in reversed(range(len(plan.pulses))):
        pulse = plan.pulses[p]
        rows.append(pulse.send_rows.astype(np.int64))
        pulses.append(np.full(pulse.n_send, p))
        if way == "pull":
            start, offsets = memory.field.address(pulse.send_rank), routes.there[local][p].astype(np.int64)
        else:
            start = memory.buffers["back_landing"].own(local) if way == "land" else 0
            offsets = places[p] + np.arange(pulse.n_send)
        addresses.append(start + offsets * memory.row_bytes)
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    unique, begin, count = np.unique(row[order], return_index=True, return_counts=True)
    kinds = [_back_kind(memory, local, pulse.send_rank) for pulse in plan.pulses]
    return _Sums(
        unique, begin, begin + count, np.concatenate(pulses)[order], np.concatenate(addresses)[order], kinds
    )


def _back_kind(memory: Memory, local: int, peer: int) -> int:
    return REVERSE_ARRIVAL if memory.direct[local, peer] else REVERSE_PUT


def reverse_tables(routes: Routes, memory: Memory, faults: Sequence[Sequence[Fault]], way: str) -> HostTables:
    """Tables of the reverse exchange; ``way``: see reverse.cu, other arguments as for `forward_tables`."""
    messages = _empty_messages(memory, faults)
    lists, addresses, n_addresses = _Lists(memory.slots), [np.empty(0, np.int64)], 0
    starts = np.cumsum(routes.tables[:, :, N_SEND], axis=1) - routes.tables[:, :, N_SEND]
    for k, plan in enumerate(routes.plans):
        sums = _sums(routes, memory, k, way)
        for p, pulse in enumerate(plan.pulses):
            message, owner = messages[k, p], pulse.recv_rank
            _set_back_target(
                message, memory, k, owner, way, pulse.recv_start - plan.n_owned, int(starts[owner, p])
            )
            message["put_bytes"] = pulse.n_recv * memory.row_bytes
            kind = _back_kind(memory, k, owner)
            message["signal"], message["signal_process"] = memory.word(k, owner, kind, p)
            message["credit"], message["credit_process"] = memory.word(k, pulse.send_rank, REVERSE_CREDIT, p)
            targets = routes.back[k][p] if way == "push" else np.arange(pulse.n_recv)
            _add_back_groups(lists, message, routes.slots[k], pulse.recv_start, targets, sums, n_addresses)
        _add_sum_groups(lists, messages[k], routes.slots[k], plan.n_owned, sums, n_addresses, way)
        addresses.append(sums.addresses)
        n_addresses += len(sums.addresses)
    return lists.tables(messages, np.empty(0, ITEM), np.concatenate(addresses))


def _set_back_target(
    message: Any, memory: Memory, local: int, owner: int, way: str, ghost: int, place: int
) -> None:
    """Where a message of ghost rows from ghost number ``ghost`` on goes: row ``place`` of the owner's landing rows."""
    if way == "push":
        message["target"] = memory.field.address(owner)
    elif way == "land":
        message["target_half"] = memory.half
        landing = memory.buffers["back_landing"]
        if memory.direct[local, owner]:
            message["target"] = landing.address(owner) + place * memory.row_bytes
        else:
            message["target"] = memory.buffers["back_staging"].own(local) + ghost * memory.row_bytes
            message["put_target"] = landing.address(owner, put=True) + place * memory.row_bytes


def _items(
    slots: NDArray[np.int32], rows: NDArray[np.int64], targets: NDArray[Any], sums: _Sums, first_address: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Items of rows, and for each the number of the row in ``sums``, -1 where nothing is added."""
    items = np.zeros(len(rows), ITEM)
    items["slot"], items["target"] = slots[rows], targets
    if len(sums.rows) == 0:
        return items, np.full(len(rows), -1)
    found = np.minimum(np.searchsorted(sums.rows, rows), len(sums.rows) - 1)
    index = np.where(sums.rows[found] == rows, found, -1)
    listed = index >= 0
    at = index[listed]
    items["first"][listed] = sums.addresses[sums.begin[at]]
    items["begin"][listed] = first_address + sums.begin[at] + 1
    items["end"][listed] = first_address + sums.end[at]
    return items, index


def _pulses_of(sums: _Sums, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """All pulses that bring something for the rows numbered ``index``, ascending."""
    marks = np.zeros(len(sums.pulses) + 1, np.int64)
    np.add.at(marks, sums.begin[index], 1)
    np.add.at(marks, sums.end[index], -1)
    return np.unique(sums.pulses[np.cumsum(marks[:-1]) > 0])


def _add_back_groups(
    lists: _Lists,
    message: Any,
    slots: NDArray[np.int32],
    start: int,
    targets: NDArray[Any],
    sums: _Sums,
    first_address: int,
) -> None:
    """Ghost rows of a message: those that were forwarded to nobody, then by the last of the pulses they wait for."""
    rows = np.arange(start, start + len(targets))
    items, index = _items(slots, rows, targets, sums, first_address)
    message["begin"], message["end"] = lists.add_items(items[index < 0])
    message["group_begin"] = len(lists.groups)
    _add_by_pulse(lists, items[index >= 0], index[index >= 0], sums)
    message["group_end"] = len(lists.groups)


def _add_by_pulse(
    lists: _Lists, items: NDArray[Any], index: NDArray[np.int64], sums: _Sums
) -> dict[int, int]:
    """Groups of items by the lowest pulse that they wait for, highest first; the group of each pulse."""
    lowest = sums.pulses[sums.end[index] - 1]
    groups = {}
    for pulse in np.unique(lowest)[::-1]:
        chosen = lowest == pulse
        groups[int(pulse)] = len(lists.groups)
        waits = [(sums.kinds[p], int(p)) for p in _pulses_of(sums, index[chosen])]
        lists.add_group(items[chosen], waits)
    return groups


def _add_sum_groups(
    lists: _Lists,
    messages: NDArray[Any],
    slots: NDArray[np.int32],
    n_owned: int,
    sums: _Sums,
    first_address: int,
    way: str,
) -> None:
    """Owned rows to add to: each with the lowest of the pulses that it waits for, whose rows come last."""
    if way == "push":
        return
    rows = sums.rows[sums.rows < n_owned]
    items, index = _items(slots, rows, np.zeros(len(rows)), sums, first_address)
    for pulse, group in _add_by_pulse(lists, items, index, sums).items():
        messages[pulse]["add_begin"], messages[pulse]["add_end"] = group, group + 1
