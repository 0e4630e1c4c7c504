"""Runs that are asked to stop: a checkpoint, a word on how to go on, the right exit code, nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_files import write_input

from pulsemd.cli.main import main
from pulsemd.io.checkpoint import read_checkpoint


def workers_of(process: int) -> list[str]:
    """Command lines of ranks that this launcher started and that still live."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"pulsemd.halo.worker" in words and str(process).encode() in words:
            found.append(entry.name)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_signal_to_a_run_on_three_ranks_writes_a_checkpoint_and_exits_with_130(tmp_path, number):
    words = [*write_input(tmp_path), "--steps", "1000000", "--ranks", "3", "--device", "cpu"]
    command = [
        sys.executable,
        "-m",
        "pulsemd.cli.main",
        "run",
        *words,
        "-o",
        "out",
        "--checkpoint-minutes",
        "0",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "out" / "checkpoint.prev.pmd").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert "interrupted at step" in said
    assert "--restart out/checkpoint.pmd" in said
    assert not workers_of(process.pid)
    step = json.loads((tmp_path / "out" / "summary.json").read_text())["steps"]
    assert read_checkpoint(tmp_path / "out").step == step > 0


def test_max_hours_stops_with_a_checkpoint_and_exit_code_0(tmp_path, capsys):
    words = ["run", *write_input(tmp_path), "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert main([*words, "--steps", "1000000", "--max-hours", "0.0"]) == 0
    assert "time is up at step 0 of 1000000; to go on, add --restart" in capsys.readouterr().err
    assert read_checkpoint(tmp_path / "out").step == 0
    assert not (tmp_path / "out" / "final.gro").exists()


def test_run_without_end_is_stopped_by_max_hours(tmp_path, capsys):
    words = ["run", *write_input(tmp_path, nsteps=-1), "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert main([*words, "--max-hours", "0.0001"]) == 0
    assert "time is up" in capsys.readouterr().err
