"""Bonded topologies: the energy that follows from the records, term by term in NumPy, equals that of gmx."""

from __future__ import annotations

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from pulsemd.base.errors import InputError
from pulsemd.base.units import COULOMB
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs import read_gro, read_settings, read_system, read_top
from pulsemd.topology.records import Topology

DATA = Path(__file__).parent / "data" / "top"
with (DATA / "gmx-energies.csv").open() as _handle:
    ROWS = list(csv.DictReader(line for line in _handle if not line.startswith("#")))
ENERGIES = {
    row["case"]: float(row["gmx_potential_kJ_per_mol"])
    for row in ROWS
    if row["gmx_potential_kJ_per_mol"] != "refused"
    and not row["case"].startswith("vsite")  # sites move first
}
REFUSED = [row["case"] for row in ROWS if row["gmx_potential_kJ_per_mol"] == "refused"]


def angle(x: np.ndarray) -> float:
    a, b = x[0] - x[1], x[2] - x[1]
    return float(np.arccos(a @ b / np.sqrt((a @ a) * (b @ b))))


def dihedral(x: np.ndarray) -> float:
    """Torsion in the IUPAC convention, trans = 180 degrees."""
    a, b, c = x[1] - x[0], x[2] - x[1], x[3] - x[2]
    m, n = np.cross(a, b), np.cross(b, c)
    return float(np.arctan2(np.sqrt(b @ b) * (a @ n), m @ n))


def term_energy(kind: str, x: np.ndarray, p: np.ndarray, qq: float, origin: np.ndarray) -> float:
    """Energy of one term by the formulas of the GROMACS manual 2022, chapter 5.2."""
    r = np.linalg.norm(x[0] - x[-1])
    if kind == "constraint":
        return 0.0
    if kind == "bond":
        return 0.5 * p[1] * (r - p[0]) ** 2
    if kind in ("angle", "urey_bradley"):
        energy = 0.5 * p[1] * (angle(x) - np.radians(p[0])) ** 2
        return energy + (0.5 * p[3] * (r - p[2]) ** 2 if len(p) == 4 else 0.0)
    if kind == "morse_bond":
        return p[1] * (1 - np.exp(-p[2] * (r - p[0]))) ** 2
    if kind == "fene_bond":
        return -0.5 * p[1] * p[0] ** 2 * np.log(1 - (r / p[0]) ** 2)
    if kind == "cosine_angle":
        return 0.5 * p[1] * (np.cos(angle(x)) - np.cos(np.radians(p[0]))) ** 2
    if kind == "quartic_angle":
        return float(np.polyval(p[:0:-1], angle(x) - np.radians(p[0])))
    if kind == "fourier":
        phi = dihedral(x)
        return 0.5 * sum(p[n - 1] * (1 - (-1) ** n * np.cos(n * phi)) for n in range(1, 5))
    if kind in ("proper", "periodic_improper"):
        return p[1] * (1 + np.cos(p[2] * dihedral(x) - np.radians(p[0])))
    if kind == "improper":
        difference = dihedral(x) - np.radians(p[0])
        return 0.5 * p[1] * (difference - 2 * np.pi * np.round(difference / (2 * np.pi))) ** 2
    if kind == "ryckaert_bellemans":
        return float(np.polyval(p[::-1], np.cos(dihedral(x) - np.pi)))
    if kind == "charged_pair14":
        return p[1] / r**12 - p[0] / r**6 + p[2] * COULOMB / r
    if kind == "lj14":
        return p[1] / r**12 - p[0] / r**6 + p[2] * COULOMB * qq / r
    assert kind == "position_restraint"
    return float(0.5 * p @ (x[0] - origin) ** 2)


def potential(
    topology: Topology, table: LennardJonesTable, x: np.ndarray, cutoff: float, epsilon_rf: float
) -> float:
    """All terms, Lennard-Jones and reaction field with its exclusion and self terms."""
    origin = read_gro(DATA / "ref.gro").positions
    q, kind = topology.charge, topology.type_index
    energy = 0.0
    for name, terms in topology.terms.items():
        for atoms, row in zip(terms.atoms, terms.index, strict=True):
            qq = q[atoms[0]] * q[atoms[-1]]
            energy += term_energy(name, x[atoms], terms.parameters[row], qq, origin[atoms[0]])
    k_rf = (epsilon_rf - 1) / (2 * epsilon_rf + 1) / cutoff**3
    c_rf = 1 / cutoff + k_rf * cutoff**2
    excluded = np.split(topology.exclusion_atoms, topology.exclusion_offset[1:-1])
    for i, j in combinations(range(len(x)), 2):
        r = np.linalg.norm(x[i] - x[j])
        energy += COULOMB * q[i] * q[j] * (k_rf * r**2 - c_rf)
        if j not in excluded[i]:
            energy += COULOMB * q[i] * q[j] / r
            energy += table.c12[kind[i], kind[j]] / r**12 - table.c6[kind[i], kind[j]] / r**6
    return energy - 0.5 * COULOMB * c_rf * float(q @ q)


@pytest.mark.parametrize("case", sorted(ENERGIES))
def test_top_energy_from_records_equals_gmx(case: str) -> None:
    mdp = "mp" if case == "posres_on" else "mrf" if case.startswith("charged") else "m"
    settings = read_settings(DATA / f"{mdp}.mdp")[0]
    topology, table = read_top(DATA / f"{case}.top", settings)
    x = read_gro(DATA / "c.gro").positions
    energy = potential(topology, table, x, settings.rcoulomb, settings.epsilon_rf)
    assert energy == pytest.approx(ENERGIES[case], rel=2e-4, abs=2e-4)


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_top_case_that_gmx_refuses_is_refused_with_file_and_line(case: str) -> None:
    with pytest.raises(InputError) as caught:
        read_system(DATA / "c.gro", DATA / f"{case}.top", DATA / "m.mdp")
    assert caught.value.line is not None
    assert caught.value.file in (str(DATA / f"{case}.top"), str(DATA / "c.gro"))


BONDED = DATA.parent / "bonded"
RECORDED = json.loads((BONDED / "energies.json").read_text())


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_top_parameters_looked_up_by_type_give_energy_of_gmx(case: str) -> None:
    topology, table = read_top(BONDED / f"{case}.top")
    energy = potential(topology, table, read_gro(BONDED / "c.gro").positions, 1.4, 78.0)
    assert energy == pytest.approx(RECORDED[case], rel=1e-5)


def test_top_dihedral_type_with_most_exact_matches_wins_and_all_its_rows_act() -> None:
    terms = read_top(BONDED / "types.top")[0].terms["proper"]
    found = [
        (tuple(a), tuple(terms.parameters[i])) for a, i in zip(terms.atoms.tolist(), terms.index, strict=True)
    ]
    assert found == [
        ((0, 1, 2, 3), (0, 2, 1)),
        ((0, 1, 2, 3), (180, 1, 2)),
        ((0, 1, 2, 3), (30, 3, 3)),
        ((3, 2, 1, 0), (0, 2, 1)),
        ((3, 2, 1, 0), (180, 1, 2)),
        ((3, 2, 1, 0), (30, 3, 3)),
        ((0, 1, 2, 3), (15, 2, 2)),
        ((4, 3, 2, 1), (20, 1.5, 2)),
    ]


@pytest.mark.parametrize(
    ("constraints", "bonds", "groups"), [("none", 4, 5), ("h-bonds", 3, 4), ("all-bonds", 0, 1)]
)
def test_top_bonds_become_constraints_as_asked_and_keep_exclusions(
    constraints: str, bonds: int, groups: int
) -> None:
    free = read_top(BONDED / "types.top")[0]
    topology = read_top(BONDED / "types.top", RunSettings(constraints=constraints))[0]
    assert len(topology.terms.get("bond", ())) == bonds
    assert topology.n_constraints == 4 - bonds
    assert len(topology.group_offset) - 1 == groups
    assert np.array_equal(topology.exclusion_atoms, free.exclusion_atoms)


def test_top_terms_of_several_molecules_shift_atoms_and_share_parameters(tmp_path: Path) -> None:
    path = tmp_path / "two.top"
    path.write_text((BONDED / "types.top").read_text().replace("\nMOL 1\n", "\nMOL 3\n"))
    bonds = read_top(path)[0].terms["bond"]
    assert bonds.atoms.tolist() == [
        [i + 5 * m, j + 5 * m] for m in range(3) for i, j in [(0, 1), (1, 2), (2, 3), (4, 3)]
    ]
    assert bonds.parameters.tolist() == [[0.15, 200000], [0.15, 150000]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1 2 3 1\n", "1 2 9 1\n", "atom 9 does not exist"),
        ("1 2 3 1\n", "1 2 1 1\n", "listed twice"),
        ("1 2 3 1\n", "1 2 3 7\n", r"function 7 of \[ angles \] is not supported: only 1, 2"),
        ("1 2 3 1\n", "1 2 3 8 0 1\n", r"function 8 of \[ angles \], a tabulated interaction"),
        ("1 2 3 1\n", "1 2 3 3 0.1 0.1\n", "3 parameters are expected"),
        ("1 2 3 1\n", "3 4 5 5\n", r"no parameters for CB-CB-HC in \[ angles \]"),
        ("1 2 3 1\n", "1 2 3 1 110\n", "2 parameters are expected"),
        ("1 2 3 1\n", "1 2 3 1 110 400 111 400\n", "free-energy perturbation"),
        ("1 2 3 4 1 15 2 2\n", "1 2 3 4 1 15 2 2.5\n", "multiplicity 2.5"),
        ("CA CA 1 0.15 200000\n", "CA CA 1 0.15 200000\nCA CB 1 0.16 200000\n", "defined before"),
        ("CA CA 1 0.15 200000\n", "CA CA 1\n", "parameters are missing"),
        ("CB CB 2 0.15", "CB CB 12 0.15", "function 12"),
        ("1 2 yes", "1 2 no", r"no \[ pairtypes \] for A B"),
        ("1 4 1\n", "1 4 2\n", "needs fudgeQQ"),
        ("1 4 1\n", "1 4 2 0.5 0.1 0.1 0.2\n", "5 parameters are expected"),
        ("1 4 1\n", "1 4 3\n", "function 3"),
        ("[ pairs ]", "[ pairs_nb ]\n1 1 1 0.1 0.1 0.2 0.2\n[ pairs ]", "a pair of two atoms"),
        ("[ pairs ]", "[ position_restraints ]\n1 2 9 0.1 1000\n[ pairs ]", "shape 9"),
        ("1 4 1\n", "4 4 1\n", "with itself"),
        ("X  CA CB X  1   0 5 3", "X  CA CB", "two or four atom types"),
    ],
)
def test_top_bad_term_refused_with_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (BONDED / "types.top").read_text()
    assert old in text
    path = tmp_path / "bad.top"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        read_top(path)
    assert caught.value.line is not None


def test_top_cmap_grid_read_and_found_in_its_direction_only(tmp_path: Path) -> None:
    grid = " ".join(str(i) for i in range(16))
    types = f"[ cmaptypes ]\nCA CA CB CB HC 1 4 4\\\n{grid}\n[ moleculetype ]"
    text = (BONDED / "types.top").read_text().replace("[ moleculetype ]", types)
    path = tmp_path / "cmap.top"
    path.write_text(text.replace("[ pairs ]", "[ cmap ]\n1 2 3 4 5 1\n[ pairs ]"))
    terms = read_top(path)[0].terms["cmap"]
    assert terms.atoms.tolist() == [[0, 1, 2, 3, 4]]
    assert terms.parameters.tolist() == [list(range(16))]
    path.write_text(text.replace("[ pairs ]", "[ cmap ]\n5 4 3 2 1 1\n[ pairs ]"))
    with pytest.raises(InputError, match="no parameters for HC-CB-CB-CA-CA"):
        read_top(path)
