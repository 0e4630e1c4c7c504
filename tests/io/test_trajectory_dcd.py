"""DCD trajectories: our own reader, an independent one, and the state of the file while it grows."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import InputError
from pulsemd.io.trajectory import DcdWriter, read_dcd

BOXES = {
    "cubic": np.eye(3) * 3.1,
    "triclinic": np.array([[3.0, 0.0, 0.0], [1.0, 2.8, 0.0], [-1.2, 0.9, 2.5]]),
    "left_handed": np.array([[3.0, 0.0, 0.0], [1.0, 2.8, 0.0], [-1.2, 0.9, -2.5]]),
    "rotated": np.array([[0.3, 2.9, -0.4], [-2.7, 0.2, 0.8], [0.5, 0.1, 3.2]]),
}
STANDARD = {"cubic", "triclinic"}  # these are stored as they are


@pytest.fixture(params=sorted(BOXES))
def written(request, tmp_path):
    """A file of three frames, with the box and the positions that were written."""
    box, positions = BOXES[request.param], np.random.default_rng(7).normal(size=(3, 17, 3)) * 4
    with DcdWriter(tmp_path / "run.dcd", 17, dt=0.002, interval=50, first_step=100, title="test") as writer:
        for frame in range(3):
            writer.write(100 + 50 * frame, positions[frame], box)
    return request.param, tmp_path / "run.dcd", box, positions


def test_dcd_read_back_keeps_lattice_and_distances(written):
    name, path, box, positions = written
    trajectory = read_dcd(path)
    assert trajectory.steps.tolist() == [100, 150, 200]
    np.testing.assert_allclose(trajectory.times, [0.2, 0.3, 0.4], rtol=1e-6)
    assert trajectory.title == "test"
    new = trajectory.boxes[0]
    assert np.allclose(np.triu(new, 1), 0)
    assert (np.diag(new) > 0).all()
    fractions = positions @ np.linalg.inv(box)
    if np.linalg.det(box) < 0:
        fractions[..., 2] *= -1
    np.testing.assert_allclose(trajectory.positions @ np.linalg.inv(new), fractions, atol=2e-6)
    apart = np.linalg.norm(positions[1, 0] - positions[1], axis=1)
    apart_new = np.linalg.norm(trajectory.positions[1, 0] - trajectory.positions[1], axis=1)
    np.testing.assert_allclose(apart_new, apart, atol=3e-6)
    if name in STANDARD:
        np.testing.assert_allclose(trajectory.positions, positions, atol=1e-6)
        np.testing.assert_allclose(new, box, atol=1e-14)


def test_dcd_read_by_chemfiles_agrees(written):
    chemfiles = pytest.importorskip("chemfiles", reason="chemfiles, an independent reader, is not installed")
    _, path, _, _ = written
    own = read_dcd(path)
    with chemfiles.Trajectory(str(path)) as trajectory:
        assert trajectory.nsteps == 3
        for frame in range(3):
            read = trajectory.read_step(frame)
            np.testing.assert_allclose(read.positions / 10, own.positions[frame], atol=1e-6)
            np.testing.assert_allclose(np.array(read.cell.matrix).T / 10, own.boxes[frame], atol=1e-12)


def test_dcd_while_running_is_readable_after_every_frame(tmp_path):
    with DcdWriter(tmp_path / "run.dcd", 5, dt=0.001, interval=10) as writer:
        assert len(read_dcd(tmp_path / "run.dcd").steps) == 0
        for frame in range(4):
            writer.write(10 * frame, np.full((5, 3), float(frame)), np.eye(3))
            trajectory = read_dcd(tmp_path / "run.dcd")
            assert trajectory.steps[-1] == 10 * frame
            assert (trajectory.positions[-1] == frame).all()


def test_dcd_frame_not_due_is_refused(tmp_path):
    with DcdWriter(tmp_path / "run.dcd", 5, dt=0.001, interval=10) as writer:
        writer.write(0, np.zeros((5, 3)), np.eye(3))
        with pytest.raises(ValueError, match="step 15"):
            writer.write(15, np.zeros((5, 3)), np.eye(3))
        with pytest.raises(ValueError, match="shape"):
            writer.write(10, np.zeros((4, 3)), np.eye(3))


def test_dcd_existing_file_is_not_overwritten(tmp_path):
    (tmp_path / "run.dcd").write_bytes(b"precious")
    with pytest.raises(InputError, match="not overwritten"):
        DcdWriter(tmp_path / "run.dcd", 5, dt=0.001, interval=10)
    assert (tmp_path / "run.dcd").read_bytes() == b"precious"


def test_dcd_more_atoms_than_the_format_holds_is_refused(tmp_path):
    with pytest.raises(InputError, match="536870911 at most"):
        DcdWriter(tmp_path / "run.dcd", 2**29, dt=0.001, interval=10)
    assert not (tmp_path / "run.dcd").exists()


def test_dcd_goes_on_beyond_the_last_step_of_its_header(tmp_path):
    path, first, x = tmp_path / "late.dcd", 2**31 - 20, np.ones((4, 3))
    with DcdWriter(path, 4, 0.002, 10, first) as writer:
        for step in range(first, first + 50, 10):
            writer.write(step, x, np.eye(3))
    assert read_dcd(path).steps.tolist() == list(range(first, first + 50, 10))
    with DcdWriter(path, 4, 0.002, 10, before=first + 40):
        pass
    assert read_dcd(path).steps.tolist() == list(range(first, first + 40, 10))
    with pytest.raises(InputError, match=f"cannot begin with step {2**31}, .* use --trajectory xtc"):
        DcdWriter(tmp_path / "later.dcd", 4, 0.002, 10, 2**31)


def test_dcd_truncated_file_is_refused(written):
    _, path, _, _ = written
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="does not hold 3 frames"):
        read_dcd(path)
