"""Runs that are asked to stop: a checkpoint, a word on how to go on, the right exit code, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from run_files import workers_of, write_input

from pulsemd.cli.main import main
from pulsemd.io.checkpoint import read_checkpoint


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


def start_run(folder, *words):
    """`pulsemd run` of many steps on two ranks; its messages come through a pipe."""
    command = [sys.executable, "-m", "pulsemd.cli.main", "run", *write_input(folder), "--steps", "1000000"]
    command += ["--ranks", "2", "--device", "cpu", "-o", "new/out", *words]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_ranks_are_loaded_ends_them_without_a_traceback_or_a_folder(tmp_path, number):
    process = start_run(tmp_path)
    assert process.stderr.readline().startswith("starting 2 ranks")
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "interrupted\n")
    assert not workers_of(process.pid)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_in_the_middle_of_an_import_ends_the_program_and_takes_empty_folders_along(tmp_path, number):
    (tmp_path / "kept").mkdir()
    program = f"""
import os
from pathlib import Path
from pulsemd.cli.stop import ended_at_once

class Descriptor:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), {int(number)})

with ended_at_once("kept/new/out"):
    Path("kept/new/out").mkdir(parents=True)
    class Imported:
        field = Descriptor()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(tmp_path / "kept") == []


def test_signal_to_launcher_and_ranks_at_once_is_one_request(tmp_path):
    process = start_run(tmp_path, "--checkpoint-minutes", "0")
    while not (tmp_path / "new/out/checkpoint.prev.pmd").exists() and process.poll() is None:
        time.sleep(0.05)
    for number in (process.pid, *map(int, workers_of(process.pid))):
        with suppress(ProcessLookupError):  # the launcher's word may have ended it
            os.kill(number, signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "interrupted at step" in said


@pytest.mark.slow
def test_rank_that_is_killed_ends_the_run_with_its_name_and_the_checkpoint_goes_on(tmp_path):
    words = [
        *write_input(tmp_path),
        "--ranks",
        "3",
        "--device",
        "cpu",
        "-o",
        "out",
        "--checkpoint-minutes",
        "0",
    ]
    command = [sys.executable, "-m", "pulsemd.cli.main", "run", *words]
    process = subprocess.Popen(
        [*command, "--steps", "1000000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "out" / "checkpoint.prev.pmd").exists() and process.poll() is None:
        time.sleep(0.05)
    os.kill(int(workers_of(process.pid)[0]), signal.SIGKILL)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 5, said
    assert "killed by SIGKILL" in said
    assert "to go on from the last checkpoint, give --restart out/checkpoint.pmd\n" in said
    assert not workers_of(process.pid)
    step = read_checkpoint(tmp_path / "out").step
    again = [*command, "--restart", "out", "--steps", str(step + 20)]
    assert subprocess.run(again, cwd=tmp_path, stderr=subprocess.DEVNULL).returncode == 0


def test_max_hours_stops_with_a_checkpoint_and_exit_code_0(tmp_path, capsys):
    words = ["run", *write_input(tmp_path), "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert main([*words, "--steps", "1000000", "--max-hours", "0.0"]) == 0
    assert "time is up at step 0 of 1000000; to go on, add --restart" in capsys.readouterr().err
    assert read_checkpoint(tmp_path / "out").step == 0
    assert not (tmp_path / "out" / "final.gro").exists()


def test_run_without_end_is_stopped_by_max_hours(tmp_path, capsys):
    words = ["run", *write_input(tmp_path, nsteps=-1), "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert main([*words, "--max-hours", "0.0001"]) == 0
    assert re.search(r"time is up at step \d+; to go on", capsys.readouterr().err)
