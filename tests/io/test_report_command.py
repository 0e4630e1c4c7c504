"""`pulsemd report` on folders made by hand, on a real run, and on damaged ones."""

from __future__ import annotations

import json
import shutil

import pytest
from run_files import COMMON, move_molecule, run, write_input

from pulsemd.cli.main import main

SUMMARY = {
    "atoms": 10, "ranks": 2, "ranks_per_gpu": 1, "grid": [1, 1, 2], "device": "cuda",
    "device_name": "cuda: H200", "device_reason": "as asked for", "transport": "mpi", "path": "host-staged",
    "transport_reasons": ["nvshmem-step: no NVSHMEM here"], "plan": "direct", "precision": "fast",
    "steps": 40, "step": 40, "dt_ps": 0.002, "nstlist": 10, "list_cutoff_nm": 1.1, "us_per_step": 250.0,
    "ns_per_day": 691.2, "wall_seconds": 0.01, "graph": {"nodes": 12, "steps": 10},
    "searches": {"all": 5, "on_device": 3},
    "phases": {
        "search": {"seconds": 1.0, "share": 0.25, "wait": 0.0},
        "steps": {"seconds": 3.0, "share": 0.75, "wait": 0.5},
    },
    "bytes": {"host-staged": 1234}, "energies": {"potential": -4.0}, "trajectory_hash": "ab" * 32,
}  # fmt: skip
ENERGIES = "step,time_ps,potential,conserved\n0,0,-1,7\n20,0.04,-2,7.02\n40,0.08,-6,7.04\n"
MDP = "integrator = md\ndt = 0.002\nnsteps = 40\nrcoulomb = 1\nrvdw = 1\ncoulombtype = reaction-field\n"


def folder_of_run(folder, name="out", **changes):
    out = folder / name
    out.mkdir()
    (out / "summary.json").write_text(json.dumps(SUMMARY | changes))
    (out / "energies.csv").write_text(ENERGIES)
    (out / "run.mdp").write_text(MDP)
    return out


def told(capsys, *outs) -> list[dict]:
    assert main(["report", *map(str, outs), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["runs"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder / "out", run(folder, ["water", "--seed", "7"], "out", 40)


def test_report_of_a_summary_made_by_hand_has_its_numbers_and_those_of_the_energies(tmp_path, capsys):
    [found] = told(capsys, folder_of_run(tmp_path))
    assert found["state"] == "finished"
    assert found["summary"] == SUMMARY
    assert found["averages"]["potential"] == pytest.approx({"mean": -3.0, "deviation": 7**0.5, "last": -6.0})
    # 0.04 kJ/mol in 0.08 ps, 10 atoms
    assert found["conserved_drift"] == pytest.approx(50.0)
    assert found["energy_records"] == 3


def test_report_of_a_minimisation_has_its_last_energies_and_why_it_ended_but_no_time(tmp_path, capsys):
    found = {"converged": False, "reason": "raise nsteps", "atom": "SOL 1 OW (atom 1)"}
    minimum = folder_of_run(tmp_path, "em", ns_per_day=None, minimisation=found)
    assert main(["report", str(minimum), str(folder_of_run(tmp_path, "md"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split("  ")[0]: line.split()[1:] for line in lines}
    assert rows["ns/day"] == ["-", "691.20"]
    assert rows["energy"] == ["last", "mean", "deviation"]
    assert rows["potential"] == ["-6.00", "-3.00", "2.65"]
    assert f"note: {minimum}: raise nsteps; largest force on SOL 1 OW (atom 1)" in lines


def test_report_of_a_run_without_end_says_where_it_stopped(tmp_path, capsys):
    out = folder_of_run(tmp_path)
    (out / "run.mdp").write_text(MDP.replace("nsteps = 40", "nsteps = -1"))
    assert told(capsys, out)[0]["state"] == "stopped at step 40, of a run without end"


def test_report_for_people_sorts_phases_and_gives_reasons(tmp_path, capsys):
    assert main(["report", str(folder_of_run(tmp_path))]) == 0
    text = capsys.readouterr().out
    rows = {line[:20].strip(): line[20:].strip() for line in text.splitlines()}
    assert rows["us/step"] == "250.0"
    assert rows["transport (path)"] == "mpi (host-staged)"
    assert rows["graph"] == "12 nodes"
    assert rows["searches on device"] == "3 of 5"
    assert rows["steps"].split() == ["3.000", "75.0%", "0.500"]
    assert rows["potential"].split() == ["-3.00", "2.65"]
    assert rows["drift /ns/atom"] == "50"
    assert text.index("\nsteps   ") < text.index("\nsearch  ")
    assert text.endswith("out: transport: nvshmem-step: no NVSHMEM here\n")


def test_report_of_two_runs_has_a_column_for_each(tmp_path, capsys):
    other = {"transport": "nccl", "graph": "none: no run of steps came twice", "us_per_step": 99.5}
    a, b = folder_of_run(tmp_path, "a"), folder_of_run(tmp_path, "b", **other)
    assert main(["report", str(a), str(b)]) == 0
    text = capsys.readouterr().out
    [speed] = [line.split() for line in text.splitlines() if line.startswith("us/step")]
    assert speed == ["us/step", "250.0", "99.5"]
    assert f"note: {b}: graph none: no run of steps came twice" in text


def test_report_of_a_real_run_equals_its_summary_and_names_the_end(finished, capsys):
    out, summary = finished
    [found] = told(capsys, out)
    assert found["summary"] == summary
    assert (found["state"], found["checkpoint_step"], summary["step"]) == ("finished", 40, 40)
    assert summary["searches"]["on_device"] == 0
    assert summary["searches"]["all"] >= 2
    assert found["averages"]["potential"]["last"] == summary["energies"]["potential"]


def test_report_of_a_run_that_was_killed_has_its_energies_and_checkpoint(finished, tmp_path, capsys):
    out = shutil.copytree(finished[0], tmp_path / "out")
    (out / "summary.json").unlink()
    [found] = told(capsys, out)
    assert found["state"] == "going on or broken off, checkpoint of step 40"
    assert found["atoms"] == 3000
    assert found["averages"]["temperature"]["mean"] > 200
    assert main(["report", str(out)]) == 0


def test_report_of_a_summary_before_a_restart_that_broke_off_says_so(finished, tmp_path, capsys):
    out = shutil.copytree(finished[0], tmp_path / "out")
    (out / "summary.json").write_text(json.dumps(finished[1] | {"step": 20}))
    assert told(capsys, out)[0]["state"] == "going on or broken off, checkpoint of step 40"


@pytest.mark.parametrize(
    ("crash", "changes", "state"),
    [
        (None, {"step": 20}, "stopped at step 20 of 40"),
        ("water t= 0.08 step= 40", {}, "blew up after step 40"),
        ("water t= 0.04 step= 20", {}, "finished"),
        (None, {"minimisation": {"converged": False}}, "NOT CONVERGED"),
    ],
    ids=["interrupted", "blown up", "blown up before it went on", "minimisation"],
)
def test_report_of_a_run_says_how_it_ended(tmp_path, capsys, crash, changes, state):
    out = folder_of_run(tmp_path, **changes)
    if crash is not None:
        (out / "crash.gro").write_text(f"{crash}\n0\n1 1 1\n")
    assert told(capsys, out)[0]["state"] == state


def test_report_of_a_run_that_blew_up_names_its_step_and_positions(tmp_path, capsys):
    words = write_input(tmp_path, edit=lambda lines: move_molecule(lines, 5, 10, 0.001), nstenergy=20)
    assert main(["run", *words, *COMMON, "-o", str(tmp_path / "out"), "--steps", "60"]) == 6
    capsys.readouterr()
    assert main(["report", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "blew up after step 0\n" in text
    assert text.endswith("out/crash.gro\n")


def test_report_of_a_folder_without_a_run_exits_3_with_the_remedy(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 3
    assert f"error: {tmp_path}: holds no run" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "absent")]) == 3
    assert "give the -o of pulsemd run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("summary.json", json.dumps(SUMMARY, indent=2)[:300], ":18: is damaged"),
        ("summary.json", "[]", ": is no summary of a run: it lacks atoms"),
        ("summary.json", '{"atoms": 3}', ": is no summary of a run: it lacks ranks"),
        ("energies.csv", ENERGIES[:-2], ":4: is damaged: the line is cut off; remove that line"),
        ("energies.csv", "", ":1: is damaged"),
        ("checkpoint.pmd", "PulseMD checkpoint 1\n", ": is damaged or cut off"),
        ("crash.gro", "nothing\n", ":1: is damaged"),
    ],
    ids=["cut summary", "list", "few keys", "cut line", "empty table", "checkpoint", "crash"],
)
def test_report_of_damaged_files_exits_3_with_file_and_line(tmp_path, capsys, name, content, where):
    out = folder_of_run(tmp_path)
    (out / name).write_text(content)
    assert main(["report", str(out)]) == 3
    assert f"error: {out / name}{where}" in capsys.readouterr().err
