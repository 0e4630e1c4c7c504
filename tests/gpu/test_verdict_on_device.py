"""Checks of searches that the device makes for the host, and sums over ranks."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import DomainError, PeerError, UnstableError
from pulsemd.domain.verdict import HeldSteps, Verdict, checks_of, columns_of
from pulsemd.engine import gpu_fields
from pulsemd.engine.gpu_ranks import GpuRanks
from pulsemd.engine.gpu_search import PartSearch
from pulsemd.engine.gpu_verdict import SearchVerdict
from pulsemd.halo.device.local import local_transports
from pulsemd.schedule.graphs import StepGraphs
from systems import bundled_system
from test_engine_ranks import gas_without_forces, move_to_lower_corners, on_one, on_ranks

pytestmark = pytest.mark.gpu


def test_failed_checks_and_columns_are_summed_over_ranks(device):
    (transport,) = local_transports("nvshmem-fused", 2)
    here = transport.device
    counts = [here.to_device(np.array(rows, np.int32)) for rows in ([[1, 20], [3, 40]], [[5, 60]])]
    word = here.to_device(np.array([-1], np.int64))
    verdict = Verdict(transport, 2)
    verdict.bind([columns_of(rows) for rows in counts], 3)
    verdict.launch()
    assert here.to_host(verdict.totals).tolist() == [6, 9, 120]  # every check of both ranks fails
    verdict.set([[*checks_of(rows[0], [0, 20], [4, 50]), *checks_of(word, [-1], [-1])] for rows in counts])
    verdict.launch()
    assert here.to_host(verdict.totals).tolist() == [2, 9, 120]
    verdict.reject()
    verdict.launch()
    assert here.to_host(verdict.totals)[0] == 6
    with pytest.raises(DomainError, match="at most 63"):
        Verdict(transport, 64)


def test_steps_are_held_unless_a_search_was_as_expected_and_released_as_they_were(device):
    (transport,) = local_transports("nvshmem-fused", 2)
    here = transport.device
    totals, counts = here.to_device(np.array([0, 7], np.int64)), here.to_device(np.array([3, 4, 5], np.int32))
    carried = here.to_device(np.array([1.5, 2.5]))
    held = HeldSteps(transport, totals, [0, 7], [counts], [carried])
    held.hold()
    assert here.to_host(counts).tolist() == [3, 4, 5]
    for changed in (totals, transport.control_words):
        with here.current():
            changed[:1].set(np.ones(1, changed.dtype))
        held.hold()
        assert here.to_host(counts).tolist() == [0, 0, 0]
        assert here.to_host(carried).tolist() == [1.5, 2.5]
        with here.current():
            carried.set(np.zeros(2))
            changed[:1].set(np.zeros(1, changed.dtype))
        held.release()
        assert here.to_host(counts).tolist() == [3, 4, 5]
        assert here.to_host(carried).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("rung", ["nvshmem-pulse", "nvshmem-fused", "nvshmem-step"])
def test_steps_launched_behind_a_search_that_was_not_as_usual_are_made_again(device, monkeypatch, rung):
    monkeypatch.setattr(gpu_fields, "FEW_RANKS", 2)
    launched, usual = [], []
    ahead, advance = GpuRanks.advance_ahead, GpuRanks.advance

    def note_ahead(ranks, step, n, timer):
        ahead(ranks, step, n, timer)
        launched.extend([step] if ranks._ahead else [])

    def note(ranks, step, *rest):
        followed = ranks._ahead is not None
        advance(ranks, step, *rest)
        usual.extend([step] if followed and ranks._search.was_usual else [])

    hold = SearchVerdict.hold

    def hold_now_and_then(verdict):
        if ranks.step in (8, 16):  # something of the last rank is not as expected
            with verdict._transport.device.current():
                verdict.totals[:1].set(np.ones(1, np.int64))
        return hold(verdict)

    system = bundled_system(nstlist=2, nstcomm=2, nsttcouple=2)
    alone = on_one(system, "reproducible")
    alone.run(24)
    monkeypatch.setattr(GpuRanks, "advance_ahead", note_ahead)
    monkeypatch.setattr(GpuRanks, "advance", note)
    monkeypatch.setattr(SearchVerdict, "hold", hold_now_and_then)
    real = SearchVerdict.is_usual
    monkeypatch.setattr(
        SearchVerdict, "is_usual", lambda self, totals: ranks.step not in (8, 16) and real(self, totals)
    )
    ranks = on_ranks(system, 2, "reproducible", rung)
    ranks.run(24)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert launched == [6, 8, 12, 14, 16, 20, 22]
    assert usual == [6, 12, 14, 20, 22]


@pytest.mark.parametrize("rung", ["nvshmem-fused", "nvshmem-step"])
def test_steps_behind_a_search_without_slots_exchange_no_rows_it_did_not_place(
    device, tmp_path, monkeypatch, rung
):
    monkeypatch.setattr(gpu_fields, "FEW_RANKS", 8)
    empty, followed, ahead = type(device).empty, [], GpuRanks.advance_ahead

    def far_away(here, shape, dtype):
        made = empty(here, shape, dtype)
        if made.nbytes:
            made.data.memset_async(0x7F, made.nbytes, here.stream)  # as a slot, beyond all memory
        return made

    def note_ahead(ranks, step, n, timer):
        ahead(ranks, step, n, timer)
        followed.extend([step] if ranks._ahead else [])

    monkeypatch.setattr(type(device), "empty", far_away)
    monkeypatch.setattr(GpuRanks, "advance_ahead", note_ahead)
    ranks = on_ranks(gas_without_forces(tmp_path), 8, "reproducible", rung, plan="direct", grid=(2, 2, 2))
    ranks.run(35)
    with ranks.rank.device.current():
        for part in ranks.rank._parts:
            move_to_lower_corners(part)
        part.update.velocities[:, :3] -= 800.0  # to the first rank, into rows that it never had
    with pytest.raises(DomainError, match="ranks have room for 0 of 1728 atoms"):
        ranks.run(20)
    assert followed[-1] == 40


def test_a_list_lifetime_is_two_graphs_before_the_host_reads_once(device, monkeypatch):
    order = []
    run, words = StepGraphs.run, PartSearch.words

    def note_run(graphs, pattern, n_steps, work):
        order.append("steps" if n_steps else "search")
        run(graphs, pattern, n_steps, work)

    def note_words(search):
        found = words(search)
        if found is not None and order[-1] != "read":
            order.append("read")
        return found

    monkeypatch.setattr(StepGraphs, "run", note_run)
    monkeypatch.setattr(PartSearch, "words", note_words)
    ranks = on_ranks(bundled_system(nstlist=2), 2, "reproducible")
    ranks.run(10)
    assert order == ["steps", *["search", "read", "steps"] * 2, *["search", "steps", "read"] * 2]


def test_all_but_the_first_search_on_the_device_are_as_usual(device, monkeypatch):
    usual, complete = [], PartSearch._complete
    monkeypatch.setattr(
        PartSearch, "_complete", lambda self: (usual.append(self.went_as_usual), complete(self))[1]
    )
    ranks = on_ranks(bundled_system(nstlist=2, nstcomm=2, nsttcouple=2), 2, "reproducible")
    ranks.run(11)
    assert usual == [False, True, True, True, True]
    assert ranks.rank.searches_on_device == 5


@pytest.mark.parametrize("rung", ["nvshmem-fused", "nvshmem-step"])
def test_a_search_after_somebody_gave_up_is_not_as_usual(device, monkeypatch, rung):
    monkeypatch.setattr(gpu_fields, "FEW_RANKS", 2)
    ranks = on_ranks(bundled_system(nstlist=2), 2, "reproducible", rung)
    ranks.run(8)
    transport = ranks.transport.gpu
    with transport.device.current():
        transport.control_words[:1].set(np.array([1]))
    with pytest.raises(PeerError, match="a wait of another process expired"):
        ranks.run(4)


@pytest.mark.parametrize("rung", ["nvshmem-fused", "nvshmem-step"])
def test_an_atom_that_cannot_be_moved_ends_a_run_whose_searches_were_as_usual(device, monkeypatch, rung):
    monkeypatch.setattr(gpu_fields, "FEW_RANKS", 2)
    ranks = on_ranks(bundled_system(nstlist=2), 2, "reproducible", rung)
    ranks.run(8)
    for part in ranks.rank._parts:
        with part.device.current():
            part.update.velocities[...] = 1e6
    with pytest.raises(UnstableError, match=r"step 8: .* would move more than a quarter"):
        ranks.run(4)
