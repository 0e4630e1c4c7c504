"""What a run says, and with which exit code, when its input, its disk or its physics fail."""

from __future__ import annotations

import errno
import re
import subprocess
import sys

import numpy as np
import pytest
from run_files import move_molecule, write_input

from pulsemd.cli import main as cli_main
from pulsemd.cli.main import main
from pulsemd.io.checkpoint import read_checkpoint
from pulsemd.io.gromacs.gro import read_gro
from pulsemd.io.trajectory import read_dcd
from pulsemd.io.xdr import XdrWriter
from pulsemd.systems import system_files


def attempt(tmp_path, capsys, words, *more, command="run"):
    """Exit code and standard error of a run in this process."""
    out = ["-o", str(tmp_path / "out")] if command == "run" else []
    code = main([command, *words, *out, "--device", "cpu", *map(str, more)])
    return code, capsys.readouterr().err


@pytest.fixture
def water(tmp_path):
    return write_input(tmp_path, nstenergy=10, nstcalcenergy=10, nstxout_compressed=5)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_overlapping_waters_name_the_atom_its_forces_and_leave_a_frame(tmp_path, capsys, precision):
    words = write_input(tmp_path, edit=lambda lines: move_molecule(lines, 100, 0, 0.02))
    code, said = attempt(tmp_path, capsys, words, "--steps", 60, "--precision", precision)
    assert code == 6
    assert re.search(
        r"error: step 0: SOL 1(01)? \w+ \(atom (1|2|3|301|302|303)\) would move more than a quarter", said
    )
    assert re.search(r"coulomb with SOL 1(01)? OW \(atom (1|301)\) at 0\.", said)
    frame = read_gro(tmp_path / "out" / "crash.gro")
    assert len(frame.positions) == 3000
    assert np.isfinite(frame.positions).all()


def test_overlapping_waters_stop_three_ranks_together_with_the_first_cause(pulsemd):
    words = write_input(pulsemd.folder, edit=lambda lines: move_molecule(lines, 100, 0, 0.0))
    done = pulsemd("run", *words, "-o", "out", "--steps", 60, "--ranks", 3, "--device", "cpu")
    assert done.returncode == 6, done.stderr
    assert done.stderr.count("error:") == 1
    assert re.search(r"error: rank \d, step 0: SOL 1(01)? ", done.stderr)
    assert "Traceback" not in done.stderr
    assert (pulsemd.folder / "out" / "crash.gro").exists()


def test_box_that_shrinks_too_fast_for_the_list_ends_the_run_on_all_ranks(pulsemd):
    scaled = {
        "pcoupl": "berendsen",
        "tau_p": 0.01,
        "compressibility": "4.5e-5",
        "ref_p": 100000,
        "nstpcouple": 1,
    }
    words = write_input(pulsemd.folder, **scaled)
    done = pulsemd("run", *words, "-o", "out", "--steps", 60, "--ranks", 2, "--device", "cpu")
    assert done.returncode == 6, done.stderr
    assert done.stderr.count("error:") == 1
    assert re.search(
        r"step \d+: the barostat changed the box by -[\d.]+ % since the last search", done.stderr
    )


def test_restrained_atoms_with_a_barostat_need_scaled_references(tmp_path, capsys):
    files = system_files("peptide")
    first, *others = files.topology.read_text().split("[ moleculetype ]")
    others[0] += "\n[ position_restraints ]\n1 1 1000 1000 1000\n\n"
    (tmp_path / "topol.top").write_text("[ moleculetype ]".join([first, *others]))
    text = files.parameters.read_text().replace("pcoupl ", "pcoupl = berendsen ;")
    (tmp_path / "run.mdp").write_text(text + "ref-p = 1\ncompressibility = 4.5e-5\n")
    words = ["-f", str(tmp_path / "run.mdp"), "-p", str(tmp_path / "topol.top")]
    words += [word for flag in ("-c", "-r") for word in (flag, str(files.configuration))]
    code, said = attempt(tmp_path, capsys, words, "--steps", 1)
    assert code == 3
    assert "refcoord-scaling = no is not supported with position restraints" in said


def test_overlapping_waters_in_a_single_point_are_an_error_too(tmp_path, capsys):
    words = write_input(tmp_path, edit=lambda lines: move_molecule(lines, 100, 0, 0.0))
    code, said = attempt(tmp_path, capsys, words, command="energy")
    assert code == 6
    assert "error: step 0: SOL 1" in said


def test_single_point_of_a_start_that_cannot_move_has_energies_and_names_the_atom(tmp_path, capsys, caplog):
    files = system_files("peptide")
    lines = files.configuration.read_text().split("\n")
    shift = [float(lines[7][c : c + 8]) + 0.075 - float(lines[-6][c : c + 8]) for c in (20, 28, 36)]
    for k in range(-6, -3):  # the last water pushes the hydrogen of line 7 through its carbon
        old = [float(lines[k][c : c + 8]) for c in (20, 28, 36)]
        lines[k] = lines[k][:20] + "".join(f"{x:8.3f}" for x in np.add(old, shift))
    (tmp_path / "conf.gro").write_text("\n".join(lines))
    words = ["-c", str(tmp_path / "conf.gro"), "-p", str(files.topology), "-f", str(files.parameters)]
    code, said = attempt(tmp_path, capsys, words, command="energy")
    assert code == 0, said
    assert re.search(r"no step is possible from here.*\n.*SOL 1866 OW \(atom 5840\) would move", caplog.text)
    assert "lj with ASN 1 HA (atom 6) at 0.1288 nm" in caplog.text
    code, said = attempt(tmp_path, capsys, words, "--steps", 10)
    assert code == 6
    assert "error: step 0: SOL 1866 OW (atom 5840) would move" in said


def test_velocity_of_5e5_on_one_atom_names_it(tmp_path):
    from pulsemd.base.errors import UnstableError
    from pulsemd.engine.options import RunOptions
    from pulsemd.engine.simulation import Simulation
    from pulsemd.engine.system import prepare_system
    from pulsemd.halo import open_transport
    from pulsemd.io.gromacs.system import read_system

    words = write_input(tmp_path)
    topology, table, configuration, settings = read_system(words[1], words[5], words[3])
    system = prepare_system(
        topology, table, settings, configuration.positions, configuration.velocities, configuration.box
    )
    system.v[3:6] = 5e5
    crashed = []
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, RunOptions(), [], lambda frame: str(crashed.append(frame)))
        with pytest.raises(
            UnstableError, match=r"step 0: SOL 2 \w+ \(atom [456]\) would move more than a quarter"
        ):
            simulation.run(50)
    assert (crashed[0].x == system.x).all()


def test_stretched_bond_of_a_peptide_is_among_the_force_terms(tmp_path):
    from pulsemd.engine.blowup import force_terms
    from pulsemd.engine.system import prepare_system
    from pulsemd.io.gromacs.system import read_system
    from pulsemd.systems import system_files

    files = system_files("peptide")
    topology, table, configuration, settings = read_system(
        files.configuration, files.topology, files.parameters
    )
    system = prepare_system(topology, table, settings, configuration.positions, None, configuration.box)
    bonds = topology.terms["bond"]
    i, j = (int(atom) for atom in bonds.atoms[0])
    (length, k), single = bonds.parameters[bonds.index[0]], (bonds.atoms == i).any(1).sum() == 1
    d = (system.x[i] - system.x[j]) / 2**32 @ system.box
    stretched = system.x.copy()
    stretched[i] += np.rint(d / np.linalg.norm(d) * 0.1 @ np.linalg.inv(system.box) * 2**32).astype(np.int32)
    found = {text.split(",")[0].split(" with")[0]: size for size, text in force_terms(system, i, stretched)}
    expected = k * (np.linalg.norm(d) + 0.1 - length)
    assert found["bond"] == pytest.approx(expected, rel=1e-4 if single else 0.5)
    assert {"lj", "coulomb", "angle"} <= set(found)


def test_temperature_beyond_reason_is_refused_as_input(tmp_path, capsys):
    code, said = attempt(tmp_path, capsys, write_input(tmp_path, gen_temp=1e15))
    assert code == 3
    assert "(atom 1)" in said


def test_position_that_is_no_number_is_refused_with_its_line(tmp_path, capsys):
    def edit(lines):
        lines[12] = lines[12][:20] + "     nan" + lines[12][28:]

    code, said = attempt(tmp_path, capsys, write_input(tmp_path, edit=edit))
    assert code == 3
    assert "run.gro:13: SOL 4 HW1 (atom 11)" in said


def test_molecule_50_boxes_away_is_wrapped_with_a_note(tmp_path, capsys):
    box = float(read_gro(write_input(tmp_path)[1]).box[0, 0])
    words = write_input(tmp_path, edit=lambda lines: move_molecule(lines, 0, 0, 50 * round(box, 5)))
    code, said = attempt(tmp_path, capsys, words, "--steps", 20)
    assert code == 0
    assert "note: 3 atom(s) more than 10 box lengths away, SOL 1 OW (atom 1) the first" in said


def test_cutoff_above_half_the_width_is_refused(tmp_path, capsys):
    code, said = attempt(tmp_path, capsys, write_input(tmp_path, rcoulomb=1.9, rvdw=1.9))
    assert code == 4
    assert "half" in said


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        (("--ranks", 2), "no grid of 2 ranks fits: the halo of 1.6000 nm"),
        (("--ranks", 4, "--grid", "1x2x2"), "grid 1x2x2 does not fit"),
        (("--ranks", 2, "-n", "absent.ndx"), "absent.ndx"),
        (("--ranks", 99_999_999), "so many would stall this machine"),
    ],
)
def test_ranks_that_cannot_run_are_refused_before_they_start_and_no_folder_is_left(
    tmp_path, capsys, more, refused
):
    words = write_input(tmp_path, rcoulomb=1.4, rvdw=1.4, nsteps=0)
    for command in ("run", "energy"):
        code, said = attempt(tmp_path, capsys, words, *more, command=command)
        assert code in (2, 3, 4)
        assert refused in said
        assert "starting" not in said
    assert not (tmp_path / "out").exists()


def test_refused_input_leaves_an_empty_folder_that_was_there(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    words = write_input(tmp_path, rcoulomb=1.7, rvdw=1.7)
    code, _ = attempt(tmp_path, capsys, words)
    assert code == 4
    assert (tmp_path / "out").exists()


def test_empty_name_of_a_folder_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["run", "water", "-o", ""])
    assert "-o: the name of the folder is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(errno.EACCES, "no access", "x"), "error: x: no access; give a file"),
        (OSError(errno.ENOSPC, "disk full"), "error: disk full; free some space, or set PULSEMD_CACHE_DIR"),
        (MemoryError("37 MiB"), "error: there is not enough memory (37 MiB); use fewer ranks"),
    ],
)
def test_error_of_the_machine_is_no_bug(capsys, monkeypatch, error, said):
    def fail(args):
        raise error

    monkeypatch.setattr(cli_main, "dispatch", fail)
    assert main(["systems"]) == 4
    assert said in capsys.readouterr().err


def test_run_with_closed_streams_writes_its_results(tmp_path):
    words = " ".join(write_input(tmp_path))
    command = f"{sys.executable} -m pulsemd.cli.main run {words} -o out --steps 2 --ranks 2 --device cpu"
    done = subprocess.run(f"exec {command} <&- >&- 2>&-", shell=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 0
    assert (tmp_path / "out" / "summary.json").exists()
    assert len((tmp_path / "out" / "energies.csv").read_text().splitlines()) == 3


def test_results_that_exist_are_not_overwritten(tmp_path, capsys, water):
    assert attempt(tmp_path, capsys, water, "--steps", 10)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    code, said = attempt(tmp_path, capsys, water, "--steps", 20)
    assert code == 3
    assert "exists already and is not overwritten" in said
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_trajectory_without_chemfiles_is_refused_before_anything_is_made(
    tmp_path, capsys, water, monkeypatch
):
    monkeypatch.setitem(sys.modules, "chemfiles", None)
    code, said = attempt(tmp_path, capsys, water, "--trajectory", "xtc")
    assert code == 2
    assert "pip install 'pulsemd[xtc]', or use --trajectory dcd" in said
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_made_is_an_error_before_the_run(tmp_path, capsys, water):
    (tmp_path / "file").write_text("")
    assert main(["run", *water, "-o", str(tmp_path / "file" / "out"), "--device", "cpu"]) == 4
    assert "cannot be made" in capsys.readouterr().err
    assert main(["build", "water", "--atoms", "1500", "-o", str(tmp_path / "file" / "out")]) == 4
    assert "cannot be made" in capsys.readouterr().err


def test_folder_that_is_read_only_is_an_error_before_the_run(tmp_path, capsys, water, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    code, said = attempt(tmp_path, capsys, water)
    assert code == 4
    assert "cannot be written to" in said


@pytest.mark.parametrize("kind", ["dcd", "xtc"])
def test_full_disk_ends_the_run_with_whole_frames(tmp_path, water, kind):
    if kind == "xtc":
        pytest.importorskip("chemfiles")
    limit = 600_000
    words = ["run", *water, "-o", "out", "--steps", "500", "--device", "cpu", "--trajectory", kind]
    limits = f"r.setrlimit(r.RLIMIT_FSIZE, ({limit},) * 2)"
    code = (
        f"import resource as r, sys; from pulsemd.cli.main import main; {limits}; sys.exit(main({words!r}))"
    )
    main(["energy", *water, "--device", "cpu"])  # compiles what is not in the cache
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 4, done.stderr
    assert f"error: out/trajectory.{kind}: cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    if kind == "dcd":
        trajectory = read_dcd(tmp_path / "out" / "trajectory.dcd")
        assert len(trajectory.steps) == (limit - 276) // (12 * 3000 + 80)
    else:
        path = tmp_path / "out" / "trajectory.xtc"
        size = path.stat().st_size
        with XdrWriter(path, "xtc", 3000, 0.002, interval=10**6, before=10**6):
            assert path.stat().st_size == size > limit - 20_000


def damaged(tmp_path, capsys, water):
    """A run with two checkpoints, the newer one cut off."""
    assert attempt(tmp_path, capsys, water, "--steps", 27)[0] == 0
    path = tmp_path / "out" / "checkpoint.pmd"
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def test_truncated_checkpoint_is_refused_and_names_the_one_before(tmp_path, capsys, water):
    path = damaged(tmp_path, capsys, water)
    code, said = attempt(tmp_path, capsys, water, "--steps", 40, "--restart", path)
    assert code == 3
    assert "damaged or cut off" in said
    assert "the one before it is whole, of step 0: --restart" in said
    code, said = attempt(
        tmp_path, capsys, water, "--steps", 40, "--restart", path.with_name("checkpoint.prev.pmd")
    )
    assert code == 0, said
    assert "takes the place of" in said
    assert read_checkpoint(path).step == 40


def test_changed_byte_of_a_checkpoint_is_noticed(tmp_path, capsys, water):
    path = damaged(tmp_path, capsys, water)
    content = bytearray(path.with_name("checkpoint.prev.pmd").read_bytes())
    content[len(content) // 2] ^= 1
    path.with_name("checkpoint.prev.pmd").write_bytes(content)
    code, said = attempt(tmp_path, capsys, water, "--restart", path)
    assert code == 3
    assert "checkpoint.prev.pmd is no help" in said


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"dt": 0.001}, "dt is 0.002 there and 0.001 now"),
        ({"ref_t": 310}, "ref_t is 300.0 there and 310.0 now"),
    ],
)
def test_restart_with_another_setting_is_refused_by_name(tmp_path, capsys, water, change, what):
    assert attempt(tmp_path, capsys, water, "--steps", 10)[0] == 0
    code, said = attempt(tmp_path, capsys, write_input(tmp_path, **change), "--restart", tmp_path / "out")
    assert code == 3
    assert what in said
    assert "others need a new run, from the final.gro of this one" in said


def test_restart_with_another_precision_or_nothing_to_do_is_refused(tmp_path, capsys, water):
    assert attempt(tmp_path, capsys, water, "--steps", 10)[0] == 0
    again = ["--restart", tmp_path / "out", "--steps", 10]
    code, said = attempt(tmp_path, capsys, water, *again, "--precision", "reproducible")
    assert code == 3
    assert "give --precision fast" in said
    code, said = attempt(tmp_path, capsys, water, *again)
    assert code == 2
    assert "has come to step 10 of 10 already" in said


def test_restart_from_a_checkpoint_that_is_not_there_is_refused_as_such(tmp_path, capsys, water):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "energies.csv").write_text("step\n")
    for given, missing in ((tmp_path / "nowhere", "nowhere"), (tmp_path / "out", "out/checkpoint.pmd")):
        code, said = attempt(tmp_path, capsys, water, "--restart", given)
        assert code == 3
        assert f"{missing}: does not exist; give a checkpoint" in said


def test_restart_repairs_half_records_and_refuses_missing_frames_and_lines(tmp_path, capsys, water):
    assert attempt(tmp_path, capsys, water, "--steps", 27)[0] == 0
    out = tmp_path / "out"
    for name in ("energies.csv", "trajectory.dcd"):
        with open(out / name, "ab") as handle:
            handle.write(b"27,0.05")
    assert attempt(tmp_path, capsys, water, "--steps", 40, "--restart", out)[0] == 0
    assert read_dcd(out / "trajectory.dcd").steps.tolist() == list(range(0, 41, 5))
    steps = [int(line.split(",")[0]) for line in (out / "energies.csv").read_text().split("\n")[1:-1]]
    assert steps == [0, 10, 20, 30, 40]
    content = (out / "trajectory.dcd").read_bytes()
    (out / "trajectory.dcd").write_bytes(content[: len(content) // 2])
    code, said = attempt(tmp_path, capsys, water, "--steps", 50, "--restart", out)
    assert code == 3
    assert "frames up to the checkpoint's step 40 are missing" in said
    (out / "trajectory.dcd").write_bytes(content[:1000])
    assert "has no whole frame" in attempt(tmp_path, capsys, water, "--steps", 50, "--restart", out)[1]
    (out / "trajectory.dcd").write_bytes(content)
    lines = (out / "energies.csv").read_text().splitlines(keepends=True)
    (out / "energies.csv").write_text("".join(lines[:3]))
    code, said = attempt(tmp_path, capsys, water, "--steps", 50, "--restart", out)
    assert code == 3
    assert "energies.csv: ends with step 10, and lines up to the checkpoint's step 40 are missing" in said


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"pbc": "no"}, "pbc"),
        ({"pbc": "xy", "nwall": 2}, "pbc"),
        ({"nwall": 2}, "nwall"),
        ({"pull": "yes"}, "pull"),
        ({"free_energy": "yes"}, "free-energy"),
        ({"freezegrps": "SOL", "freezedim": "Y Y N"}, "freezedim"),
    ],
)
def test_feature_that_is_not_supported_is_refused_by_name_and_line(tmp_path, capsys, settings, what):
    code, said = attempt(tmp_path, capsys, write_input(tmp_path, **settings))
    assert code == 3
    assert f"{what} = " in said
    assert "run.mdp:" in said
