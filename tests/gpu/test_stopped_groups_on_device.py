"""Centres of mass of several groups that are stopped, on a GPU: as on CPUs, and on any number of ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.freeze import freeze_atoms
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from systems import SITES_TOP, bundled_system, mixed_system
from test_baths_on_device import followed, in_groups
from test_engine_ranks import on_one, on_ranks

pytestmark = pytest.mark.gpu

BATHS = {"tc_grps": ("First", "Second", "Third"), "tau_t": (0.05, 0.1, -1.0), "ref_t": (280.0, 300.0, 350.0)}
BOX = {
    "pcoupl": "parrinello-rahman",
    "tau_p": 0.5,
    "compressibility": (4.5e-5,),
    "ref_p": (1.0,),
    "nstpcouple": 3,
}
CASES = {
    "no baths": {"tcoupl": "no", "nstcomm": 2},
    "v-rescale": {"tcoupl": "v-rescale", "nsttcouple": 2, "nstcomm": 3} | BATHS,
    "nose-hoover": {"tcoupl": "nose-hoover", "nsttcouple": 2, "nstcomm": 2} | BATHS | BOX,
    "md-vv": {"integrator": "md-vv", "tcoupl": "berendsen", "nsttcouple": 3, "nstcomm": 2} | BATHS,
    "sd": {"integrator": "sd", "tcoupl": "no", "nstcomm": 2} | BATHS | {"tau_t": (0.1, 0.05, 0.5)},
}
FIRST, SECOND = "Even", "Odd"


def stopped(system, several=True):
    """The same with every other molecule in one of two groups that are stopped, and the last 20 in none."""
    molecule = system.topology.molecule
    held = (molecule % 2).astype(np.int32)
    held[molecule > molecule.max() - 20] = -1
    system = in_groups(system) if len(system.settings.baths) > 1 else system
    return replace(system, held_group_of_atom=held) if several else system


def settings_of(case):
    return {"comm_grps": (FIRST, SECOND), "nstlist": 5} | CASES[case]


def momenta(system, v):
    """Of the groups, in float64."""
    mass = system.topology.mass[:, None]
    return np.array([(mass * v)[system.held_group_of_atom == g].sum(0) for g in (0, 1, -1)])


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("case", CASES)
def test_stopped_groups_on_device_follow_cpu(device, tmp_path, case, precision):
    top = {"top": SITES_TOP} if case == "v-rescale" else {}
    system = stopped(mixed_system(tmp_path, **top, **settings_of(case)))
    options, ends = RunOptions(precision=precision, raise_nstlist=False), []
    for place in ("cpu", "cuda"):
        with open_transport("loopback") as transport:
            simulation = Simulation(transport, system, replace(options, device=place))
            ends.append(followed(simulation, 11))
    (before, cpu), (after, gpu) = ends
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    np.testing.assert_allclose(momenta(system, gpu.v), momenta(system, cpu.v), atol=0.5)
    for name in ("kinetic", "conserved"):
        np.testing.assert_allclose([r[name] for r in after], [r[name] for r in before], atol=1.0, rtol=1e-3)
    for name in (name for name in before[0] if name.startswith("temperature")):
        np.testing.assert_allclose([r[name] for r in after], [r[name] for r in before], atol=5e-2, rtol=1e-4)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_momenta_of_stopped_groups_on_device_are_zero_and_those_of_others_stay(device, tmp_path, precision):
    system = mixed_system(tmp_path, **settings_of("no baths"))
    system.v[system.topology.mass > 0] += np.float32(0.5)
    system = stopped(system)
    update = on_one(system, precision).rank._update
    gid = device.to_host(update._slots.gid)
    found = []
    for interval in (0, 3):
        update.set_step(9)
        update.sum_kinetic(0, 0, interval)
        v = np.zeros(system.v.shape)
        v[gid[gid >= 0]] = device.to_host(update.velocities)[gid >= 0, :3]
        found.append(
            (momenta(system, v), 0.5 * system.topology.mass @ (v**2).sum(1), update.read()["kinetic"])
        )
    (before, energy, sum_before), (after, less, sum_after) = found
    assert np.abs(before).min() > 100
    assert np.abs(after[:2]).max() < 1e-3
    np.testing.assert_array_equal(after[2], before[2])
    assert (sum_before, sum_after) == pytest.approx((energy, less), rel=1e-6)
    assert less < energy - 100


def test_frozen_atoms_of_a_stopped_group_stay_on_device(device, tmp_path):
    system = mixed_system(tmp_path, **settings_of("no baths"))
    frozen = np.flatnonzero(system.topology.molecule < 10).astype(np.int32)
    topology = freeze_atoms(system.topology, frozen)
    v = np.where(topology.mass[:, None] > 0, system.v, 0).astype(np.float32)
    simulation = on_one(stopped(replace(system, topology=topology, v=v)), "reproducible")
    simulation.run(6)
    end = simulation.gather()
    np.testing.assert_array_equal(end.x[frozen], system.x[frozen])
    assert not end.v[frozen].any()


@pytest.mark.parametrize(
    ("case", "n_ranks", "rung"),
    [
        ("no baths", 2, "nvshmem-step"),
        ("v-rescale", 2, "nvshmem-fused"),
        ("v-rescale", 4, "nvshmem-step"),
        ("nose-hoover", 4, "nvshmem-fused"),
        ("md-vv", 8, "nvshmem-fused"),
        ("sd", 2, "nvshmem-fused"),
    ],
)
def test_stopped_groups_on_ranks_have_the_hash_of_one(device, case, n_ranks, rung):
    system = stopped(bundled_system(**settings_of(case)))
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, n_ranks, "reproducible", rung)
    (expected, _), (found, _) = followed(alone, 23), followed(ranks, 23)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    for name in ("temperature", "kinetic", "conserved"):
        np.testing.assert_allclose([r[name] for r in found], [r[name] for r in expected], rtol=1e-9)


def test_a_stopped_protein_with_lincs_across_ranks_has_the_hash_of_one(device):
    system = bundled_system("peptide", constraints="all-bonds", **settings_of("no baths"))
    held = (np.arange(system.topology.n_atoms) >= 304).astype(np.int32)
    system = replace(system, held_group_of_atom=held)
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, 2, "reproducible")
    for simulation in (alone, ranks):
        simulation.run(7)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert ranks.evaluate()["temperature"] == pytest.approx(alone.evaluate()["temperature"], rel=1e-9)


def test_stopped_groups_in_graphs_of_steps_have_the_hash_of_single_launches(device):
    system = stopped(bundled_system(**settings_of("v-rescale") | {"nstlist": 10, "nstcomm": 4}))
    hashes = []
    for graph in (True, False):
        simulation = on_one(system, "reproducible", graph=graph)
        simulation.run(60)
        hashes.append(simulation.trajectory_hash())
    assert hashes[0] == hashes[1]
