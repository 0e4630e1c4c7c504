"""`pulsemd run` with integrator = steep or l-bfgs: files, what is said, exit codes."""

from __future__ import annotations

import json
import re

import pytest
from run_files import move_molecule, write_input

from pulsemd.cli.main import main
from pulsemd.cli.stop import StopRequest
from pulsemd.io.energies import read_energies
from pulsemd.io.gromacs import read_gro


def overlap(lines):
    move_molecule(lines, 5, 10, 0.001)


def start(folder, *more, edit=overlap, **settings):
    words = write_input(folder, edit=edit, **{"integrator": "steep", "nsteps": 60, "emtol": 2000} | settings)
    return main(["run", *words, "-o", str(folder / "out"), "--device", "cpu", *more])


def test_a_minimisation_writes_the_files_of_a_run_and_says_that_it_converged(tmp_path, capsys):
    assert start(tmp_path, "--xvg") == 0
    said = capsys.readouterr().err
    assert "\nconverged after" in said
    assert re.search(r"note: tcoupl, .*gen_vel.* \(not for minimisation\)\n", said)
    assert "nstlist 20, steep to emtol 2000 kJ/mol/nm, 60 steps" in said
    out = tmp_path / "out"
    assert sorted(file.name for file in out.iterdir()) == [
        *("energies.csv", "energies.xvg", "final.gro", "run.mdp", "summary.json")
    ]
    table = read_energies(out / "energies.csv")
    assert table["potential"][0] > 1e8
    summary = json.loads((out / "summary.json").read_text())
    found = summary["minimisation"]
    assert found["converged"] is True
    assert found["integrator"] == "steep"
    assert summary["energies"]["max_force"] == table["max_force"][-1] < 2000
    assert found["steps"] == table["step"][-1] <= 60
    assert len(summary["trajectory_hash"]) == 64
    assert read_gro(out / "final.gro").velocities is None
    assert "emtol                    = 2000" in (out / "run.mdp").read_text()


def test_the_final_positions_of_a_minimisation_start_a_run(tmp_path):
    assert start(tmp_path) == 0
    top, mdp = write_input(tmp_path, "md", tcoupl="no")[5], str(tmp_path / "md.mdp")
    words = ["-c", str(tmp_path / "out" / "final.gro"), "-p", top, "-f", mdp, "--steps", "20"]
    assert main(["run", *words, "-o", str(tmp_path / "md"), "--device", "cpu"]) == 0


def test_a_minimisation_that_does_not_converge_says_so_and_exits_0(tmp_path, capsys):
    assert start(tmp_path, "--steps", "2", "--json") == 0
    captured = capsys.readouterr()
    assert (
        "NOT CONVERGED after 2 steps: a force is above emtol = 2000 kJ/mol/nm still; raise nsteps"
        in captured.err
    )
    assert json.loads(captured.out)["minimisation"]["converged"] is False


def test_limited_memory_with_rigid_water_is_refused_with_the_remedy(tmp_path, capsys):
    assert start(tmp_path, edit=None, integrator="l-bfgs", constraints="none") == 3
    assert "use integrator = steep, or a flexible model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"integrator": "l-bfgs", "constraints": "h-bonds"},
            "l-bfgs moves atoms freely, not with constraints",
        ),
        ({"emtol": 0}, "emtol = 0.0 must be positive"),
        ({"emstep": -1}, "emstep = -1.0 must be positive"),
        ({"nbfgscorr": 0}, "nbfgscorr = 0 must be at least 1"),
    ],
)
def test_options_of_minimisation_that_make_no_sense_are_refused_with_their_line(
    tmp_path, capsys, settings, message
):
    assert start(tmp_path, edit=None, **settings) == 3
    said = capsys.readouterr().err
    (line,) = [text for text in said.split("\n") if text.startswith("error:")]
    assert message in line
    assert "run.mdp:" in line


@pytest.mark.parametrize("flags", [("--trace",), ("--trajectory", "xtc"), ("--positions", "whole")])
def test_flags_for_what_a_minimisation_does_not_write_are_refused(tmp_path, capsys, flags):
    assert start(tmp_path, *flags, edit=None) == 2
    assert "writes neither trace nor trajectory; leave them out" in capsys.readouterr().err


def test_a_restart_of_a_minimisation_is_refused_with_the_remedy(tmp_path, capsys):
    words = write_input(tmp_path, nsteps=20)
    assert main(["run", *words, "-o", str(tmp_path / "md"), "--device", "cpu"]) == 0
    assert start(tmp_path, "--restart", str(tmp_path / "md"), edit=None) == 2
    assert "give the final.gro it left as -c" in capsys.readouterr().err


def test_an_interrupted_minimisation_leaves_its_positions_and_exits_130(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(StopRequest, "asked", lambda _: True)
    assert start(tmp_path) == 130
    assert "interrupted; a minimisation from final.gro goes on" in capsys.readouterr().err
    assert (tmp_path / "out" / "final.gro").exists()


def test_a_minimisation_ends_when_its_time_is_up(tmp_path, capsys):
    assert start(tmp_path, "--max-hours", "0") == 0
    assert "NOT CONVERGED after 0 steps: time is up" in capsys.readouterr().err
