"""What `benchmarks/run_ladder.py` does on 2, 4 and 8 GPUs, in what order and time."""

from __future__ import annotations

import csv
import time
from math import prod
from pathlib import Path

import pytest
import run_ladder
from ladder_verdict import read_passed, verdict
from run_ladder import STOP, VERDICT, Case, Run, fitting, plan

from pulsemd.cli.main import build_parser

GPUS = (2, 4, 8)


@pytest.mark.parametrize("n_gpus", GPUS)
def test_the_plan_begins_with_what_is_right_and_uses_only_what_there_is(n_gpus: int) -> None:
    cases = plan(n_gpus)
    parts = [case.name.split("-")[0] for case in cases]
    assert len({case.name for case in cases}) == len(cases)
    n_first = parts.index("halo")
    assert set(parts[:2]) == {"conformance"}
    assert set(parts[2:n_first]) == {"hash"}
    assert {"latency", "large", "pme", "ten"} <= set(parts[n_first:])
    assert {case.name for case in cases} >= {f"hash-{n}" for n in GPUS if n <= n_gpus}
    for case in cases:
        for words in case.commands:
            if words[0] != "pulsemd.cli.main":
                continue
            args = build_parser().parse_args(words[1:])
            assert args.gpus <= n_gpus
            per_gpu = args.ranks_per_gpu if isinstance(args.ranks_per_gpu, list) else [args.ranks_per_gpu]
            assert {prod(grid) for grid in args.grid} <= {args.gpus * k for k in per_gpu}


@pytest.mark.parametrize("n_gpus", GPUS)
@pytest.mark.parametrize("minutes", [2.4, 5.0, 9.0])
def test_cases_of_a_plan_end_in_time_and_the_least_important_are_left_out(
    n_gpus: int, minutes: float
) -> None:
    cases = plan(n_gpus)
    chosen = list(fitting(cases, 60.0 * minutes))
    last, begin = chosen[-1]
    assert begin + last.seconds + STOP + VERDICT <= 60.0 * minutes
    assert [begin for _, begin in chosen] == pytest.approx(
        [sum(case.seconds for case, _ in chosen[:k]) for k in range(len(chosen))]
    )
    if minutes == 9.0:
        assert [case for case, _ in chosen] == cases
    assert cases[0] == chosen[0][0]
    assert all(case.limit > case.seconds for case in cases)


def waits(name: str, seconds: float) -> Case:
    return Case(name, 0.1, (("timeit", "-n1", "-r1", f"import time; time.sleep({seconds})"),))


def test_a_case_that_fails_or_hangs_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_ladder, "SPARE", 1.5)
    run = Run(tmp_path, 2, time.monotonic() + 60.0)
    for case in (
        waits("hangs", 50.0),
        Case("fails", 0.1, (("timeit", "-n1", "-r1", "1 / 0"),)),
        waits("ends", 0.0),
        Case("long", 100.0, (("timeit", "1"),)),
    ):
        run.case(case)
    with run.table.open(newline="") as file:
        found = {row["case"]: row["end"] for row in csv.DictReader(file)}
    assert found == {
        "hangs": "stopped at its limit",
        "fails": "failed: exit code 1",
        "ends": "ended",
        "long": "left out: no time",
    }
    assert "ZeroDivisionError" in (tmp_path / "fails.log").read_text()


def row(n_gpus: int, transport: str, **values: object) -> dict[str, str]:
    names = ("us_per_step", "trajectory_hash", "grid", "plan", "path")
    found = dict.fromkeys(names, "") | {"system": "water", "n_gpus": n_gpus, "n_ranks": n_gpus}
    return {name: str(value) for name, value in (found | {"transport": transport} | values).items()}


def lines_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def test_the_verdict_says_what_is_met_and_what_is_not(tmp_path: Path) -> None:
    (tmp_path / "conformance-host-2.log").write_text("  3.1 s: nccl: 66 cases passed (nccl)\n")
    rows = [
        row(1, "loopback", n_atoms=6000, trajectory_hash="a"),
        row(2, "mpi", n_atoms=6000, trajectory_hash="a"),
        row(2, "nvshmem-fused", n_atoms=45000, us_per_step=50.0),
        row(2, "nvshmem-fused", n_atoms=45000, us_per_step=60.0, plan="staged"),
        row(2, "mpi", n_atoms=45000, us_per_step=300.0),
        row(1, "loopback", n_atoms=720000, us_per_step=800.0),
        row(2, "nvshmem-fused", n_atoms=720000, us_per_step=800.0),
    ]
    lines = lines_of(verdict(rows, read_passed(tmp_path), 2))
    assert [(line[0].split(":")[0], line[-1]) for line in lines] == [
        ("conformance", "no"),
        ("hashes of a trajectory", "yes"),
        ("water, 45,000 atoms", "yes"),
        ("water, 720,000 atoms", "no"),
    ]
    assert lines[2][3].startswith("6.00 ")
    assert lines[3][3].startswith("0.50 ")


@pytest.mark.parametrize("more", [{"trajectory_hash": "b"}, {"path": "failed: no"}, {"n_gpus": "4"}])
def test_the_verdict_misses_a_hash_that_differs_or_is_not_there(more: dict[str, str]) -> None:
    alone, mpi = (
        row(n, name, n_atoms=6000, trajectory_hash="a") for n, name in ((1, "loopback"), (2, "mpi"))
    )
    assert lines_of(verdict([alone, mpi], {}, 2))[1][-1] == "yes"
    assert lines_of(verdict([alone, mpi | more], {}, 2))[1][-1] == "no"
