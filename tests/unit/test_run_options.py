"""What was asked of a run is checked where it is put together: by flags, by a TOML file, and in Python."""

from __future__ import annotations

import argparse
import tomllib
from importlib import import_module

import pytest

from pulsemd.base.errors import ConfigError
from pulsemd.cli.main import GPU_RUNGS, RUNGS, build_parser, main
from pulsemd.cli.request import run_options
from pulsemd.engine.options import RunOptions
from pulsemd.halo import TRANSPORTS
from pulsemd.halo.rungs import ladder
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.systems import system_files

TABLE = """nsteps = 4
rcoulomb = 1.0
rvdw = 1.0
[pulsemd]
ranks = 1
grid = [1, 1, 1]
device = "cpu"
transport = "loopback"
plan = "staged"
precision = "reproducible"
timeout = 20.0
checkpoint_minutes = 5
max_hours = 1.5
"""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("device", "gpu", "device = gpu: there are cpu, cuda, auto"),
        ("plan", "fast", "plan = fast: there are staged, direct, auto"),
        ("precision", "double", "precision = double: there are fast, reproducible"),
        ("transport", "tcp", "transport = tcp: there are loopback, shmem, mpi, nvshmem-step"),
        ("ranks", 0, "ranks = 0: a whole number of at least 1 is needed"),
        ("ranks", 1.5, "ranks = 1.5: a whole number"),
        ("ranks_per_gpu", 0, "ranks_per_gpu = 0: a whole number"),
        ("grid", (2, 1), r"grid = \(2, 1\): three whole numbers"),
        ("grid", (2, 1, 0), r"grid = \(2, 1, 0\): three whole numbers"),
        ("timeout", 0.0, "timeout = 0.0: a positive number of seconds is needed"),
        ("timeout", "long", "timeout = long: a positive number"),
    ],
)
def test_option_that_makes_no_sense_is_refused_with_what_does(name, value, message):
    with pytest.raises(ConfigError, match=message):
        RunOptions(**{name: value})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('device = "gpu"', "device = gpu: there are cpu"),
        ('ranks = "2"', "ranks = 2: a whole number"),
        ("rank = 2", "[pulsemd] rank: no such setting; there are ranks"),
        ('max_hours = "1"', "[pulsemd] max_hours = 1: a number"),
        ("checkpoint_minutes = -1", "[pulsemd] checkpoint_minutes = -1: a number"),
        ('xvg = "no"', "[pulsemd] xvg = no: there are true, false"),
        (
            'trajectory = "xtc"',
            "trajectory = xtc: no trajectory is written, since nstxout-compressed and nstxout are 0",
        ),
        ('positions = "unwrapped"', "positions = unwrapped: no trajectory is written"),
        ('positions = "wrapped"', "[pulsemd] positions = wrapped: there are whole, unwrapped"),
    ],
)
def test_table_of_a_settings_file_is_checked_before_anything_runs(tmp_path, capsys, line, message):
    files, settings = system_files("water"), tmp_path / "run.toml"
    settings.write_text(f"nsteps = 1\n[pulsemd]\n{line}\n")
    words = ["-c", files.configuration, "-p", files.topology, "-f", settings, "-o", tmp_path / "out"]
    assert main(["run", *map(str, words)]) == 2
    assert f"error: {settings}:3: {message}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_settings_that_are_saved_hold_the_flags_as_they_stand_in_a_toml_file(tmp_path):
    (tmp_path / "run.toml").write_text(TABLE)
    words = [
        "run",
        "water",
        "-f",
        str(tmp_path / "run.toml"),
        "--plan",
        "direct",
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    saved = (tmp_path / "out" / "run.mdp").read_text()
    settings, none = read_settings(tmp_path / "out" / "run.mdp")
    assert (settings.nsteps, none) == (4, {})
    table = tomllib.loads(saved[saved.index("; [pulsemd]") :].replace("; ", ""))["pulsemd"]
    asked = tomllib.loads(TABLE)["pulsemd"] | {"plan": "direct"}
    assert table == asked | {"ranks_per_gpu": 1, "positions": "whole", "xvg": False, "trajectory": "dcd"}


def test_seed_where_nothing_is_drawn_is_refused(tmp_path, capsys):
    (tmp_path / "run.toml").write_text("nsteps = 1\nrcoulomb = 1.0\nrvdw = 1.0\n")
    assert main(["run", "water", "-f", str(tmp_path / "run.toml"), "--seed", "7", "-o", "out"]) == 2
    assert "error: --seed 7: with these settings nothing is drawn at random" in capsys.readouterr().err


def test_flag_that_replaces_a_key_of_the_table_is_not_blamed_on_the_file(tmp_path, capsys):
    (tmp_path / "run.toml").write_text("[pulsemd]\nranks = 2\n")
    assert main(["run", "water", "-f", str(tmp_path / "run.toml"), "--ranks", "0", "-o", "out"]) == 2
    assert "error: ranks = 0: " in capsys.readouterr().err


def test_grid_of_another_size_than_the_ranks_is_refused_before_they_start(tmp_path, capsys):
    words = ["run", "water", "--ranks", "2", "--grid", "2x2x1", "-o", str(tmp_path / "out")]
    assert main(words) == 4
    said = capsys.readouterr().err
    assert "grid 2x2x1 has 4 cells but there are 2 ranks; use --ranks 4 or another grid" in said
    assert "starting" not in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "ranks", "transport"),
    [([], 4, None), (["--transport", "shmem"], 4, "shmem"), (["--ranks-per-gpu", "2"], 8, None)],
)
def test_ranks_that_were_started_are_counted_and_given_no_transport_that_nobody_asked_for(
    words, ranks, transport
):
    """Which is the fastest is decided with the device: of GPUs it is not mpi."""
    args = build_parser().parse_args(["run", "water", "-o", "out", *words])
    options = run_options(args, {}, started_ranks=4)
    assert (options.ranks, options.transport) == (ranks, transport)


def test_transports_of_the_command_line_are_those_there_are():
    """It has their names itself, so that ``--help`` imports nothing."""
    assert GPU_RUNGS == ladder.GPU_RUNGS
    assert set(RUNGS) == {*TRANSPORTS, *GPU_RUNGS}


def commands_of(parser):
    """The parsers of all commands of a parser, those of their parts included."""
    for action in parser._actions:
        for part in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from commands_of(part) if part.get_default("target") is None else (part,)


def test_every_command_names_a_function_that_is_there():
    commands = list(commands_of(build_parser()))
    assert len(commands) >= 12
    for command in commands:
        module, function = command.get_default("target").split(":")
        assert callable(getattr(import_module(f"pulsemd.cli.{module}"), function)), command.prog
