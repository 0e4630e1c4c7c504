"""The engine's energies, virial, pressure and forces against recorded values of GROMACS, OpenMM and direct sums."""

from __future__ import annotations

import numpy as np
import pytest

from engine_points import assert_same_bits, evaluate
from pulsemd.engine.system import System, prepare_system
from pulsemd.io.gromacs.system import read_system
from recorded import BOXES, DATA, MDP_OPTIONS, box_files, gmx_energies, reference_forces

ENERGY = 1e-5
"""Relative tolerance of each energy term; mixed precision of gmx itself is off by up to 6e-5 on these boxes."""
FORCE = 1e-5
"""Relative L2 tolerance of forces."""
CASES = [("settled", case) for case in MDP_OPTIONS]
CASES += [(box, case) for box in BOXES if box != "settled" for case in ("rf_infinite", "lj_plain")]
"""The other cases jump at the cut-off, where boxes with three decimals have pairs exactly: any program may be right."""


def read(folder, box, case) -> System:
    files = box_files(box, case, folder)
    topology, table, frame, settings = read_system(files.configuration, files.topology, files.parameters)
    return prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)


def tolerance(value: float) -> float:
    """Plain cut-off Coulomb energies are small differences of large sums: never below the scale of these."""
    return ENERGY * max(abs(value), 2e4)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize(("box", "case"), CASES)
def test_energies_of_water_boxes_agree_with_gmx(tmp_path, box, case, precision):
    energies, _, virial = evaluate(read(tmp_path, box, case), precision=precision)
    gmx = gmx_energies(box, case)
    for term in ("lj", "coulomb", "potential"):
        assert energies[term] == pytest.approx(gmx[term], abs=tolerance(gmx[term])), term
    expected = [gmx[f"w_{a}{b}"] for a in "xyz" for b in "xyz"]
    np.testing.assert_allclose(virial, expected, atol=1e-5 * np.abs(expected).max())
    if "kinetic" in gmx and box == "settled":
        assert energies["pressure"] == pytest.approx(gmx["pressure"], abs=1.0)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.npz")))
def test_forces_of_water_boxes_agree_with_the_reference(tmp_path, name, precision):
    box, case = name.split("__")
    _, forces, _ = evaluate(read(tmp_path, box, case), precision=precision)
    expected = reference_forces(box, case).astype(float)
    assert np.linalg.norm(forces - expected) <= FORCE * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("ranks", "grid", "plan"),
    [(2, None, "direct"), (4, (2, 2, 1), "staged"), (7, None, "staged"), (8, (2, 2, 2), "direct")],
)
def test_energies_on_many_ranks_are_the_same(tmp_path, ranks, grid, plan):
    system = read(tmp_path, "octahedron", "rf_infinite")
    alone = evaluate(system, precision="reproducible")
    assert_same_bits(evaluate(system, ranks, "reproducible", plan, grid), alone)
    fast, forces, _ = evaluate(system, ranks, "fast", plan, grid)
    assert fast["potential"] == pytest.approx(alone[0]["potential"], rel=1e-6)
    assert np.linalg.norm(forces - alone[1]) <= FORCE * np.linalg.norm(alone[1])
