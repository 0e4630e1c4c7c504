"""What `pulsemd bench halo` and `pulsemd doctor` print and write, without a GPU."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

import pytest

from pulsemd.cli import bench
from pulsemd.cli.main import main
from pulsemd.device import cuda

HOUSE = (
    "date commit device n_gpus n_ranks grid plan transport path precision system n_atoms nstlist steps us_per_step "
    "us_min us_max peer peer_us"
)


def measured() -> list[dict]:
    """Rows as the processes give them; one rung has failed."""
    rows: list[dict] = [{"device": "GPU", "n_gpus": 2, "transport": "nccl", "path": "failed: nccl: no"}]
    for name, count, mode in product(("nvshmem-fused", "mpi"), (256, 4096), ("launched", "graph")):
        rows.append(
            {"device": "GPU", "n_gpus": 2, "transport": name, "grid": "2", "plan": "staged", "rows": count, "width": 4}
            | {"what": "forward", "mode": mode, "bytes_sent": 16 * count, "us_per_step": 4.0, "pulses": 1}
        )  # fmt: skip
    return rows


def test_rows_have_the_house_columns_and_a_rate_each_way() -> None:
    rows = [bench._completed(row) for row in measured()]
    assert " ".join(bench.COLUMNS).startswith(HOUSE)
    assert all(list(row) == list(bench.COLUMNS) for row in rows)
    assert rows[-1]["gb_per_s"] == pytest.approx(16 * 4096 / 4.0e3, abs=0.01)
    assert "failed: nccl: no" in bench.table(rows)


def test_results_are_one_csv_and_one_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [bench._completed(row) for row in measured()]
    table, plot = bench._write(tmp_path, rows)
    with table.open(newline="") as file:
        assert [row["transport"] for row in csv.DictReader(file)] == [row["transport"] for row in rows]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_grid_of_another_size_than_the_gpus_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "halo", "--gpus", "2", "--grid", "2x2"]) == 2
    assert "2 GPUs of 1 have 2; change --grid" in capsys.readouterr().err
    words = ["bench", "md", "--gpus", "2", "--ranks-per-gpu", "1", "4", "--grid", "2x2x2", "3x1x1"]
    assert main(words) == 2
    assert "--grid 3x1x1: has 3 ranks, but 2 GPUs of 1, 4 have 2, 8" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["halo", "md"])
def test_folder_that_cannot_be_made_is_told_before_anything_is_measured(
    part: str, tmp_path: Path, capsys
) -> None:
    (tmp_path / "file").touch()
    assert main(["bench", part, "-o", str(tmp_path / "file" / "out")]) == 4
    assert "file/out: cannot be made" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["halo", "md"])
def test_benchmark_without_a_gpu_says_where_to_run_it(
    part: str, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr(cuda, "has_driver", lambda: False)
    assert main(["bench", part]) == 4
    assert capsys.readouterr().err == (
        "error: no GPU can be used: this machine has no NVIDIA driver; run where a GPU and its driver are\n"
    )


def test_doctor_says_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pulsemd"]
    assert found["GPUs"]
