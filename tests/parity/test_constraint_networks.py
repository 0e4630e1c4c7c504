"""All bonds of a peptide constrained by LINCS, beside gmx 2022.5 in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import TopologyError
from pulsemd.domain.lattice import LATTICE
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

STEPS_OF_GMX = {
    0: (-76097.195061615814, 204.546290748090, -2519.625314429747),
    1: (-76871.181541465485, 939.441533671291, -2851.004826837302),
    2: (-78121.215106445234, 2141.381729842269, -3373.953770102483),
    3: (-79472.665372652365, 3463.423477942364, -3920.187208978246),
    10: (-82433.381995267264, 6456.750908683706, -5622.940688279311),
    20: (-82955.376049043538, 6964.183397045422, -5771.444471476862),
}
"""Potential, kinetic energy [kJ/mol] and pressure [bar] of the bundled peptide from rest: gmx_d grompp -f md.mdp
-c conf.gro -p topol.top -maxwarn 5; gmx_d mdrun -nt 1; gmx_d energy -dp, with dt = 0.002, nstlist = 10, rlist = 1.2,
verlet-buffer-tolerance = -1, coulombtype = reaction-field, rcoulomb = rvdw = 1, epsilon-rf = 0, constraints =
all-bonds, lincs-order = lincs-iter = 8, nstcalcenergy = 1, gen-vel = no."""


def simulate(reporters=(), name="peptide", **settings):
    given = {
        **{"dt": 0.002, "nstlist": 10, "rlist": 1.2, "verlet_buffer_tolerance": -1.0},
        **{"coulombtype": "reaction-field", "rcoulomb": 1.0, "rvdw": 1.0, "constraints": "all-bonds"},
    }
    files = system_files(name)
    found = read_system(files.configuration, files.topology, RunSettings(**given | settings))
    topology, table, frame, chosen = found
    system = prepare_system(topology, table, chosen, frame.positions, None, frame.box)
    return Simulation(
        open_transport("loopback"), system, RunOptions(precision="reproducible"), list(reporters)
    )


def deviations(simulation):
    """Relative deviations of the constrained lengths now."""
    terms, x = simulation.system.topology.terms["constraint"], simulation.gather().x
    d = (x[terms.atoms[:, 0]] - x[terms.atoms[:, 1]]).astype(np.float64) / LATTICE @ simulation.system.box
    return np.linalg.norm(d, axis=1) / terms.parameters[terms.index, 0] - 1.0


def test_energies_and_pressures_of_twenty_steps_are_those_of_gmx():
    told = {}
    reporter = Reporter(1, energies=lambda step, _, e: told.__setitem__(step, e))
    simulation = simulate([reporter], lincs_order=8, lincs_iter=8)
    simulation.run(21)
    for step, (potential, kinetic, pressure) in STEPS_OF_GMX.items():
        assert told[step]["potential"] == pytest.approx(potential, rel=2e-7), step
        assert told[step]["kinetic"] == pytest.approx(kinetic, rel=1e-6), step
        assert told[step]["pressure"] == pytest.approx(pressure, abs=0.02), step


@pytest.mark.parametrize(
    ("name", "settings", "largest"),
    [
        ("peptide", {}, 3e-4),
        ("peptide", {"lincs_order": 8, "lincs_iter": 4}, 1e-6),
        ("water-ethanol", {"constraint_algorithm": "shake"}, 1.01e-4),
        ("water-ethanol", {"constraint_algorithm": "shake", "shake_tol": 1e-8}, 2e-8),
        ("water-ethanol", {}, 1e-8),
    ],
)
def test_constrained_lengths_hold_as_the_options_say(name, settings, largest):
    """In double precision gmx_d reports a root mean square of 2e-5 to 4e-5 for the defaults, in the same steps."""
    simulation = simulate(name=name, **settings)
    simulation.run(20)
    found = deviations(simulation)
    assert np.abs(found).max() < largest
    assert np.abs(found).max() > 1e-4 * largest


def test_shake_of_a_whole_protein_is_refused_with_the_remedy():
    with pytest.raises(
        TopologyError, match=r"tie 304 atoms of \S+ together.*use constraint-algorithm = lincs"
    ):
        simulate(constraint_algorithm="shake")
