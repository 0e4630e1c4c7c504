"""Simulations that step by turns, on one transport or with ranks of their own: each as if it were alone."""

from __future__ import annotations

import pytest

import pulsemd
from pulsemd.engine.gromacs_system import system_from_gromacs
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import launch
from pulsemd.systems import system_files

STEPS = 36
TURNS = (1, 12, 10, 13)
CASES = (("water", 3), ("water", 4), ("peptide", 3))


def files(name):
    found = system_files(name)
    return found.configuration, found.topology, found.parameters


def seeded(seed):
    return {"gen_seed": seed, "ld_seed": seed}


def hashes(transport, by_turns):
    """Of three systems, two of them with one box, stepped by turns or one after the other."""
    systems = [system_from_gromacs(*files(name), (), None, None, None, seeded(seed)) for name, seed in CASES]
    options = RunOptions(transport.size, precision="reproducible", device="cpu")
    if not by_turns:
        alone = []
        for system in systems:
            alone.append(Simulation(transport, system, options))
            alone[-1].run(STEPS)
        return [simulation.trajectory_hash() for simulation in alone]
    simulations = [Simulation(transport, system, options) for system in systems]
    for n in TURNS:
        for simulation in simulations:
            simulation.run(n)
    return [simulation.trajectory_hash() for simulation in simulations]


@pytest.mark.parametrize(("ranks", "transport"), [(1, "loopback"), (2, "shmem"), (4, "shmem")])
def test_simulations_by_turns_on_one_transport_have_the_hashes_of_one_after_the_other(ranks, transport):
    target = f"{__name__}:hashes"
    expected = launch(ranks, target, False, transport)
    assert len(set(expected)) == len(CASES)
    assert launch(ranks, target, True, transport) == expected


def test_simulations_of_python_by_turns_have_the_hash_of_one_alone_also_after_one_was_closed():
    def start(ranks, seed):
        return pulsemd.Simulation.from_gromacs(
            *files("water"), ranks=ranks, precision="reproducible", device="cpu", **seeded(seed)
        )

    with start(1, 3) as one, start(2, 3) as two, start(2, 4) as other:
        for n in TURNS[:2]:
            one.run(n), two.run(n), other.run(n)
        other.close()
        for n in TURNS[2:]:
            one.run(n), two.run(n)
        assert one.trajectory_hash == two.trajectory_hash
        with start(2, 3) as again:
            assert again.run(STEPS).trajectory_hash == one.trajectory_hash
