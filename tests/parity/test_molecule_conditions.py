"""Boxes, images and particles of every kind through the whole engine, with bonded terms."""

from __future__ import annotations

import json

import numpy as np
import pytest

import engine_points
from molecules import read
from pulsemd.base.errors import DomainError, InputError, UnstableError
from pulsemd.cli.main import main
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs import read_gro, read_top
from pulsemd.io.gromacs.mdp import read_settings

NAME = "charmm"
"""304 atoms with every kind of bonded term, correction maps included."""


def start(positions, box, reference=None) -> System:
    """The system with other positions and cell."""
    system = read(NAME)
    return prepare_system(system.topology, system.table, system.settings, positions, None, box, reference)


def evaluate(system, ranks=1, grid=None):
    return engine_points.evaluate(system, ranks, "reproducible", grid=grid)


def coordinates() -> tuple[np.ndarray, np.ndarray]:
    """Positions as in the file, of whole molecules, and the cell."""
    system = read(NAME)
    return system.whole_positions(system.x), system.user_box


def assert_same(found, expected, turn=None):
    """Energies to 1e-6, forces to 1e-6 relative; those of `found` turned by the matrix."""
    energies, forces, _ = found
    for term, value in expected[0].items():
        if term not in ("pressure", "density", "volume"):
            assert energies[term] == pytest.approx(value, rel=1e-6, abs=2e-4), term
    wanted = expected[1] if turn is None else expected[1] @ turn
    assert np.linalg.norm(forces - wanted) <= 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize(
    "matrix",
    [
        [[1, 0, 0], [3, 1, 0], [-2, 5, 1]],
        [[0, 1, 0], [1, 0, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 1, 0], [4, 0, -1]],
    ],
    ids=["unreduced", "left-handed", "unreduced left-handed"],
)
def test_cell_described_otherwise_gives_the_same_energies_and_forces(matrix, ranks):
    positions, box = coordinates()
    assert_same(evaluate(start(positions, np.array(matrix) @ box), ranks), evaluate(read(NAME)))


def test_cell_turned_in_space_gives_turned_forces():
    positions, box = coordinates()
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    turned = start(positions @ turn, box @ turn)
    assert_same(evaluate(turned), evaluate(read(NAME)), turn)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_atoms_up_to_50_boxes_away_each_in_its_image_are_the_same_molecule(ranks):
    positions, box = coordinates()
    images = np.random.default_rng(2).integers(-50, 51, positions.shape)
    assert_same(evaluate(start(positions + images @ box, box), ranks), evaluate(read(NAME)))


@pytest.mark.parametrize("grid", [(2, 2, 1), (1, 2, 4), (3, 1, 2)])
def test_molecule_bonded_across_domains_and_faces_is_the_same_wherever_it_lies(grid):
    positions, box = coordinates()
    expected = evaluate(read(NAME))
    for shift in ((0.5, 0.5, 0.5), (0.0, 0.25, 0.9)):
        system = start(positions + np.array(shift) @ box, box)
        assert_same(evaluate(system, int(np.prod(grid)), grid), expected)


TWO = """[ defaults ]
1 2 no 1 1
[ atomtypes ]
A 12.0 0.0 A {sigma} {epsilon}
D 12.0 0.0 A {d_sigma} {d_epsilon}
[ moleculetype ]
M 3
[ atoms ]
1 A 1 M A1 1 {charge} 12
2 A 1 M A2 1 -{charge} 12
{atoms}
[ bonds ]
1 2 1 {length} 100
{terms}
[ system ]
two
[ molecules ]
M 1
"""
MDP = """integrator = md
dt = 0.001
rcoulomb = {cutoff}
rvdw = {cutoff}
rlist = {cutoff}
verlet-buffer-tolerance = -1
"""


def write(folder, positions, edges=(3.0, 3.0, 3.0), cutoff=0.5, **values):
    """conf.gro, topol.top and run.mdp of one molecule."""
    defaults = {"sigma": 0.3, "epsilon": 0.5, "d_sigma": 0, "d_epsilon": 0, "charge": 0.3, "length": 0.15}
    text = TWO.format(**defaults | {"atoms": "", "terms": ""} | values)
    (folder / "topol.top").write_text(text)
    (folder / "run.mdp").write_text(MDP.format(cutoff=cutoff))
    rows = [
        f"    1M    A{i + 1:<5}{i + 1:4d}{x:8.3f}{y:8.3f}{z:8.3f}" for i, (x, y, z) in enumerate(positions)
    ]
    (folder / "conf.gro").write_text("\n".join(["m", str(len(rows)), *rows, " ".join(map(str, edges)), ""]))


def load(folder) -> System:
    settings = read_settings(folder / "run.mdp")[0]
    topology, table = read_top(folder / "topol.top")
    frame = read_gro(folder / "conf.gro")
    return prepare_system(topology, table, settings, frame.positions, None, frame.box)


def test_bonded_partner_outside_the_list_widens_the_halo(tmp_path):
    """1.5 nm apart with a list of 0.5 nm: the halo must reach as far as the bond."""
    write(tmp_path, [(2.2, 3.0, 3.0), (3.7, 3.0, 3.0)], (6, 6, 6), length=1.0)
    system = load(tmp_path)
    alone = evaluate(system)
    assert alone[0]["bond"] == pytest.approx(0.5 * 100 * 0.5**2, rel=1e-6)
    for grid in ((2, 1, 1), (4, 2, 1), (3, 1, 2)):
        assert evaluate(system, int(np.prod(grid)), grid)[0] == alone[0], grid


def test_bonded_partner_too_far_for_the_grid_is_refused_with_the_limit(tmp_path):
    """4.5 nm along y, more than half the box along x: no halo along x is that wide."""
    write(tmp_path, [(1.0, 3.0, 3.0), (1.0, 7.5, 3.0)], (4, 10, 4), length=4.4)
    system = load(tmp_path)
    assert evaluate(system)[0]["bond"] == pytest.approx(0.5 * 100 * 0.1**2, rel=1e-4)
    assert evaluate(system, 2, (1, 2, 1))[0] == evaluate(system)[0]
    with pytest.raises(DomainError, match=r"4\.5\d* nm"):
        evaluate(system, 2, (2, 1, 1))


def command(folder) -> list[str]:
    return ["-c", str(folder / "conf.gro"), "-p", str(folder / "topol.top"), "-f", str(folder / "run.mdp")]


def energies_of(folder, capsys) -> dict[str, float]:
    assert main(["energy", *command(folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "dummy",
    [{}, {"d_sigma": 0.3}],
    ids=["sigma and epsilon zero", "epsilon zero"],
)
def test_chargeless_site_exactly_on_another_atom_changes_nothing(tmp_path, capsys, dummy):
    positions = [(1.0, 1.0, 1.0), (1.16, 1.0, 1.0)]
    write(tmp_path, positions)
    expected = energies_of(tmp_path, capsys)
    write(tmp_path, [*positions, positions[0]], atoms="3 D 1 M D 1 0 12", **dummy)
    found = energies_of(tmp_path, capsys)
    for term in ("bond", "lj", "coulomb", "potential"):
        assert found[term] == pytest.approx(expected[term], abs=1e-6), term
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, load(tmp_path), RunOptions())
        simulation.run(20)
        assert np.isfinite(simulation.gather().v).all()


def test_site_of_zero_sigma_exactly_on_another_atom_is_an_overlap_by_the_combination_rule(tmp_path, capsys):
    """Rule 2 gives it half the sigma of the other: it is no ghost."""
    positions = [(1.0, 1.0, 1.0), (1.16, 1.0, 1.0), (1.0, 1.0, 1.0)]
    write(tmp_path, positions, atoms="3 D 1 M D 1 0 12", d_epsilon=0.7)
    assert main(["energy", *command(tmp_path)]) == 6
    assert "lj with M 1 A1 (atom 1)" in capsys.readouterr().err


@pytest.mark.parametrize("mass", ["0", "-1"])
def test_mass_zero_is_refused_and_never_guessed(tmp_path, capsys, mass):
    write(tmp_path, [(1, 1, 1), (1.16, 1, 1), (2, 2, 2)], atoms=f"3 D 1 M D 1 0 {mass}")
    with pytest.raises(InputError, match="mass") as caught:
        load(tmp_path)
    assert caught.value.line == 11


def test_pair_14_of_atoms_on_one_place_names_the_atom(tmp_path):
    write(tmp_path, [(1, 1, 1), (1.16, 1, 1), (1, 1, 1)], atoms="3 A 1 M A3 1 0 12",
          terms="2 3 1 0.15 100\n[ pairs ]\n1 3 1 1e-3 1e-6")  # fmt: skip
    with pytest.raises(UnstableError, match=r"M 1 A[13] \(atom [13]\)"):
        evaluate(load(tmp_path))


def test_cutoff_beyond_half_the_smallest_width_exits_4_with_the_three_widths(tmp_path, capsys):
    write(tmp_path, [(1, 1, 1), (1.16, 1, 1)], cutoff=1.6)
    assert main(["energy", *command(tmp_path)]) == 4
    assert capsys.readouterr().err.count("3.000") >= 3


def test_position_restraint_to_another_image_of_the_reference_is_the_same():
    """The recorded case has each reference in another image; here it is 1/2 k times the square of short distances."""
    system = read("restrained")
    rows = system.topology.terms["position_restraint"].atoms[:, 0]
    r = (system.x[rows] - system.reference.x[rows]).astype(float) * 2.0**-32 @ system.box
    assert np.abs(r).max() < 0.11
    for ranks in (1, 5):
        assert evaluate(system, ranks)[0]["position_restraint"] == pytest.approx(500 * (r**2).sum(), rel=1e-6)
