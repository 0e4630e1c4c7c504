"""Trajectories of runs: XTC and TRR beside DCD, continued files, whole and unwrapped molecules."""

from __future__ import annotations

import numpy as np
import pytest
from run_files import write_input

from pulsemd.base.errors import InputError
from pulsemd.cli.main import main
from pulsemd.io.energies import read_energies
from pulsemd.io.gromacs.gro import read_gro
from pulsemd.io.trajectory import DcdWriter, read_dcd
from pulsemd.io.xdr import XdrWriter

chemfiles = pytest.importorskip("chemfiles")


def frames(path):
    """Steps, times [ps], positions [nm], velocities [nm/ps] and edges of a file, as chemfiles reads it."""
    with chemfiles.Trajectory(str(path)) as file:
        read = [file.read_step(k) for k in range(file.nsteps)]
    return [
        (
            f.step,
            f["time"],
            f.positions / 10.0,
            f.velocities / 10.0 if f.has_velocities() else None,
            f.cell.lengths,
        )
        for f in read
    ]


@pytest.mark.parametrize(("kind", "error"), [("xtc", 6e-4), ("trr", 4e-6)])
@pytest.mark.parametrize("n_atoms", [5, 50])
def test_frames_cut_off_or_late_are_dropped_when_continued(tmp_path, kind, error, n_atoms):
    path, x = tmp_path / f"t.{kind}", np.random.default_rng(1).random((n_atoms, 3)) * 4.0
    with XdrWriter(path, kind, n_atoms, 0.002, 1.0) as writer:
        for step in range(0, 50, 10):
            writer.write(step, x + step, np.eye(3) * 4.0, x - step)
    with open(path, "ab") as handle:
        handle.write(path.read_bytes()[:100])
    with XdrWriter(path, kind, n_atoms, 0.002, 1.0, interval=10, before=30) as writer:
        writer.write(30, x + 30, np.eye(3) * 4.0, x - 30)
    read = frames(path)
    assert [step for step, *_ in read] == [0, 10, 20, 30]
    assert [time for _, time, *_ in read] == pytest.approx([1.0, 1.02, 1.04, 1.06])
    for step, _, positions, velocities, edges in read:
        assert np.abs(positions - x - step).max() < error
        assert (velocities is None) == (kind == "xtc")
        assert velocities is None or np.abs(velocities - x + step).max() < error
        assert edges == pytest.approx([40.0, 40.0, 40.0])
    with pytest.raises(InputError, match="ends with step 30, and frames up to the checkpoint's step 60"):
        XdrWriter(path, kind, n_atoms, 0.002, 1.0, interval=10, before=60)
    with pytest.raises(InputError, match=f"no {kind.upper()} frame of 20 atoms"):
        XdrWriter(path, kind, 20, 0.002, 1.0, interval=10, before=30)


@pytest.mark.parametrize("kind", ["xtc", "trr"])
def test_steps_beyond_those_of_the_formats_are_counted_on_and_cut_back(tmp_path, kind):
    path, x, first = tmp_path / f"t.{kind}", np.ones((20, 3)), 2**31 - 20
    with XdrWriter(path, kind, 20, 0.002) as writer:
        for step in range(first, first + 50, 10):
            writer.write(step, x, np.eye(3) * 4.0, x)
    with XdrWriter(path, kind, 20, 0.002, interval=10, before=first + 30):
        pass
    assert [step for step, *_ in frames(path)] == [2**31 - 20, 2**31 - 10, 0]
    with pytest.raises(InputError, match=f"ends with step {2**31}, and frames up to"):
        XdrWriter(path, kind, 20, 0.002, interval=10, before=first + 40)


@pytest.mark.parametrize("kind", ["xtc", "trr"])
def test_trajectory_of_a_restarted_run_equals_the_dcd_of_a_whole_one(tmp_path, kind):
    words = [*write_input(tmp_path, nstxout_compressed=5), "--precision", "reproducible", "--device", "cpu"]
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert main(["run", *words, "-o", str(whole), "--steps", "20"]) == 0
    other = [*words, "-o", str(part), "--trajectory", kind]
    assert main(["run", *other, "--steps", "12"]) == 0
    assert main(["run", *other, "--steps", "20", "--restart", str(part), "--xvg"]) == 0
    dcd, read = read_dcd(whole / "trajectory.dcd"), frames(part / f"trajectory.{kind}")
    assert [step for step, *_ in read] == dcd.steps.tolist() == [0, 5, 10, 15, 20]
    for (_, _, positions, *_), expected in zip(read, dcd.positions, strict=True):
        assert np.abs(positions - expected).max() < (6e-4 if kind == "xtc" else 1e-6)
    if kind == "trr":
        final = read_gro(part / "final.gro").velocities
        assert np.abs(read[-1][3] - final).max() < 1e-4
    xvg = [line for line in (part / "energies.xvg").read_text().split("\n") if line and line[0] not in "@#"]
    table = read_energies(part / "energies.csv")
    assert np.array([line.split() for line in xvg], float)[:, 0].tolist() == table["time_ps"].tolist()


def test_dcd_continued_with_another_interval_or_system_is_refused(tmp_path):
    with DcdWriter(tmp_path / "t.dcd", 5, 0.002, 10) as writer:
        writer.write(0, np.zeros((5, 3)), np.eye(3))
    with pytest.raises(InputError, match="every 10 steps, not 20"):
        DcdWriter(tmp_path / "t.dcd", 5, 0.002, 20, before=10)
    with pytest.raises(InputError, match="no DCD file of 6 atoms"):
        DcdWriter(tmp_path / "t.dcd", 6, 0.002, 10, before=10)


def test_unwrapped_positions_go_on_over_a_restart_and_never_jump(tmp_path):
    settings = {"gen_temp": 3000, "ref_t": 3000, "nstxout_compressed": 10, "dt": 0.001}
    words = [*write_input(tmp_path, **settings), "--precision", "reproducible", "--device", "cpu"]
    unwrapped = [*words, "--positions", "unwrapped"]
    assert main(["run", *unwrapped, "-o", str(tmp_path / "u"), "--steps", "100"]) == 0
    assert main(["run", *unwrapped, "-o", str(tmp_path / "r"), "--steps", "53"]) == 0
    assert (
        main(
            ["run", *unwrapped, "-o", str(tmp_path / "r"), "--steps", "100", "--restart", str(tmp_path / "r")]
        )
        == 0
    )
    assert (
        main(["run", *words, "-o", str(tmp_path / "r"), "--steps", "120", "--restart", str(tmp_path / "r")])
        == 3
    )
    assert main(["run", *words, "-o", str(tmp_path / "w"), "--steps", "100"]) == 0
    assert (tmp_path / "u" / "trajectory.dcd").read_bytes() == (
        tmp_path / "r" / "trajectory.dcd"
    ).read_bytes()
    u, w = (read_dcd(tmp_path / name / "trajectory.dcd") for name in "uw")
    edge = u.boxes[0][0, 0]
    assert np.abs(np.diff(u.positions, axis=0)).max() < 0.3 * edge
    assert (
        np.abs(np.diff(w.positions, axis=0)).max() > 0.5 * edge
    )  # whole molecules do jump over the boundary
    images = (u.positions - w.positions) / edge
    assert np.abs(images - np.rint(images)).max() < 1e-4
    assert np.abs(np.linalg.norm(u.positions[:, ::3] - u.positions[:, 1::3], axis=2) - 0.1).max() < 1e-3


def test_molecule_across_the_boundary_is_whole_along_its_bonds():
    from types import SimpleNamespace

    from pulsemd.engine.molecules import bond_tree

    n = 12
    bonds = np.column_stack([np.arange(n - 1), np.arange(1, n)]).astype(np.int32)[
        [5, 0, 1, 2, 3, 4, 10, 9, 8, 7, 6]
    ]
    topology = SimpleNamespace(
        n_atoms=n,
        leader=np.arange(n, dtype=np.int32),
        terms={"bond": SimpleNamespace(atoms=bonds)},
        settle_atoms=np.zeros((0, 3), np.int32),
    )
    step = 2**29  # a chain of twelve bonds of an eighth of the box is longer than the box
    x = np.zeros((n, 3), np.int64)
    x[:, 0] = step * np.arange(n)
    tree = bond_tree(topology)
    assert (tree.root == 0).all()
    assert (tree.offsets(x.astype(np.int64).astype(np.int32)) == x).all()


def test_run_with_an_xtc_continued_without_saying_so_names_the_flag(tmp_path, capfd):
    words = [*write_input(tmp_path, nstxout_compressed=5), "--device", "cpu", "-o", str(tmp_path / "out")]
    assert main(["run", *words, "--trajectory", "xtc", "--steps", "10"]) == 0
    assert main(["run", *words, "--steps", "20", "--restart", str(tmp_path / "out")]) == 3
    assert "trajectory.xtc: is to go on as trajectory.dcd; give --trajectory xtc" in capfd.readouterr().err
