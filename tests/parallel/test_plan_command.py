"""`pulsemd plan` says what a run does: grid, ghosts, pulses, bytes, and what is refused."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from domain_support import on_ranks
from pulsemd.base.errors import DomainError
from pulsemd.cli.main import main
from pulsemd.domain.grid import choose_grid
from pulsemd.engine.gromacs_system import system_from_gromacs
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.plan.cut import cut_system
from pulsemd.plan.meeting import on_all_ranks
from pulsemd.report.summary import rank_report
from pulsemd.systems import system_files


@pytest.fixture(scope="module")
def water():
    files = system_files("water")
    none = None
    return system_from_gromacs(
        files.configuration, files.topology, files.parameters, (), none, none, none, {"ld_seed": 7}
    )


def plan(capsys, *words: str) -> tuple[int, list[dict], str]:
    code = main(["plan", *words, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out)["cuts"], captured.err


@pytest.mark.parametrize(
    ("ranks", "plan_kind", "precision"),
    [(1, "auto", "fast"), (3, "direct", "fast"), (4, "auto", "reproducible")],
)
def test_plan_of_a_system_equals_what_the_ranks_of_a_run_report(water, ranks, plan_kind, precision):
    options = RunOptions(ranks=ranks, plan=plan_kind, precision=precision)
    cut = cut_system(water, options)

    def start(transport):
        simulation = Simulation(transport, water, options)
        return simulation.grid.shape, simulation.r_list, simulation.nstlist, rank_report(simulation)

    found = on_ranks(ranks, start)
    reports = [report for *_, report in found]
    assert found[0][:3] == (cut.grids[0].grid, cut.list_cutoff_nm, cut.nstlist)
    assert cut.owned.tolist() == [report["owned"] for report in reports]
    assert cut.ghosts.tolist() == [report["ghosts"] for report in reports]
    assert sum(cut.bytes_per_step) == sum(report["bytes_per_step"] for report in reports)
    assert (cut.ghosts.sum() > 0) == (ranks > 1)


def test_plan_of_a_cube_of_ranks_counts_pulses_and_messages_of_both_plans(capsys):
    code, [cut], _ = plan(capsys, "water", "--ranks", "8", "--grid", "2x2x2", "--device", "cpu")
    rows = sum(cut["ghosts"])
    assert code == 0
    assert cut["plan"] == "staged"
    assert cut["exchanges"]["staged"] == {"pulses": 3, "in_a_row": 3, "messages": 24, "rows": rows}
    assert cut["exchanges"]["direct"] == {"pulses": 7, "in_a_row": 1, "messages": 56, "rows": rows}
    assert cut["bytes_per_step"] == {"forward": 12 * rows, "reverse": 12 * rows}
    assert cut["ghost_share"] == rows / (rows + 3000)


def test_plan_for_gpus_needs_none_and_has_their_rows_and_direct_plan(capsys):
    words = ("water", "--ranks", "2", "--device", "cuda", "--precision", "reproducible")
    code, [cut], _ = plan(capsys, *words)
    assert (code, cut["plan"]) == (0, "direct")
    ghosts = sum(cut["ghosts"])
    assert cut["bytes_per_step"] == {"forward": 16 * ghosts, "reverse": 32 * ghosts}


def test_plan_of_grids_takes_the_cheapest_of_the_engine_and_names_the_next(water):
    cut = cut_system(water, RunOptions(ranks=6))
    costs = [row.cost for row in cut.grids]
    assert costs == sorted(costs)
    assert len({row.grid for row in cut.grids}) == 4
    assert cut.grids[0].grid == choose_grid(6, water.box, cut.halo_nm).shape
    for row in cut.grids:
        assert row.cell_nm == pytest.approx([3.1063 / n for n in row.grid], abs=1e-3)


def test_plan_with_a_grid_of_the_user_takes_it_though_others_are_cheaper(water):
    cut = cut_system(water, RunOptions(ranks=4, grid=(1, 2, 2)))
    assert cut.grids[0].grid == (1, 2, 2)
    assert cut.grids[0].cost > cut.grids[1].cost


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "a buffer for 20 steps of 0.002 ps at 300 K, verlet-buffer-tolerance 0.005"),
        ({"verlet_buffer_tolerance": -1.0, "rlist": 1.1}, "rlist of the settings"),
        ({"nstlist": 1}, "the cut-off 1 nm: no list is used for a second step"),
    ],
    ids=["tolerance", "rlist", "each step"],
)
def test_list_cutoff_of_a_plan_comes_with_its_reason(water, change, why):
    cut = cut_system(replace(water, settings=replace(water.settings, **change)), RunOptions())
    assert why in cut.list_cutoff_why


def test_plan_that_does_not_fit_exits_4_with_the_message_of_run_and_shows_the_others(capsys, tmp_path):
    words = ("water", "--nstlist", "50", "--device", "cpu")
    code, cuts, said = plan(capsys, *words, "--ranks", "1", "2")
    assert code == 4
    assert cuts[0]["ghosts"] == [0]
    assert cuts[1] == {"ranks": 2, "refused": said.strip().removeprefix("error: ")}
    assert main(["run", *words, "--ranks", "2", "--steps", "2", "-o", str(tmp_path / "out")]) == 4
    assert said.strip() in capsys.readouterr().err.splitlines()


def test_plan_for_people_marks_what_is_taken(capsys):
    assert main(["plan", "water", "--ranks", "1", "2", "--device", "cpu"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    assert blocks[0].startswith("1 rank(s), 3000 atoms, device cpu")
    taken = [line.split()[0] for line in blocks[1].splitlines() if line.endswith("taken")]
    assert taken == ["1x1x2", "staged"]


def test_ranks_that_plan_give_the_error_of_the_rank_that_met_it_and_all_end():
    def work(transport):
        if transport.rank == 2:
            raise DomainError("rank 2 lost an atom")
        return transport.allgather(transport.rank)

    with pytest.raises(DomainError, match="rank 2 lost an atom"):
        on_all_ranks(5, work)
    assert on_all_ranks(3, lambda t: t.alltoall([10 * t.rank + to for to in range(3)])) == [
        [0, 10, 20],
        [1, 11, 21],
        [2, 12, 22],
    ]


def test_ranks_that_plan_end_with_an_error_where_no_more_threads_start(monkeypatch):
    start, started = threading.Thread.start, []

    def start_three(thread):
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_three)
    with pytest.raises(DomainError, match=r"5 ranks are planned by as many threads.*use fewer"):
        on_all_ranks(5, lambda transport: transport.allgather(0))
    for thread in started:
        thread.join()
