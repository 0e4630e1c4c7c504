"""`Simulation.from_openmm` runs: rank counts give one trajectory, energy is conserved, settings win."""

from __future__ import annotations

import numpy as np
import pytest

import pulsemd
from openmm_systems import DATA, read
from pulsemd.base.errors import ConfigError, InputError

RUN = {"dt": 0.001, "gen_vel": True, "gen_temp": 300, "gen_seed": 5, "device": "cpu"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Path of the XML of a system, positions and box."""

    def write(name):
        with np.load(DATA / f"{name}.npz") as archive:
            path = tmp_path_factory.mktemp(name) / "system.xml"
            path.write_bytes(archive["system"].tobytes())
            return path, archive["positions"].astype(float), archive["box"]

    return {name: write(name) for name in ("tip4pew", "charmm36", "pme")}


def simulate(start, name, **options):
    path, positions, box = start[name]
    return pulsemd.Simulation.from_openmm(path, positions, box=box, **RUN, **options)


@pytest.mark.parametrize("name", ["tip4pew", "charmm36", "pme"])
def test_ranks_give_one_trajectory(start, name):
    hashes = set()
    for ranks in (1, 2):
        with simulate(start, name, ranks=ranks, precision="reproducible") as simulation:
            hashes.add(simulation.run(12).trajectory_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize(("ranks", "precision"), [(1, "fast"), (2, "reproducible")])
def test_forces_are_those_of_openmm_and_looking_changes_nothing(start, ranks, precision):
    expected = read("tip4pew")[1].forces.astype(float)
    path, positions, box = start["tip4pew"]
    options = {**RUN, "gen_vel": False, "continuation": True, "ranks": ranks, "precision": precision}
    hashes = []
    for look in (True, False):
        with pulsemd.Simulation.from_openmm(path, positions, box=box, **options) as simulation:
            if look:
                found, mass = simulation.forces, simulation.topology.mass
            hashes.append(simulation.run(5).trajectory_hash)
            simulation._ranks.about["device"] = "cuda: a GPU"
            with pytest.raises(ConfigError, match="make the simulation with device='cpu' to look at them"):
                _ = simulation.forces
    assert hashes[0] == hashes[1]
    assert not found[mass == 0].any()
    away = np.linalg.norm((found - expected)[mass > 0])
    assert away < 1e-5 * np.linalg.norm(expected[mass > 0])


@pytest.mark.parametrize("name", ["tip4pew", "charmm36"])
def test_energy_is_conserved(start, name):
    """Within 0.005 kJ/mol per atom over 0.2 ps, measured: 0.0008, with constraints, sites, a switched potential."""
    with simulate(start, name) as simulation:
        simulation.run(20)
        before = simulation.energies["conserved"]
        after = simulation.run(200).energies["conserved"]
        n_atoms = simulation.topology.n_atoms
    assert abs(after - before) < 0.005 * n_atoms


def test_settings_win_and_are_checked(start):
    with simulate(start, "charmm36", nstlist=5, comm_mode="none") as simulation:
        assert (simulation.settings.nstlist, simulation.settings.comm_mode) == (5, "none")
    with pytest.raises(
        InputError, match=r"unknown option colour; it is neither an \.mdp option nor a keyword here"
    ):
        simulate(start, "charmm36", colour="red")
    with pytest.raises(ConfigError, match="ranks = 0"):
        simulate(start, "charmm36", ranks=0)


def test_names_of_openmm_are_refused_with_those_that_do_the_same(start):
    with simulate(start, "tip4pew") as simulation:
        with pytest.raises(AttributeError, match=r"OpenMM's minimizeEnergy is minimize\(emtol=\.\.\.\) here"):
            simulation.minimizeEnergy()
        with pytest.raises(TypeError, match=r"number of steps made, 0; OpenMM's step\(n\) is run\(n\) here"):
            simulation.step(100)
        with pytest.raises(ConfigError, match="emtol = 10 kJ must be a positive number, without unit"):
            simulation.minimize(emtol="10 kJ")
        with pytest.raises(AttributeError, match=r"has no attribute 'colour'$"):
            _ = simulation.colour


@pytest.mark.parametrize("name", ["tip4pew", "pme"])
def test_simulation_goes_on_from_the_arrays_of_another(start, name):
    """To the rounding of positions to and from float64, over ten steps."""
    path, _, _ = start[name]
    with simulate(start, name) as simulation:
        simulation.run(10)
        now = simulation.snapshot
        at_the_end = simulation.run(10).positions
    options = {"dt": 0.001, "device": "cpu", "init_step": now.step, "continuation": True}
    with pulsemd.Simulation.from_openmm(
        path, now.positions, velocities=now.velocities, box=now.box, **options
    ) as again:
        assert again.step == 10
        assert again.run(10).time == pytest.approx(0.02)
        np.testing.assert_allclose(again.positions, at_the_end, atol=1e-5)


def test_langevin_dynamics_goes_on_with_the_seed_of_the_first(start, tmp_path):
    path, positions, box = start["tip4pew"]
    langevin = tmp_path / "integrator.xml"
    langevin.write_text(
        '<Integrator type="LangevinMiddleIntegrator" stepSize="0.001" friction="1" temperature="300" randomSeed="0"/>'
    )
    with pulsemd.Simulation.from_openmm(path, positions, langevin, box=box, device="cpu") as simulation:
        now = simulation.run(10).snapshot
        seed = simulation.settings.ld_seed
        at_the_end = simulation.run(10).positions
    kept = {"box": now.box, "init_step": now.step, "continuation": True, "device": "cpu"}
    for ld_seed in (seed, seed + 1):
        with pulsemd.Simulation.from_openmm(
            path, now.positions, langevin, velocities=now.velocities, ld_seed=ld_seed, **kept
        ) as again:
            away = np.abs(again.run(10).positions - at_the_end).max()
        assert (away < 1e-5) == (ld_seed == seed)
