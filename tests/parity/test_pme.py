"""PME in the engine: energies, pressure and forces against recorded values of gmx_d; one result on any ranks."""

from __future__ import annotations

import numpy as np
import pytest

from engine_points import assert_same_bits, evaluate
from pme_cases import CASES, case_files, recorded
from pulsemd.base.errors import InputError
from pulsemd.engine.lattice import system_mesh
from pulsemd.engine.system import System, prepare_system
from pulsemd.io.gromacs import read_settings
from pulsemd.io.gromacs.system import read_system, read_top

ENERGY = 1e-5
"""Relative tolerance of every term; sums that nearly cancel: 2e-3 kJ/mol."""
FORCE = 1e-5
"""Relative L2 tolerance of forces."""
PRESSURE = 0.5
"""Tolerance of the pressure, bar: the difference of two sums of 1e4 bar. Of water that satisfies its constraints only:
elsewhere the pressure of a single point is mostly that of the constraint forces of the first step."""


IONS = """[ defaults ]
1 2
[ atomtypes ]
NA 11 22.99 1.0 A 0.22 0.3
[ moleculetype ]
NA 1
[ atoms ]
1 NA 1 NA NA 1
[ system ]
ions
[ molecules ]
NA 3
"""


def read(name, folder) -> System:
    files = case_files(name, folder)
    topology, table, frame, settings = read_system(files.configuration, files.topology, files.parameters)
    return prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", CASES)
def test_energies_and_forces_with_pme_agree_with_gmx(tmp_path, name, precision):
    gmx, atoms, expected = recorded(name)
    energies, forces, _ = evaluate(read(name, tmp_path), precision=precision)
    terms = gmx.keys() - {"pressure", "kinetic"}
    assert {"coulomb", "coulomb_recip", "potential"} <= terms
    for term in terms:
        assert energies[term] == pytest.approx(gmx[term], rel=ENERGY, abs=2e-3), term
    if name == "settled":
        assert energies["pressure"] == pytest.approx(gmx["pressure"], abs=PRESSURE)
    off = np.linalg.norm(forces[atoms] - expected) / np.linalg.norm(expected)
    print(f"{name}, {precision}: forces off by {off:.1e}")
    assert off <= FORCE


@pytest.mark.parametrize("name", ["dodecahedron", "peptide"])
def test_energies_with_pme_do_not_move_with_the_number_of_ranks(tmp_path, name):
    system = read(name, tmp_path)
    exact = evaluate(system, precision="reproducible")
    alone, _, _ = evaluate(system)
    for ranks, plan in ((2, "direct"), (3, "staged"), (7, "direct")):
        assert_same_bits(evaluate(system, ranks, "reproducible", plan), exact)
        energies, forces, _ = evaluate(system, ranks, "fast", plan)
        assert energies["coulomb_recip"] == alone["coulomb_recip"]
        assert energies["potential"] == pytest.approx(alone["potential"], rel=1e-7)
        assert np.linalg.norm(forces - exact[1]) <= FORCE * np.linalg.norm(exact[1])


def test_pressure_of_a_net_charge_is_the_derivative_of_its_energy(tmp_path):
    """Of ions of one sign; gmx 2022.5 leaves most of what the uniform background adds out of its pressure."""
    (tmp_path / "top").write_text(IONS)
    (tmp_path / "mdp").write_text(
        "rcoulomb = 0.9\nrvdw = 0.9\ncoulombtype = PME\npme-order = 6\n"
        "fourier-nx = 40\nfourier-ny = 40\nfourier-nz = 40\ncoulomb-modifier = none\nvdw-modifier = none\nnsteps = 0\n"
    )
    topology, table = read_top(tmp_path / "top")
    settings, _ = read_settings(tmp_path / "mdp")
    box = np.array([[2.0, 0.0, 0.0], [0.3, 2.1, 0.0], [-0.4, 0.5, 1.9]])
    fractions = (np.arange(3) + np.array([[0.1], [0.5], [0.8]]) * [1.0, 2.0, 3.0]) % 1.0

    def at(scale):
        system = prepare_system(
            topology, table, settings, fractions @ box * scale, np.zeros((3, 3), np.float32), box * scale
        )
        return evaluate(system, precision="reproducible")

    step = 1e-3
    slope = (at(1.0 + step)[0]["potential"] - at(1.0 - step)[0]["potential"]) / (2.0 * step)
    assert at(1.0)[2].reshape(3, 3).trace() == pytest.approx(-slope, rel=1e-4)


def test_given_mesh_sizes_are_refused_for_a_box_that_is_replaced(tmp_path):
    files = case_files("peptide", tmp_path)
    topology, table, frame, settings = read_system(files.configuration, files.topology, files.parameters)
    box = np.array([[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) @ frame.box
    system = prepare_system(topology, table, settings, frame.positions, frame.velocities, box)
    with pytest.raises(InputError, match="set fourierspacing"):
        system_mesh(system)
