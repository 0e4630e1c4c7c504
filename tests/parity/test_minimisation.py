"""Minimisation beside gmx 2022.5 in double precision: the same steps down, the same minimum."""

from __future__ import annotations

import numpy as np
import pytest

import pulsemd
from pulsemd.engine.descent import Method
from pulsemd.engine.minimise import minimise
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

SETTINGS = RunSettings(
    coulombtype="reaction-field", rcoulomb=1.0, epsilon_rf=0.0, rvdw=1.0, integrator="steep", nstlist=1
)
"""As the .mdp below: integrator, emtol, emstep = 0.01, nstlist = 1, rlist = 1.1, verlet-buffer-tolerance = -1,
coulombtype = reaction-field, rcoulomb = 1, epsilon-rf = 0, rvdw = 1, constraints."""

STEPS_OF_GMX = {
    0: (-76022.008488384163, 4.51955e03), 1: (-76870.890235662926, 1.03120e04), 2: (-77496.407816369450, 5.80631e03),
    3: (-77914.570037959420, 1.43578e04), 4: (-78454.466085681895, 9.17285e03), 5: (-78475.406653316590, 1.96826e04),
    6: (-79022.825609854015, 1.44797e04), 8: (-79502.939069941101, 6.12769e03), 10: (-79755.729026442204, 6.17274e03),
}  # fmt: skip
"""Potential [kJ/mol] and largest force [kJ/mol/nm] of the steps that went down, of the bundled peptide with its
rigid waters and constraints = h-bonds: gmx_d grompp -f steep.mdp -c conf.gro -p topol.top -maxwarn 5;
gmx_d mdrun -nt 1 -v; gmx_d energy -dp (lincs-order = 12, lincs-iter = 4)."""

ETHANOL = 3.42604545372461
"""Potential [kJ/mol] of one ethanol of the bundled mixture in a box of 3 nm after gmx_d mdrun with integrator = l-bfgs,
emtol = 0.1, nbfgscorr = 10, rlist = 1, constraints = none; with integrator = steep it is 3.42604824951784."""


def simulate(files, precision="reproducible", **settings):
    found = read_system(*files, RunSettings(**{**SETTINGS.__dict__, **settings}))
    topology, table, frame, chosen = found
    system = prepare_system(topology, table, chosen, frame.positions, None, frame.box)
    return Simulation(open_transport("loopback"), system, RunOptions(precision=precision))


def ethanol_files(folder):
    """One molecule of the bundled mixture, alone."""
    files, conf, top = system_files("water-ethanol"), folder / "conf.gro", folder / "topol.top"
    lines = files.configuration.read_text().split("\n")
    conf.write_text("\n".join(["ethanol", "9", *lines[2:11], "3.0 3.0 3.0", ""]))
    head, _, _ = files.topology.read_text().partition("[ molecules ]")
    top.write_text(f"{head}[ molecules ]\nETH 1\n")
    return conf, top


def test_steps_of_steepest_descent_of_a_constrained_peptide_are_those_of_gmx():
    files = system_files("peptide")
    simulation = simulate((files.configuration, files.topology), constraints="h-bonds")
    told = {}
    found = minimise(simulation, Method("steep", 10.0, 0.01, 10, 10), told.__setitem__)
    assert list(told) == list(STEPS_OF_GMX)
    energies = [[record["potential"], record["max_force"]] for record in told.values()]
    np.testing.assert_allclose(energies, list(STEPS_OF_GMX.values()), rtol=1e-5)
    assert not found.converged
    assert found.atom == "TRP 6 CE2 (atom 105)"


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_limited_memory_finds_the_minimum_of_gmx(tmp_path, precision):
    simulation = simulate(ethanol_files(tmp_path), precision)
    found = minimise(simulation, Method("l-bfgs", 0.1, 0.01, 10, 500), lambda *_: None)
    assert found.converged
    assert found.evaluations < 100
    assert found.energies["potential"] == pytest.approx(ETHANOL, abs=1e-4)
    assert simulation.evaluate()["potential"] == pytest.approx(found.energies["potential"], abs=1e-4)


def test_steepest_descent_comes_near_the_minimum_of_gmx(tmp_path):
    simulation = simulate(ethanol_files(tmp_path), "fast")
    found = minimise(simulation, Method("steep", 1.0, 0.01, 10, 2000), lambda *_: None)
    assert found.converged
    assert found.energies["potential"] == pytest.approx(ETHANOL, abs=5e-3)


FROZEN = -85885.748420301621
"""Potential after five steps as above with freezegrps = Protein, freezedim = Y Y Y and the default lincs-order."""


def test_frozen_atoms_stay_in_minimisation_and_the_others_go_where_gmx_puts_them():
    files = system_files("peptide")
    settings = {name: getattr(SETTINGS, name) for name in ("coulombtype", "epsilon_rf", "integrator")}
    with pulsemd.Simulation.from_gromacs(
        *(files.configuration, files.topology), device="cpu", constraints="h-bonds", freezegrps="Protein",
        freezedim="Y Y Y", **settings,
    ) as simulation:  # fmt: skip
        before = simulation.positions[:304]
        found = simulation.minimize(nsteps=5)
        np.testing.assert_array_equal(simulation.positions[:304], before)
    assert found.energies["potential"] == pytest.approx(FROZEN, rel=1e-5)
