"""Tables of the exchange kernels, interpreted on the host message by message: what a GPU would do with them."""

from __future__ import annotations

import ctypes
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from pulsemd.halo.conformance import ONE_PULSE, TWO_PULSES, GridCase
from pulsemd.halo.device.routes import share_routes
from pulsemd.halo.device.tables import (
    ARRIVAL,
    PARTS_BYTES,
    REVERSE_ARRIVAL,
    REVERSE_PUT,
    SCATTERED,
    WORD_KINDS,
    Memory,
    forward_tables,
    reverse_tables,
)
from pulsemd.halo.device.transport import GpuTransport
from pulsemd.halo.plan import N_RECV, N_SEND
from pulsemd.halo.transports.loopback import loopback_world

WIDTH, SPARE = 3, 4
ROW_BYTES = 8 * WIDTH
DIRECT = GridCase("direct", 3, 1, 2, True, "direct")


class HostRegion:
    """A `Region` in host memory; puts and stores use the same addresses."""

    def __init__(self, n_ranks, stride):
        self.stride, self.bytes = stride, np.zeros(n_ranks * stride, np.uint8)

    def address(self, rank, put=False):
        return self.bytes.ctypes.data + rank * self.stride

    own = address


class World:
    """All plan-ranks in one process, bound to plans with rows in shuffled slots."""

    def __init__(self, case, grid, put_ranks=(), way="land"):
        n = int(np.prod(grid))
        pairs = [case.plan(grid, rank) for rank in range(n)]
        self.plans, self.ids = [plan for plan, _ in pairs], [ids for _, ids in pairs]
        capacity = max(plan.n_local for plan in self.plans) + SPARE
        random = np.random.default_rng(3)
        self.slots = [random.permutation(capacity)[: p.n_local].astype(np.int32) for p in self.plans]
        local = SimpleNamespace(
            n_local=n, controls=loopback_world(n), ranks=range(n), memory=SimpleNamespace(process=0)
        )
        local.each = lambda function: GpuTransport.each(local, function)
        self.routes = share_routes(local, self.plans, self.slots, way == "push")
        self.field = HostRegion(n, capacity * ROW_BYTES)
        self.rows = self.field.bytes.view(np.int64).reshape(n, capacity, WIDTH)
        self.n_pulses = self.routes.n_pulses
        self.signals = HostRegion(n, WORD_KINDS * self.n_pulses * PARTS_BYTES)
        most = int(self.routes.tables[:, :, (N_SEND, N_RECV)].sum(axis=1).max()) * ROW_BYTES
        names = ("landing", "staging", "back_landing", "back_staging")
        buffers = {name: HostRegion(n, (1 + name.startswith("back")) * most) for name in names}
        direct = np.array([[a not in put_ranks and b not in put_ranks for b in range(n)] for a in range(n)])
        self.memory = Memory(self.field, self.signals, buffers, ROW_BYTES, self.n_pulses, most, 0, n, direct)
        self.way, self.none = way, [()] * n

    def values(self, rank, turn):
        return self.ids[rank][:, None] * 10 + np.arange(WIDTH) + 1000 * turn

    def set_rows(self, turn, n_rows):
        for rank, plan in enumerate(self.plans):
            end = getattr(plan, n_rows)
            self.rows[rank, self.slots[rank][:end]] = self.values(rank, turn)[:end]

    def word(self, rank, kind, pulse):
        offset = rank * self.signals.stride + (kind * self.n_pulses + pulse) * PARTS_BYTES
        return self.signals.bytes[offset : offset + 8].view(np.int64)

    def wait(self, tables, rank, group, epoch):
        """Every awaited signal must be there: messages are taken in an order in which blocks are scheduled."""
        for word in tables.waits[group[2] : group[3]]:
            assert self.word(rank, *divmod(int(word), self.n_pulses))[0] >= epoch

    def groups(self, tables, rank, message, epoch):
        """Items of a message, group by group."""
        yield tables.items[message["begin"] : message["end"]]
        for group in tables.groups[message["group_begin"] : message["group_end"]]:
            self.wait(tables, rank, group, epoch)
            yield tables.items[group[0] : group[1]]

    def forward(self, tables, epoch):
        for pulse, rank in product(range(self.n_pulses), range(len(self.plans))):
            message = tables.messages[rank, pulse]
            for items in self.groups(tables, rank, message, epoch):
                for slot, target in items:
                    row(message["target"], target)[:] = self.rows[rank, slot]
            self.put(message, 0)
            at(message["signal"], 1)[0] = epoch
            receiver = self.plans[rank].pulses[pulse].send_rank
            self.scatter(tables, receiver, pulse, epoch)

    def scatter(self, tables, rank, pulse, epoch):
        message = tables.messages[rank, pulse]
        assert self.word(rank, ARRIVAL, pulse)[0] == epoch
        if message["landing"]:
            ghosts = tables.more[message["scatter_begin"] : message["scatter_end"]]
            for k, slot in enumerate(ghosts):
                self.rows[rank, slot] = row(message["landing"], k)
            self.word(rank, SCATTERED, pulse)[0] = epoch

    def put(self, message, half):
        if message["put_target"]:
            source, target = int(message["target"]) + half, int(message["put_target"]) + half
            ctypes.memmove(target, source, int(message["put_bytes"]))

    def listed(self, tables, item, half):
        places = [item["first"], *tables.more[item["begin"] : item["end"]]] if item["first"] else []
        return sum((row(int(place) + half, 0) for place in places), np.zeros(WIDTH, np.int64))

    def reverse(self, tables, epoch):
        half = epoch % 2 * self.memory.half if self.way == "land" else 0
        order = list(product(reversed(range(self.n_pulses)), range(len(self.plans))))
        for pulse, rank in order:
            message = tables.messages[rank, pulse]
            for items in self.groups(tables, rank, message, epoch):
                for item in items:
                    self.give_back(tables, rank, message, item, half)
            self.put(message, half)
            at(message["signal"], 1)[0] = epoch
        for pulse, rank in order:
            stored = self.memory.direct[rank, self.plans[rank].pulses[pulse].send_rank]
            assert self.word(rank, REVERSE_ARRIVAL if stored else REVERSE_PUT, pulse)[0] == epoch
            message = tables.messages[rank, pulse]
            for group in tables.groups[message["add_begin"] : message["add_end"]]:
                self.wait(tables, rank, group, epoch)
                for item in tables.items[group[0] : group[1]]:
                    self.rows[rank, item["slot"]] += self.listed(tables, item, half)

    def give_back(self, tables, rank, message, item, half):
        here = self.rows[rank, item["slot"]]
        if self.way == "push":
            row(message["target"], item["target"])[:] += here
        elif self.way == "pull":
            here += self.listed(tables, item, 0)
        else:
            total = here + self.listed(tables, item, half)
            row(int(message["target"]) + half, item["target"])[:] = total


def at(address, n):
    return np.frombuffer((ctypes.c_char * (8 * n)).from_address(int(address)), np.int64)


def row(address, index):
    return at(int(address) + int(index) * ROW_BYTES, WIDTH)


CASES = [(ONE_PULSE, (2, 2, 2)), (TWO_PULSES, (2, 3)), (DIRECT, (2, 2)), (ONE_PULSE, (1,))]
NAMES = ["one pulse", "two pulses", "direct", "own ghosts"]


@pytest.mark.parametrize(("case", "grid"), CASES, ids=NAMES)
@pytest.mark.parametrize("put_ranks", [(), (0,), tuple(range(8))], ids=["stores", "mixed", "puts"])
def test_forward_tables_bring_every_ghost_its_owners_values(case, grid, put_ranks):
    world = World(case, grid, put_ranks)
    tables = forward_tables(world.routes, world.memory, world.none)
    for epoch in (1, 2):
        world.set_rows(epoch, "n_owned")
        world.forward(tables, epoch)
        for rank, slots in enumerate(world.slots):
            assert (world.rows[rank, slots] == world.values(rank, epoch)).all()


@pytest.mark.parametrize(("case", "grid"), CASES, ids=NAMES)
@pytest.mark.parametrize(
    ("way", "put_ranks"),
    [("land", ()), ("land", (0,)), ("land", tuple(range(8))), ("pull", ()), ("push", ())],
)
def test_reverse_tables_add_every_ghost_to_its_owner_once(case, grid, way, put_ranks):
    world = World(case, grid, put_ranks, way)
    tables = reverse_tables(world.routes, world.memory, world.none, way)
    ghosts = np.concatenate([ids[p.n_owned :] for ids, p in zip(world.ids, world.plans, strict=True)])
    for epoch in (1, 2, 3):
        world.set_rows(epoch, "n_local")
        world.reverse(tables, epoch)
        for rank, plan in enumerate(world.plans):
            owned = slice(0, plan.n_owned)
            times = 1 + np.array([np.count_nonzero(ghosts == i) for i in world.ids[rank][owned]])
            found = world.rows[rank, world.slots[rank][owned]]
            assert (found == times[:, None] * world.values(rank, epoch)[owned]).all()


def test_faults_are_noted_in_their_messages():
    from pulsemd.halo.faults import parse_faults

    world = World(ONE_PULSE, (2,))
    faults = [parse_faults("delay pulse=1 us=7; skip wait=credit"), ()]
    messages = forward_tables(world.routes, world.memory, faults).messages
    assert messages["delay"].tolist() == [[0, 7000], [0, 0]]
    assert messages["skip"].tolist() == [[2, 2], [0, 0]]
