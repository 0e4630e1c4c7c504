"""Energies, virial and forces of the systems of molecules of the parity tests on a device: CPU, GROMACS, OpenMM."""

from __future__ import annotations

import numpy as np
import pytest

from molecules import MOLECULES, read, recorded_energies, recorded_forces
from single_points import forces_of, simulate, virial_of

pytestmark = pytest.mark.gpu
ENERGY, FORCE = 1e-5, 1e-5
"""Relative tolerances of every term and, in the L2 norm, of the forces."""


@pytest.mark.parametrize("name", MOLECULES)
def test_energies_and_forces_of_molecules_on_device(device, name):
    system = read(name)
    cpu = simulate(system, "reproducible", "cpu")
    reference, gmx = cpu.evaluate(), recorded_energies(name)
    virial, largest = virial_of(cpu)
    atoms, forces, _ = recorded_forces(name)
    for precision in ("fast", "reproducible"):
        simulation = simulate(system, precision)
        energies = simulation.evaluate()
        assert energies.keys() == reference.keys()
        for term in reference.keys() - {"pressure", "total", "conserved"}:
            assert energies[term] == pytest.approx(reference[term], rel=ENERGY, abs=2e-3), (precision, term)
        for term, value in gmx.items():
            tolerance = 1.0 if term == "pressure" else 2e-3
            assert energies[term] == pytest.approx(value, rel=ENERGY, abs=tolerance), (precision, term)
        np.testing.assert_allclose(virial_of(simulation)[0], virial, rtol=0, atol=2e-5 * largest)
        mine = forces_of(simulation)[atoms]
        assert np.linalg.norm(mine - forces) <= FORCE * np.linalg.norm(forces), precision
