"""Rows of `pulsemd bench md`, from ranks that share a device."""

from __future__ import annotations

import csv
import json

import pytest

from pulsemd.base.errors import DomainError, TransportError
from pulsemd.cli import md_bench
from pulsemd.cli.md_bench import MdBench, measure
from pulsemd.halo.rungs.world import GpuWorld
from pulsemd.halo.transports.loopback import loopback_world
from pulsemd.report.timeline import describe_step
from pulsemd.report.trace import read_trace, typical_step

pytestmark = pytest.mark.gpu


def test_rows_of_a_bench_are_written_with_one_hash_times_and_exposed_waits(device, tmp_path):
    bench = MdBench(
        systems=("water",),
        atoms=(3000,),
        rungs=("nvshmem-fused", "nvshmem-step"),
        without_graphs=True,
        nstlist=(4,),
        lifetimes=1,
        repeats=1,
        check=8,
        trace=True,
        out=tmp_path,
        about={"date": "today", "commit": "abc"},
    )
    rows = measure(GpuWorld(loopback_world(2), device, timeout=240.0), bench)
    on_two = [(2, rung) for rung in bench.rungs for graph in (True, False)]
    assert [(row["n_ranks"], row["transport"]) for row in rows] == [(1, "loopback"), *on_two]
    assert len({row["trajectory_hash"] for row in rows}) == 1
    assert all(row["us_per_step"] > 0.0 for row in rows)
    assert all(0.0 <= row["us_exposed"] <= row["us_idle"] < row["us_traced"] for row in rows[1:])
    (table,) = tmp_path.glob("md__water__*__abc.csv")
    with table.open(newline="") as file:
        assert [row["us_per_step"] for row in csv.DictReader(file)] == [str(r["us_per_step"]) for r in rows]
    spans, about = read_trace(next(tmp_path.glob("trace__water-3000__2-ranks__nvshmem-fused.json")))
    assert about["transport"] == "nvshmem-fused"
    assert json.dumps(describe_step(typical_step(spans)))


def test_a_rung_that_cannot_be_used_is_a_row_that_says_why(device, monkeypatch, capsys):
    def refuse(world, name):
        raise TransportError(f"--transport {name}: no")

    monkeypatch.setattr(md_bench, "open_rung", refuse)
    bench = MdBench(("water",), (3000,), ("mpi",), nstlist=(4,), repeats=0, check=0, alone=False)
    (row,) = measure(GpuWorld(loopback_world(2), device, timeout=240.0), bench)
    assert (row["transport"], row["path"]) == ("mpi", "failed: --transport mpi: no")
    said = capsys.readouterr().err
    assert said.index("building water, 3000 atoms") < said.index("starting mpi, direct plan, 3000 atoms")


def test_every_grid_of_as_many_cells_as_ranks_has_a_row(device):
    grids = ((1, 1, 2), (1, 2, 2), (2, 1, 1))
    bench = MdBench(("water",), (3000,), ("nvshmem-fused",), grids=grids, nstlist=(4,), repeats=0, check=4)
    rows = measure(GpuWorld(loopback_world(2), device, timeout=240.0), bench)
    assert [row["grid"] for row in rows] == ["1x1x1", "1x1x2", "2x1x1"]
    assert len({row["trajectory_hash"] for row in rows}) == 1


def test_every_number_of_steps_between_searches_has_a_row_on_one_gpu_and_on_all(device):
    bench = MdBench(("water",), (3000,), ("nvshmem-fused",), nstlist=(2, 4), repeats=0, check=4)
    rows = measure(GpuWorld(loopback_world(2), device, timeout=240.0), bench)
    assert [(row["n_ranks"], row["nstlist"]) for row in rows] == [(1, 2), (1, 4), (2, 2), (2, 4)]
    one, two = rows[:2], rows[2:]
    assert [row["trajectory_hash"] for row in one] == [row["trajectory_hash"] for row in two]


def test_a_grid_that_does_not_fit_the_box_is_a_row_that_says_why(device, monkeypatch):
    measured = md_bench._row

    def refuse(transport, system, bench, options):
        if options.grid == (2, 1, 1):
            raise DomainError("too thin")
        return measured(transport, system, bench, options)

    monkeypatch.setattr(md_bench, "_row", refuse)
    grids = ((2, 1, 1), (1, 1, 2))
    bench = MdBench(
        ("water",), (3000,), ("nvshmem-fused",), grids=grids, nstlist=(4,), repeats=0, check=4, alone=False
    )
    rows = measure(GpuWorld(loopback_world(2), device, timeout=240.0), bench)
    assert [(row["grid"], row["path"]) for row in rows] == [
        ("2x1x1", "failed: too thin"),
        ("1x1x2", "loads and stores"),
    ]
