"""Searches of the plan-ranks of a GPU process: atoms go to their owners, ghosts to others, pairs are listed.

The first search goes through the host, as on CPUs: it decides how much room everything needs. Where plans are direct
and all ranks are reached by stores, later ones run on the device, and the host only waits for their counters. If
something then comes near the end of its room, the next search goes through the host again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pulsemd.base.errors import DomainError
from pulsemd.device.mirror import Array, Mirror
from pulsemd.domain.atoms import LocalAtoms, UpdateGroups, select_owned
from pulsemd.domain.gpu import DeviceDomains, Room
from pulsemd.domain.grid import Grid
from pulsemd.domain.migrate import migrate
from pulsemd.domain.plan import LocalDomain, build_halo
from pulsemd.engine.gpu_fields import GRAPH_RUNGS, DeviceFields
from pulsemd.engine.gpu_part import DevicePart
from pulsemd.engine.gpu_sums import sum_over_processes
from pulsemd.engine.gpu_verdict import SearchVerdict, check_terms
from pulsemd.engine.local import exclusion_pairs
from pulsemd.engine.options import RunOptions
from pulsemd.engine.rank import GROWTH
from pulsemd.engine.setup import box_margin, device_halo
from pulsemd.engine.system import System, group_reach
from pulsemd.engine.terms import EXCLUSION, TermOwnership
from pulsemd.halo import HaloPlan, Transport
from pulsemd.halo.device.barrier import GpuBarrier
from pulsemd.halo.device.direct import DirectTables
from pulsemd.kernels.nonbonded.exclusions import count_within
from pulsemd.kernels.search.gpu_lists import ListCounts
from pulsemd.schedule.graphs import StepGraphs

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

_FULL = 0.95


class PartSearch:
    """See the module. All calls are collective.

    Parameters
    ----------
    transport : GpuTransport
    system : System
    options : RunOptions
    r_list, r_inner : float, nm
        Cut-offs of the lists; `r_inner` may be None.
    grid : Grid
    terms : TermOwnership
    parts : list of DevicePart
    ghost_stream : stream of the device
        Of the exchanges.

    Attributes
    ----------
    fields : DeviceFields
    counts : list of ListCounts
        Of all lists of this process.
    plan : HaloPlan
        Of the first plan-rank, as the host planned last.
    n_searches, on_device : int
        Searches so far, and those of them without the host.
    cell : Cell
        Of the last search, or of the next one.
    was_usual : bool
        Whether the last complete search was as usual, on all ranks.
    """

    def __init__(
        self,
        transport: GpuTransport,
        system: System,
        options: RunOptions,
        r_list: float,
        r_inner: float | None,
        grid: Grid,
        terms: TermOwnership,
        parts: Sequence[DevicePart],
        ghost_stream: Any,
    ) -> None:
        self.transport, self.system, self.options, self.grid = transport, system, options, grid
        self.device, self._parts, self._terms = transport.device, parts, terms
        self._r_list, self._r_inner, self._ghost_stream = r_list, r_inner, ghost_stream
        self.cell = self._planned_cell = system.cell
        self._wider = box_margin(system.settings)
        self._groups = UpdateGroups(system.topology.group_offset, system.topology.group_atoms)
        self._row_order = np.argsort(self._groups.atoms)
        self.n_searches = self.on_device = self._row_capacity = 0
        direct = options.plan_kind == "direct" and grid.size > 1
        self._may_stay = transport.name in GRAPH_RUNGS and direct and not transport.may_put
        self._barrier = GpuBarrier(transport) if self._may_stay else None
        self._verdict: SearchVerdict | None = None
        if self._may_stay:
            self._verdict = SearchVerdict(transport, parts, self._groups.n_atoms, self._expected_terms)
        kind = np.int64 if options.precision == "reproducible" else np.float32
        self.fields = DeviceFields(transport, system, parts, kind, ghost_stream, self._may_stay)
        self._rigid = system.settings.pcoupl == "no"  # else its constants go to the device at each search
        self._domains: DeviceDomains | None = None
        self._tables: DirectTables | None = None
        self._room = Room(0, 0, 0)
        self._reach = group_reach(system)
        self._mirrored: tuple[Any, ...] = ()
        self._graphs = StepGraphs(self.device)
        self._graph_refers_to: tuple[Any, ...] = ()
        self._host_is_next = False
        self._channel_rows: Any = None
        self._rows: list[Any] = []
        self._under_way: Callable[[], list[Array]] | None = None
        self._is_held = self.was_usual = False
        self._shared: tuple[list[ListCounts], list[int]] | None = None
        self._unread: list[Array] | None = None

    def start(self, extent: float) -> None:
        """The first search; ``extent``: largest distance between two leaders of one term, nm."""
        x, v = self.system.x, self.system.v
        atoms = [select_owned(self.grid, rank, self._groups, x, v) for rank in self.transport.ranks]
        self._settle_in(atoms, [extent] * len(atoms))

    def ahead(self) -> None:
        """Launch a search of the positions that the steps launched so far lead to, if it needs no host."""
        self.catch_up()
        if self._domains is None or self._under_way is not None:
            return
        if self._host_is_next or self._box_has_changed:
            return
        refers_to = self.n_searches - self.on_device, *self.versions
        if refers_to != self._graph_refers_to:
            self._graph_refers_to = refers_to
            self._graphs.clear()
        prune = all(part.pairs.can_prune_ahead for part in self._parts)
        if not (prune and self._rigid) and self._verdict is not None:
            self._verdict.reject()
        if self.options.graph and self._rigid:
            self._graphs.run(prune, 0, partial(self._launch_search, prune))
        else:
            self._launch_search(prune)
        for part in self._parts if prune else ():
            part.pairs.note_pruned()
        self._under_way = self._mirror().take()
        if self._verdict is not None and self._rigid:
            self._is_held = self._verdict.hold()

    @property
    def can_be_followed(self) -> bool:
        """Whether steps may follow the search under way before it is known to be as usual; the same on all ranks."""
        return self._is_held and self.was_usual

    def again(self) -> None:
        """Search with the atoms where they are now; completes what `ahead` began.

        Raises
        ------
        DomainError
            If atoms or terms are lost or counted twice.
        """
        self.ahead()
        if self._under_way is None:
            self._search_on_host()
        elif not self._complete():
            self._search_on_host(ghosts_lack=True)

    @property
    def went_as_usual(self) -> bool:
        """Whether the search under way needs nothing more on any rank, and no rank failed; waits for the device."""
        words = self.words()
        if words is None or self._under_way is None or self._verdict is None:
            return False
        given_up = bool(words[0][0])  # then nothing was summed
        return not given_up and self._verdict.is_usual(self._under_way()[-1])

    def catch_up(self) -> None:
        """Note what the last search found, if that was left for later because it was as usual."""
        if self._unread is not None:
            copies, self._unread = self._unread, None
            lists, _, found = self._finish(copies)
            self._state(found)
            self._note(lists)

    @property
    def is_under_way(self) -> bool:
        """Whether a search was begun by `ahead` and is not complete."""
        return self._under_way is not None

    def counters_of(self, k: int) -> Array | None:
        """Counters of a part in the search under way; waits for the device."""
        self.catch_up()
        counters: Array | None = None if self._under_way is None else self._under_way()[k * self._n_counters]
        return counters

    def words(self) -> list[Array] | None:
        """The error words of the device, `error_words`, after the search under way; waits for the device."""
        if self._under_way is None:
            return None
        start = self._n_counters * len(self._parts) + 1
        return self._under_way()[start : start + len(self.error_words)]

    @property
    def versions(self) -> tuple[Any, ...]:
        """Changes with whatever a recorded graph refers to."""
        return (*(part.version for part in self._parts), *self.fields.versions)

    def verify_masks(self) -> None:
        """The excluded pairs masked in the first lists must be those of the topology within the list cut-off."""
        topology, system = self.system.topology, self.system
        pairs = exclusion_pairs(topology.exclusion_offset, topology.exclusion_atoms)
        expected = count_within(system.x, pairs, system.box, self._r_list)
        (found,) = sum_over_processes(self.transport, [sum(counts.excluded for counts in self.counts)])
        if found != expected:
            raise DomainError(
                f"the pair lists of all ranks hold {found} excluded pairs, the topology {expected}; a pair is lost or "
                "listed twice; please report this"
            )

    # ---- through the host ---------------------------------------------------------------------------------------

    def _search_on_host(self, ghosts_lack: bool = False) -> None:
        """``ghosts_lack``: ranks may not have all atoms of their terms, which have grown longer than the halo."""
        rows, extents = [self._grouped(part.rows()) for part in self._parts], [0.0] * len(self._parts)
        if self._terms.span_groups and ghosts_lack:
            extents = [self._extent_of_all(rows)] * len(self._parts)
        elif self._terms.span_groups:
            self.fields.channel_x.forward()
            self.device.join(self._ghost_stream)
            extents = [self._extent(part) for part in self._parts]

        def move(local: int, control: Transport) -> LocalAtoms:
            return migrate(control, self.grid, self._groups, rows[local])

        self._settle_in(self.transport.each(move), extents)
        self.was_usual = False

    def _extent(self, part: DevicePart) -> float:
        x, slot_of_gid = (self.device.to_host(array) for array in (part.slots.x, part.slots.slot_of_gid))
        return self._terms.extent_in(slot_of_gid, np.ascontiguousarray(x[:, :3]), self.cell.box)

    def _extent_of_all(self, rows: Sequence[LocalAtoms]) -> float:
        """The same of all terms, from the owned rows of all ranks."""
        own = [(atoms.gid, atoms.x) for atoms in rows]
        shares = self.transport.each(lambda local, control: control.allgather(own[local]))[0]
        x = np.empty((self._groups.n_atoms, 3), np.int32)
        for gid, found in shares:
            x[gid] = found
        return self._terms.extent_of_all(x, self.cell.box)

    def _grouped(self, atoms: LocalAtoms) -> LocalAtoms:
        """With update groups in consecutive rows."""
        return atoms.take(np.argsort(self._row_order[atoms.gid]))

    def _settle_in(self, atoms: list[LocalAtoms], extents: list[float]) -> None:
        self._planned_cell = self.cell
        s = self.system.settings
        widths = [device_halo(s, self._r_list, self._reach, extent) for extent in extents]

        def plan(local: int, control: Transport) -> tuple[LocalDomain, list[int]]:
            domain = build_halo(
                control,
                self.grid,
                self._groups,
                atoms[local],
                self.cell.box,
                self._r_list,
                widths[local],
                self.options.plan_kind,
            )
            slots = self._parts[local].slots_needed(domain, self._r_list)
            sent = max((pulse.n_send for pulse in domain.plan.pulses), default=0)
            shares = control.allgather((slots, domain.n_owned, sent))
            return domain, [max(int(share[k]) for share in shares) for k in range(3)]

        planned = self.transport.each(plan)
        domains, (slots, owned, sent) = [domain for domain, _ in planned], planned[0][1]
        plans = [domain.plan for domain in domains]
        self.plan = plans[0]
        if self._may_stay:
            self._room = self._room.enough_for(owned, sent, len(self.plan.pulses), _FULL)
        self._bring_rows(domains, plans)
        grown = self.fields.make_room(max(slots, self._room.owned))
        for part, domain, rows, f in zip(self._parts, domains, self._rows, self.fields.forces, strict=True):
            part.begin_search(domain, rows, self._r_list, self._r_inner, f)
            part.count_terms()
        lists, terms, _ = self._finish(self._mirror().take()())
        places = [part.places_of(domain) for part, domain in zip(self._parts, domains, strict=True)]
        self.fields.bind(plans, places, self._room.most, grown)
        *terms, stale = sum_over_processes(self.transport, [*terms, int(self._grids_are_stale)])
        check_terms(self.n_searches, self._kinds, terms, self._expected_terms)
        self._host_is_next = bool(stale)  # other columns may need more slots than there are
        self._stay_on_device(domains[0].halo_width)
        self._prepare_steps()
        self.n_searches += 1
        self._note(lists)

    def _bring_rows(self, domains: list[LocalDomain], plans: list[HaloPlan]) -> None:
        """Positions of all local rows to the device: owned ones from the host, ghosts from their owners."""
        if domains[0].most_local > self._row_capacity:
            outgrown = self._channel_rows
            self._row_capacity = int(domains[0].most_local * GROWTH) + 64
            rows = self.transport.allocate("rows", self._row_capacity, 4, np.int32)
            self._rows = list(rows)
            self._channel_rows = self.transport.channel(plans, rows, directions="forward")
            if outgrown is not None:
                outgrown.close()
            self.transport.free_replaced()
        else:
            self._channel_rows.rebind(plans)
        for rows, domain in zip(self._rows, domains, strict=True):
            x = np.zeros((domain.n_owned, 4), np.int32)
            x[:, :3] = domain.atoms.x
            rows[: domain.n_owned].set(x, stream=self.device.stream)
        self._channel_rows.forward()

    def _stay_on_device(self, halo_width: float) -> None:
        """Prepare for the next search to run on the device, if it can. Terms that have grown longer than the halo are
        missed in its counts, and the host searches again."""
        if self._domains is not None and self._tables is not None:
            self._domains.close()
            self._tables.close()
            self._domains = self._tables = None
        if not self._may_stay:
            return
        topology, room = self.system.topology, self._room
        self._domains = DeviceDomains(
            self.transport, self.grid, topology.leader, self.cell.box, halo_width, room
        )
        self._most_reach = 0.5 * (halo_width / self._wider - self._r_list)
        plans = self._domains.bind([part.storage for part in self._parts])
        self._tables = DirectTables(self.transport, room.n_pulses, room.most, room.owned, room.n_rows)
        self._tables.bind(plans, self.fields.channel_x, self.fields.channel_f)
        assert self._verdict is not None
        self._verdict.bind(self._domains)

    # ---- on the device ------------------------------------------------------------------------------------------

    def share(self, failed: bool) -> bool:
        """Tell all processes what the search under way found, and whether steps before it failed; True if none did."""
        if self._shared is None:
            assert self._under_way is not None
            self._release()
            lists, terms, found = self._finish(self._under_way())
            fit = [part.pairs.pairs.fits for part in self._parts]  # else atoms found no slot
            arrived = int(np.minimum(found[fit, 0], self._room.owned).sum())  # others were not written
            numbers = [*terms, arrived, *self._state(found), int(failed)]
            self._shared = lists, sum_over_processes(self.transport, numbers)
        return self._shared[1][-1] == 0

    def _complete(self) -> bool:
        """Finish the search under way; False if it has to be repeated through the host."""
        self.was_usual = self.went_as_usual
        if self.was_usual:
            assert self._under_way is not None
            self._unread, self._under_way, self._is_held = self._under_way(), None, False
            self.on_device += 1
            self.n_searches += 1
            return True
        self.share(False)
        assert self._shared is not None
        lists, (*terms, owned, broken, full, _) = self._shared
        self._under_way = self._shared = None
        if owned != self._groups.n_atoms:
            raise DomainError(
                f"search {self.n_searches}: ranks have room for {owned} of {self._groups.n_atoms} atoms; more have "
                "gathered on one than it was prepared for, so the simulation is unstable; minimise, or use a smaller dt"
            )
        self._host_is_next = bool(full)
        if broken or terms != self._expected_terms:
            return False
        self.on_device += 1
        self.n_searches += 1
        self._note(lists)
        if self._verdict is not None:
            room = self._room
            most = (int(_FULL * n) for n in (room.owned, room.most, self.fields.capacity))
            self._verdict.expect(next(most), self._most_reach, *most)
        return True

    def _release(self) -> None:
        """Let steps work again after a search that was not as usual, from what it left."""
        if self._is_held and self._verdict is not None:
            self._verdict.release()
            self._prepare_steps()
            self.device.synchronize()  # graphs that those steps are part of may go
            self._is_held = False

    def _launch_search(self, prune: bool) -> None:
        """All of a search: the same launches each time, until an array is replaced."""
        domains, tables, barrier = self._domains, self._tables, self._barrier
        assert domains is not None
        assert tables is not None
        assert barrier is not None
        self.device.fork(self._ghost_stream)
        for part in self._parts:
            part.set_aside()
        domains.migrate()
        barrier.meet()
        domains.send_ghosts()
        barrier.meet()
        self.device.join(self._ghost_stream)
        for part, inbox, f in zip(self._parts, domains.inboxes, self.fields.forces, strict=True):
            part.begin_search_of(inbox, self._room.owned, self._r_list, self._r_inner, f)
            if prune:
                part.pairs.prune_listed()
        tables.tell()
        domains.empty()
        barrier.meet()
        tables.fill()
        if self.fields.steps is not None:
            self.fields.steps.list_routes()
        for part in self._parts:
            part.count_terms()
        self._prepare_steps()
        for part in self._parts:
            part.pairs.pairs.join()
        assert self._verdict is not None
        self._verdict.launch()

    def _state(self, found: Array) -> tuple[int, int]:
        """Whether anything of a search on the device did not fit, and whether something may not fit at the next."""
        reach = float(found[:, 1].astype(np.int32).view(np.float32).max()) ** 0.5
        self._reach = max(self._reach, reach)
        room = self._room
        sent = found[:, 2:].max(initial=0)
        broken = reach > self._most_reach or sent > room.most
        full = self._grids_are_stale or sent > _FULL * room.most or (found[:, 0] > _FULL * room.owned).any()
        slots = [part.slots.n_slots for part in self._parts]
        return int(broken), int(full or max(slots) > _FULL * self.fields.capacity)

    @property
    def _box_has_changed(self) -> bool:
        """Whether the halos that the host planned last may be too narrow for the box of now, or much too wide."""
        strain = self.cell.strain(self._planned_cell)
        return bool((strain * self._wider < 1.0).any() or (strain > self._wider**2).any())

    @property
    def _grids_are_stale(self) -> bool:
        return any(part.pairs.pairs.grid_is_stale for part in self._parts)

    # ---- both ---------------------------------------------------------------------------------------------------

    def _mirror(self) -> Mirror:
        """What the host reads of a search: counters of each part, `DeviceDomains.found`, error words."""
        words = [word for part in self._parts for word in part.counters]
        self._n_counters = len(self._parts[0].counters)
        if self._domains is not None:
            words.append(self._domains.found)
        words += self.error_words
        if self._verdict is not None:
            words.append(self._verdict.totals)
        key = tuple(word.data.ptr for word in words)
        if key != self._mirrored:
            self._status, self._mirrored = Mirror(self.device, words, 1), key
        return self._status

    @property
    def error_words(self) -> list[Any]:
        """Those of the exchanges, then three of each part: pair forces, bonded terms, update."""
        of_parts = [
            word
            for part in self._parts
            for word in (part.pairs.error_word, part.bonded.error_word, part.update.control)
        ]
        return [self.transport.control_words, *of_parts]

    def _finish(self, copies: list[Array]) -> tuple[list[ListCounts], list[int], Array]:
        """The end of a search of each part; counts of all lists, terms of each kind, and `DeviceDomains.found`."""
        each, lists = self._n_counters, list[ListCounts]()
        terms = np.zeros(len(self._expected_terms), np.int64)
        for k, part in enumerate(self._parts):
            of_part = copies[k * each : (k + 1) * each]
            lists += part.finish_search(of_part[0])
            terms += part.terms_in(of_part[1:])
        found = copies[each * len(self._parts)] if self._domains is not None else np.zeros((0, 2), np.int32)
        return lists, terms.tolist(), found

    def _note(self, lists: list[ListCounts]) -> None:
        self.counts = lists
        for part in self._parts:
            part.note_kept()

    def _prepare_steps(self) -> None:
        self.device.fork(self._ghost_stream)
        for part in self._parts:
            part.prepare_steps()
        self.device.join(self._ghost_stream)

    @property
    def _kinds(self) -> list[str]:
        return [*self._parts[0].bonded.terms_by_kind, EXCLUSION]

    @property
    def _expected_terms(self) -> list[int]:
        return [len(self._terms.atoms[kind]) for kind in self._kinds]
