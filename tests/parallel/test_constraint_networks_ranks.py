"""Networks of constraints across ranks: the bits of one rank, however the atoms are shared out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.networks import ConstraintNetworks
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import Transport, launch
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

DT = 0.002


def peptide(**settings):
    files = system_files("peptide")
    found = replace(read_settings(files.parameters)[0], constraints="all-bonds", gen_seed=5, ld_seed=6)
    topology, table, frame, found = read_system(
        files.configuration, files.topology, replace(found, **settings)
    )
    return prepare_system(topology, table, found, frame.positions, frame.velocities, frame.box)


def moved(transport: Transport, payload: tuple[int, int, int]) -> tuple[bytes, bytes, list[int]]:
    """Positions and velocities of constrained atoms after a move, owned by ranks at random; and atoms on each rank."""
    order, iterations, seed = payload
    system = peptide()
    n = system.topology.n_atoms
    networks = ConstraintNetworks(
        system.topology, RunSettings(lincs_order=order, lincs_iter=iterations, lincs_warnangle=90.0)
    )
    atoms = np.unique(system.topology.terms["constraint"].atoms)
    piece = np.random.default_rng(seed).integers(0, transport.size, n // 8 + 1)
    mine = np.flatnonzero(piece[np.arange(n) // 8] == transport.rank).astype(np.int32)
    local_row = np.full(n, -1, np.int32)
    local_row[mine] = np.arange(len(mine))
    networks.bind(local_row, len(mine), transport)
    x, v, f = system.x[mine], system.v[mine], np.zeros((len(mine), 3), np.float32)
    networks.begin(x, v, f, 1.0, DT, 1.0, np.zeros(3))
    inverse = np.linalg.inv(system.box) * 2.0**32
    assert networks.finish(x, v, system.box, inverse, DT, np.zeros(0), 0.0) < 0
    sizes = transport.allgather(len(networks._atoms))
    parts = transport.allgather((mine, x, v))
    whole_x, whole_v = np.zeros((n, 3), np.int32), np.zeros((n, 3), np.float32)
    for rows, part_x, part_v in parts:
        whole_x[rows], whole_v[rows] = part_x, part_v
    return whole_x[atoms].tobytes(), whole_v[atoms].tobytes(), sizes


@pytest.mark.parametrize(("order", "iterations"), [(1, 0), (2, 1), (4, 1), (1, 3)])
def test_moves_of_atoms_that_ranks_own_at_random_are_those_of_one_rank(order, iterations):
    target = "test_constraint_networks_ranks:moved"
    expected = launch(1, target, (order, iterations, 0), "loopback")
    for seed, ranks in ((1, 2), (2, 3), (3, 5)):
        found = launch(ranks, target, (order, iterations, seed), "loopback")
        assert found[:2] == expected[:2]
    if order * iterations < 3:
        assert max(found[2]) < 0.9 * expected[2][0]  # no rank has them all


def run(transport: Transport, payload: tuple[str, str]) -> tuple[str, float]:
    plan, integrator = payload
    coupled = {
        "integrator": integrator,
        "pcoupl": "c-rescale",
        "nstpcouple": 3,
        "tau_p": 1.0,
        "ref_p": (1.0,),
        "compressibility": (4.5e-5,),
    }
    simulation = Simulation(
        transport,
        peptide(nstlist=4, verlet_buffer_tolerance=-1.0, rlist=1.1, **coupled),
        RunOptions(transport.size, None, "loopback", plan, "reproducible"),
    )
    simulation.run(9)
    return transport.broadcast(simulation.trajectory_hash()), simulation.evaluate()["pressure"]


def hashes(plans, integrator="md"):
    target = "test_constraint_networks_ranks:run"
    return {launch(n, target, (plan, integrator), "loopback", timeout=120) for n, plan in plans.items()}


@pytest.mark.parametrize("integrator", ["md", "md-vv"])
def test_a_run_with_all_bonds_constrained_has_one_hash_on_1_and_3_ranks(integrator):
    assert len(hashes({1: "staged", 3: "direct"}, integrator)) == 1


@pytest.mark.slow
def test_a_run_with_all_bonds_constrained_has_one_hash_on_1_2_4_5_7_ranks():
    assert len(hashes({1: "staged", 2: "staged", 4: "direct", 5: "staged", 7: "direct"})) == 1
