"""Boxes of the bundled mixture in any size, and what the bundled systems are."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError
from pulsemd.base.units import ATOMIC_MASS_PER_NM3
from pulsemd.io.gromacs import read_gro, read_top
from pulsemd.systems import BUILDABLE, build_system, list_systems, system_files

LIMIT = {"OO": 0.225, "HO": 0.13, "HH": 0.125, "CO": 0.25, "CH": 0.18, "CC": 0.28}
"""A little below what was removed: atoms come closer when the molecules are moved together."""


def test_systems_list_holds_mixture_and_peptide():
    assert set(list_systems()) >= {"water", "water-ethanol", "peptide"}
    assert set(BUILDABLE) <= set(list_systems())


@pytest.mark.parametrize("name", ["water", "water-ethanol", "peptide"])
def test_systems_topology_needs_no_force_field_folder_and_is_neutral(name, monkeypatch):
    monkeypatch.delenv("GMXLIB", raising=False)
    files = system_files(name)
    assert "#include" not in files.topology.read_text()
    topology, _ = read_top(files.topology)
    assert abs(topology.charge.sum()) < 1e-6
    assert topology.n_atoms == len(read_gro(files.configuration).positions)
    assert topology.title == files.description or name == "water"


def test_systems_mixture_is_a_tenth_ethanol_by_mass():
    topology, _ = read_top(system_files("water-ethanol").topology)
    ethanol = topology.mass[: topology.blocks[1].first_atom].sum()
    assert ethanol / topology.mass.sum() == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("wanted", [1500, 4321, 20_000])
def test_mixture_any_size_has_composition_density_and_no_overlap(tmp_path, wanted):
    box = build_system("water-ethanol", wanted, tmp_path / "box")
    topology, _ = read_top(box.topology)
    frame = read_gro(box.configuration)
    assert topology.n_atoms == box.n_atoms == len(frame.positions)
    assert abs(box.n_atoms - wanted) <= 2
    ethanol, water = (block.n_molecules for block in topology.blocks)
    assert ethanol == round(wanted * 44 / 3432)
    density = topology.mass.sum() / box.edge**3 * ATOMIC_MASS_PER_NM3
    assert density == pytest.approx(954.4, abs=0.2)
    assert water == round((wanted - 9 * ethanol) / 3)
    kind = np.array([name[:1].decode() for name in topology.labels(0, topology.n_atoms).atom_name])
    for pair, limit in LIMIT.items():
        assert closest(frame.positions, kind, topology.molecule, pair, box.edge) > limit, pair


def closest(positions, kind, molecule, pair, edge) -> float:
    """Smallest distance of atoms of two elements in different molecules, nm."""
    from scipy.spatial import cKDTree

    trees = [(np.flatnonzero(kind == element)) for element in pair]
    first, second = (cKDTree(positions[rows] % edge, boxsize=edge * (1 + 1e-12)) for rows in trees)
    found = first.sparse_distance_matrix(second, 0.35, output_type="coo_matrix")
    apart = molecule[trees[0][found.row]] != molecule[trees[1][found.col]]
    return float(found.data[apart].min(initial=0.35))


def test_mixture_whole_replicas_are_copies_of_the_bundled_box(tmp_path):
    box = build_system("water-ethanol", 8 * 3432, tmp_path / "box")
    bundled, frame = read_gro(system_files("water-ethanol").configuration), read_gro(box.configuration)
    edge = bundled.box[0, 0]
    apart = frame.positions[: 8 * 44 * 9].reshape(8, -1, 3) - bundled.positions[: 44 * 9]
    apart -= edge * np.rint(apart / edge)
    assert np.abs(apart).max() < 2e-3


def test_build_of_a_solute_is_refused_with_the_systems_there_are(tmp_path):
    with pytest.raises(ConfigError, match=r"one size only.*water-ethanol"):
        build_system("peptide", 10_000, tmp_path)
