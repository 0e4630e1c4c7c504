"""Bundled systems and water boxes of any size."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError, InputError
from pulsemd.base.units import ATOMIC_MASS_PER_NM3
from pulsemd.systems import build_system, list_systems, system_files


def read_box(path) -> tuple[np.ndarray, float, list[str]]:
    """Positions (n, 3, 3) [nm] of O, H1, H2, the edge [nm] and all lines."""
    lines = path.read_text().splitlines()
    atoms = np.array([(line[20:28], line[28:36], line[36:44]) for line in lines[2:-1]], dtype=float)
    return atoms.reshape(-1, 3, 3), float(lines[-1].split()[0]), lines


def closest(atoms: np.ndarray, edge: float) -> np.ndarray:
    """Smallest distance (3, 3) [nm] between atoms of different molecules, by kind of atom."""
    best = np.full((3, 3), np.inf)
    for index in range(len(atoms) - 1):
        difference = atoms[index][None, :, None] - atoms[index + 1 :, None]
        difference -= edge * np.rint(difference / edge)
        best = np.minimum(best, np.sqrt((difference**2).sum(axis=-1)).min(axis=0))
    return np.minimum(best, best.T)


def test_systems_list_holds_water_with_all_its_files():
    assert "water" in list_systems()
    files = system_files("water")
    for path in (files.configuration, files.topology, files.parameters):
        assert path.is_file()
    assert "SPC/E" in files.description


def test_systems_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(ConfigError, match=r"'wasser'.*water"):
        system_files("wasser")


@pytest.mark.parametrize("wanted", [1500, 1501, 4000, 10_000])
def test_water_any_size_has_the_density_and_no_overlap(tmp_path, wanted):
    box = build_system("water", wanted, tmp_path / "box")
    atoms, edge, lines = read_box(box.configuration)
    assert box.n_atoms == 3 * round(wanted / 3) == atoms.size // 3 == int(lines[1])
    density = len(atoms) * 18.0154 * ATOMIC_MASS_PER_NM3 / edge**3
    assert density == pytest.approx(998.0, rel=1e-5)
    assert (atoms[:, 0] >= 0).all()
    assert (atoms[:, 0] <= edge + 1e-3).all()
    bonds = np.linalg.norm(atoms[:, [1, 2, 2]] - atoms[:, [0, 0, 1]], axis=2)
    np.testing.assert_allclose(bonds, np.broadcast_to([0.1, 0.1, 0.1633], bonds.shape), atol=2e-3)
    limit = np.array([[0.235, 0.135, 0.135], [0.135, 0.15, 0.15], [0.135, 0.15, 0.15]])
    assert (closest(atoms, edge) > limit).all()
    assert box.topology.read_text().rstrip().endswith(f"SOL  {len(atoms)}")


def test_water_whole_replicas_are_copies_of_the_bundled_box(tmp_path):
    box = build_system("water", 24_000, tmp_path / "box")
    bundled, bundled_edge, _ = read_box(system_files("water").configuration)
    atoms, edge, _ = read_box(box.configuration)
    assert edge == pytest.approx(2 * bundled_edge, abs=1e-4)
    apart = atoms[:8000, 0].reshape(8, 1000, 3) - bundled[:, 0]
    apart -= bundled_edge * np.rint(apart / bundled_edge)
    assert np.abs(apart).max() < 2e-3


def test_water_numbers_beyond_five_digits_wrap(tmp_path):
    box = build_system("water", 303_000, tmp_path / "box")
    lines = box.configuration.read_text().splitlines()
    assert len(lines) == box.n_atoms + 3
    assert lines[2 + 99_998][15:20] == "99999"
    assert lines[2 + 99_999][15:20] == "    0"
    assert lines[2 + 3 * 99_999][:5] == "    0"
    assert {len(line) for line in lines[2:-1]} == {44}


def test_water_too_small_or_too_large_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="at least 1500"):
        build_system("water", 1400, tmp_path)
    with pytest.raises(ConfigError, match="at most 2147483647 atoms"):
        build_system("water", 10**14, tmp_path)


def test_water_existing_files_are_not_overwritten(tmp_path):
    (tmp_path / "run.mdp").write_text("precious")
    with pytest.raises(InputError, match=r"run.mdp: exists already"):
        build_system("water", 1500, tmp_path)
    assert (tmp_path / "run.mdp").read_text() == "precious"
    assert not (tmp_path / "conf.gro").exists()
