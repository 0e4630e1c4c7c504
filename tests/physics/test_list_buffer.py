"""The drift that the list cut-off is chosen by, against the pairs that a list misses in a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd import Simulation
from pulsemd.base.units import COULOMB
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import list_drift
from pulsemd.engine.system import prepare_system
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems.catalog import system_files


@pytest.fixture(scope="module")
def water():
    """Bundled water and positions (f, n, 3) of 160 steps of 2 fs, nm."""
    files, frames = system_files("water"), []
    topology, table, configuration, settings = read_system(
        files.configuration, files.topology, read_settings(files.parameters)[0].with_drawn_seeds(1)
    )
    system = prepare_system(
        topology, table, settings, configuration.positions, configuration.velocities, configuration.box
    )
    with Simulation(system, RunOptions()) as simulation:
        simulation.run(100)
        simulation.add_reporter(1, frame=lambda snapshot: frames.append(snapshot.positions))
        simulation.run(160)
    return system, np.array(frames)


def distance(x, i, j, box):
    difference = x[i] - x[j]
    return np.linalg.norm(difference - box * np.round(difference / box), axis=-1)


def cut_energy(system, i, j, r):
    """V(r) - V(1 nm) of SPC/E pairs with a reaction field of conducting surroundings, kJ/mol."""
    t = system.topology

    def energy(r):
        coulomb = COULOMB * t.charge[i] * t.charge[j] * (1 / r + r**2 / 2)
        both = (t.type_index[i] == 0) & (t.type_index[j] == 0)
        return coulomb + both * 4 * 0.650194 * ((0.316557 / r) ** 12 - (0.316557 / r) ** 6)

    return energy(r) - energy(np.ones(1))


@pytest.mark.parametrize(("nstlist", "r_list"), [(2, 1.002), (10, 1.02), (20, 1.05), (40, 1.1), (100, 1.15)])
def test_list_drift_is_above_that_of_the_pairs_missed_in_a_simulation(water, nstlist, r_list):
    system, frames = water
    n, box = system.topology.n_atoms, system.box[0, 0]
    kind, molecule = system.topology.type_index, system.topology.molecule
    missed, starts = np.zeros((2, 2)), range(0, len(frames) - nstlist + 1, 30)
    for start in starts:
        for i in range(n):
            j = np.flatnonzero(molecule > molecule[i])
            now = distance(frames[start + nstlist - 1], i, j, box)
            j, now = j[now < 1.0], now[now < 1.0]
            far = distance(frames[start], i, j, box) > r_list
            np.add.at(missed[kind[i]], kind[j[far]], cut_energy(system, i, j[far], now[far]))
    drift = np.abs([missed[0, 0], missed[0, 1] + missed[1, 0], missed[1, 1]]).sum()
    drift /= len(starts) * n * nstlist * system.settings.dt
    assert 0 < drift < list_drift(system, nstlist)(r_list)


def test_list_drift_of_an_energy_that_fades_out_is_a_fraction_of_that_of_a_cut_one(water):
    """Oxygens alone: near the cut-off a pair's energy is linear in the distance, or a power of three or four of it."""
    system, _ = water
    system = replace(system, topology=replace(system.topology, charge=np.zeros(system.topology.n_atoms)))
    drift = {}
    for modifier in ("none", "potential-shift", "force-switch", "potential-switch"):
        options = replace(system.settings, vdw_modifier=modifier, rvdw_switch=0.8)
        drift[modifier] = list_drift(replace(system, settings=options), 20)(1.01)
    assert drift["potential-shift"] == pytest.approx(drift["none"], rel=1e-9)
    assert 0 < drift["potential-switch"] < 0.3 * drift["none"]
    assert 0 < drift["force-switch"] < 0.3 * drift["none"]
