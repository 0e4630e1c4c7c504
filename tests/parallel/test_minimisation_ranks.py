"""Minimisation on several ranks: the same bits in reproducible mode, from overlapping atoms too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from run_files import move_molecule, write_input

import pulsemd
from pulsemd.base.errors import ConfigError, InputError
from pulsemd.engine.descent import Method
from pulsemd.engine.minimise import minimise
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.halo import Transport, launch
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files


def overlapping_system(precision: str, name: str = "water"):
    """A water 0.02 nm beside another, one exactly on another, and one across the border of ranks."""
    files = system_files(name)
    settings = replace(read_settings(files.parameters)[0], integrator="steep", gen_vel=False, tcoupl="no")
    topology, table, frame, settings = read_system(files.configuration, files.topology, settings)
    waters = topology.settle_atoms
    for water, onto, by in ((3, 40, 0.02), (17, 90, 0.0), (60, 130, 0.05)):
        frame.positions[waters[water]] = frame.positions[waters[onto]] + [by, 0.0, 0.0]
    return prepare_system(topology, table, settings, frame.positions, None, frame.box)


def run(transport: Transport, payload: tuple[str, str]) -> tuple[str, Any, list[float]]:
    name, precision = payload
    options = RunOptions(transport.size, None, "loopback", "auto", precision)
    simulation = Simulation(transport, overlapping_system(precision, name), options)
    energies: list[float] = []
    found = minimise(
        simulation, Method("steep", 2000.0, 0.01, 10, 60), lambda _, e: energies.append(e["potential"])
    )
    return simulation.trajectory_hash(), found, energies


@pytest.mark.parametrize("name", ["water", "peptide"])
def test_minimisation_of_overlapping_waters_has_the_same_bits_on_1_2_3_5_ranks(name):
    target = "test_minimisation_ranks:run"
    found = [launch(n, target, (name, "reproducible"), "loopback", timeout=60) for n in (1, 2, 3, 5)]
    assert all(other == found[0] for other in found)
    _, minimum, energies = found[0]
    assert energies[0] > 1e8
    assert energies == sorted(energies, reverse=True)
    assert minimum.energies["potential"] < -30_000


def test_minimisation_of_overlapping_waters_in_fast_mode_is_finite_on_two_ranks():
    _, minimum, energies = launch(2, "test_minimisation_ranks:run", ("water", "fast"), "loopback", timeout=60)
    assert np.isfinite(energies).all()
    assert minimum.energies["potential"] < -30_000


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_overlapping_start_runs_after_minimize(tmp_path, ranks):
    words = write_input(tmp_path, edit=lambda lines: move_molecule(lines, 5, 10, 0.02), tcoupl="no")
    with pulsemd.Simulation.from_gromacs(
        words[1], words[5], words[3], ranks=ranks, device="cpu"
    ) as simulation:
        found = simulation.minimize(emtol=1000.0)
        assert found.converged
        assert found.energies["max_force"] < 1000.0
        assert simulation.energies["potential"] == pytest.approx(found.energies["potential"], rel=1e-5)
        simulation.run(20)
        assert simulation.step == 20
        assert np.isfinite(simulation.positions).all()


def test_a_simulation_whose_settings_minimise_does_not_run(tmp_path):
    words = write_input(tmp_path, integrator="steep", nsteps=5)
    with pulsemd.Simulation.from_gromacs(words[1], words[5], words[3], device="cpu") as simulation:
        with pytest.raises(ConfigError, match="call minimize"):
            simulation.run(1)
        with pytest.raises(InputError, match="l-bfgs moves atoms freely"):
            simulation.minimize(integrator="l-bfgs")
        with pytest.raises(ConfigError, match="emtol"):
            simulation.minimize(emtol=0.0)
        assert simulation.minimize(nsteps=2).steps == 2
