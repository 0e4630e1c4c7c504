"""All bonds constrained by LINCS on a device, beside CPUs."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.domain.lattice import LATTICE
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from systems import bundled_system

pytestmark = pytest.mark.gpu


def simulate(precision, device="cuda", **settings):
    system = bundled_system("peptide", constraints="all-bonds", **settings)
    options = RunOptions(precision=precision, device=device)
    return Simulation(open_transport("loopback"), system, options)


def largest_deviation(simulation):
    """Largest relative deviation of a constrained length."""
    terms, x = simulation.system.topology.terms["constraint"], simulation.gather().x
    d = (x[terms.atoms[:, 0]] - x[terms.atoms[:, 1]]).astype(np.float64) / LATTICE @ simulation.system.box
    return float(np.abs(np.linalg.norm(d, axis=1) / terms.parameters[terms.index, 0] - 1.0).max())


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_steps_with_all_bonds_constrained_are_those_of_the_cpu(device, precision):
    cpu, mine = simulate(precision, "cpu", tcoupl="no"), simulate(precision, tcoupl="no")
    for simulation in (cpu, mine):
        simulation.run(3)
    expected, found = cpu.evaluate(), mine.evaluate()
    for name in ("potential", "kinetic"):
        assert found[name] == pytest.approx(expected[name], rel=2e-6), name
    assert found["pressure"] == pytest.approx(expected["pressure"], abs=1.0)
    assert np.abs(mine.gather().v - cpu.gather().v).max() < 2e-4


def test_lengths_hold_over_searches_and_noise(device):
    simulation = simulate("fast", integrator="sd", tcoupl="no", tau_t=0.5, ref_t=300.0, nstlist=5)
    simulation.run(20)
    assert largest_deviation(simulation) < 5e-4
    assert simulation.evaluate()["temperature"] == pytest.approx(300.0, abs=30.0)


def test_a_higher_order_holds_lengths_better(device):
    simulation = simulate("reproducible", tcoupl="no", lincs_order=8, lincs_iter=4)
    simulation.run(5)
    assert largest_deviation(simulation) < 1e-6
