"""What thermostats and barostats hold, and what they conserve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.base.units import BAR, BOLTZMANN
from pulsemd.engine.barostat import cell_factors, scaling_notes
from pulsemd.engine.coupling_groups import with_coupling_groups
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs import read_settings
from pulsemd.io.gromacs.groups import Groups
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

PRESSURE = {"tau_p": 1.0, "compressibility": (4.5e-5,), "ref_p": (1.0,), "nstpcouple": 10}


def records(name, steps, every=10, **options):
    """Columns of the energies of a bundled system at 300 K."""
    files = system_files(name)
    settings = replace(
        read_settings(files.parameters)[0],
        **{"ld_seed": 5, "gen_seed": 6, "tc_grps": ("System",), "ref_t": 300.0} | options,
    )
    topology, table, frame, settings = read_system(files.configuration, files.topology, settings)
    system = prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)
    system = with_coupling_groups(system, Groups(topology))
    found = []
    with open_transport("loopback") as transport:
        reporter = Reporter(every, energies=lambda step, time, record: found.append(record))
        Simulation(transport, system, RunOptions(), [reporter]).run(steps)
    return {key: np.array([record[key] for record in found]) for key in found[0]}


@pytest.mark.parametrize("pcoupl", ["no", "parrinello-rahman"])
@pytest.mark.parametrize("name", ["water-ethanol", "peptide"])
def test_energies_of_thermostat_and_box_are_conserved_with_those_of_the_atoms(name, pcoupl):
    pressure = PRESSURE if pcoupl != "no" else {}
    found = records(name, 500, tcoupl="nose-hoover", tau_t=0.5, pcoupl=pcoupl, **pressure)
    assert found["conserved"][5:].std() < 0.08 * found["total"][5:].std()


def test_energies_of_chains_of_thermostats_are_conserved_with_those_of_the_atoms():
    found = records("water-ethanol", 500, integrator="md-vv", tcoupl="nose-hoover", tau_t=0.5, nsttcouple=5)
    assert found["conserved"][5:].std() < 0.08 * found["total"][5:].std()


def test_work_of_weak_coupling_is_that_of_the_energy_it_takes():
    found = records("water-ethanol", 500, tcoupl="berendsen", tau_t=0.2, pcoupl="berendsen", **PRESSURE)
    assert found["conserved"][5:].std() < 0.2 * found["total"][5:].std()


def test_stochastic_dynamics_holds_its_temperature_and_its_spread():
    found = records("water-ethanol", 1000, integrator="sd", tcoupl="no", tau_t=0.05)
    temperature = found["temperature"][10:]
    assert temperature.mean() == pytest.approx(300.0, abs=4.0)
    assert temperature.std() == pytest.approx(5.07, rel=0.35)  # 300 K sqrt(2 / degrees of freedom)


def test_box_of_stochastic_rescaling_changes_by_as_much_as_the_noise_makes_it():
    """At first the logarithm of the volume is a random walk of variance 2 kT compressibility / (V tau) a time."""
    found = records(
        "water-ethanol",
        400,
        tcoupl="v-rescale",
        tau_t=0.1,
        pcoupl="c-rescale",
        **PRESSURE | {"nstpcouple": 2},
        every=2,
    )
    steps = np.diff(np.log(found["volume"]))
    expected = 2 * 0.0083144626 * 300 * 4.5e-5 * 16.6054 * 0.004 / found["volume"].mean()
    assert np.var(steps) == pytest.approx(expected, rel=0.35)


@pytest.mark.parametrize("noise", [0.0, 700.0])
def test_box_of_stochastic_rescaling_is_as_wide_as_the_compressibility_makes_it(noise):
    """Variance kT compressibility V (Landau & Lifshitz), of the substance, not what the settings assume of it; more
    where the pressure of an instant varies from one scaling to the next, see the page on ensembles."""
    s = replace(
        read_settings(system_files("water").parameters)[0],
        **PRESSURE
        | {"pcoupl": "c-rescale", "tau_p": 0.4, "tcoupl": "v-rescale", "ref_t": 300.0, "ld_seed": 3},
    )
    softness, usual, volume, volumes = 9e-5, 30.0, 30.0, []
    instants = noise * np.random.default_rng(1).standard_normal(10_000)
    for step, more in enumerate(instants):
        pressure = s.ref_p[0] + np.log(usual / volume) / softness + more
        volume *= cell_factors(s, np.full(3, pressure), volume, s.nstpcouple * step).prod()
        volumes.append(volume)
    kt = BOLTZMANN * 300.0 * BAR
    share = s.compressibility[0] * s.nstpcouple * s.dt / s.tau_p
    expected = np.sqrt(kt * softness * usual * (1.0 + share * noise**2 * usual / (2.0 * kt)))
    assert np.mean(volumes) == pytest.approx(usual, abs=0.1 * expected)
    assert np.std(volumes) == pytest.approx(expected, rel=0.08)


def test_edges_of_anisotropic_rescaling_vary_as_their_stiffness_makes_them_whatever_the_settings_assume():
    """Variance kT softness / V of each logarithm, as of a harmonic crystal."""
    s = replace(
        read_settings(system_files("water").parameters)[0],
        **PRESSURE
        | {"pcoupl": "c-rescale", "tau_p": 0.2, "tcoupl": "v-rescale", "ref_t": 300.0, "ld_seed": 3},
        pcoupltype="anisotropic",
    )
    s = replace(s, compressibility=(4.5e-5, 2e-5, 9e-5, 0, 0, 0), ref_p=(1.0, 300.0, -50.0, 0, 0, 0))
    softness, volume, strain, found = np.array([9e-5, 4e-5, 2e-4]), 30.0, np.zeros(3), []
    for step in range(20_000):
        pressure = np.array(s.ref_p[:3]) - strain / softness
        strain = strain + np.log(cell_factors(s, pressure, volume, s.nstpcouple * step))
        found.append(strain)
    expected = np.sqrt(BOLTZMANN * 300.0 * BAR * softness / volume)
    np.testing.assert_allclose(np.std(found, axis=0), expected, rtol=0.15)
    assert np.abs(np.mean(found, axis=0) / expected).max() < 0.4
    assert np.abs(np.corrcoef(np.array(found).T)[np.triu_indices(3, 1)]).max() < 0.25


def test_note_says_that_constraints_have_no_time_between_scalings():
    files = system_files("water")
    s = replace(read_settings(files.parameters)[0], pcoupl="c-rescale", nstpcouple=2)
    topology = read_system(files.configuration, files.topology, s)[0]
    assert "nstpcouple = 2" in scaling_notes(s, topology)[0]
    assert not scaling_notes(replace(s, nstpcouple=3), topology)
    assert not scaling_notes(replace(s, pcoupl="parrinello-rahman"), topology)


GROUPS = {"tc_grps": ("Protein", "non-Protein"), "ref_t": (350.0, 300.0)}


def test_energies_of_the_thermostats_of_two_groups_are_conserved_with_those_of_the_atoms():
    found = records("peptide", 250, tcoupl="nose-hoover", nsttcouple=1, **GROUPS | {"tau_t": (0.2, 0.5)})
    assert found["conserved"][5:].std() < 0.05 * found["total"][5:].std()


@pytest.mark.parametrize("method", [{"integrator": "sd", "tcoupl": "no"}, {"tcoupl": "v-rescale"}])
def test_groups_hold_temperatures_of_their_own(method):
    found = records("peptide", 400, **GROUPS | method | {"tau_t": (0.02, 0.05)})
    for name, kelvin, n_dof in (("Protein", 350.0, 761.8), ("non-Protein", 300.0, 11076.2)):
        temperature = found[f"temperature_{name}"][15:]
        assert temperature.mean() == pytest.approx(kelvin, abs=0.03 * kelvin)
        assert temperature.std() == pytest.approx(kelvin * np.sqrt(2 / n_dof), rel=0.4)
