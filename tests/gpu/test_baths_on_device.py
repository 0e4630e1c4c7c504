"""Coupling groups with baths of their own on a GPU: as on CPUs, as GROMACS, and on any number of ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import Continuation
from pulsemd.halo import open_transport
from systems import bundled_system, mixed_system
from test_coupling_groups import HOOVER, TEMPERATURES, WEAK, start
from test_engine_ranks import on_one, on_ranks

pytestmark = pytest.mark.gpu

BOX = {"pcoupl": "parrinello-rahman", "tau_p": 0.5, "compressibility": (4.5e-5,), "ref_p": (1.0,)}
CASES = {
    "v-rescale": {"tcoupl": "v-rescale", "tau_t": (0.05, 0.0, -1.0), "nstcomm": 3},
    "nose-hoover": {"tcoupl": "nose-hoover", "tau_t": (0.1, 0.05, -1.0), "nstpcouple": 3} | BOX,
    "berendsen": {"tcoupl": "berendsen", "tau_t": (0.05, 0.02, -1.0)},
    "sd": {"integrator": "sd", "tcoupl": "no", "tau_t": (0.1, 0.05, 0.5)},
}
NAMES = ("temperature_First", "temperature_Second", "temperature_Third")


def in_groups(system):
    """The same with every third molecule in a group of its own."""
    return replace(system, group_of_atom=(system.topology.molecule % 3).astype(np.int32))


def settings_of(case):
    common = {"tc_grps": ("First", "Second", "Third"), "ref_t": (280.0, 300.0, 350.0), "nstlist": 5}
    return common | {"nsttcouple": 2} | CASES[case]


def followed(simulation, steps):
    """Energies of each of the steps, and the frame after them."""
    found = []
    simulation.report_to(
        [Reporter(1, energies=lambda step, time, record: found.append(record))], lambda _: ""
    )
    simulation.run(steps)
    return found, simulation.gather()


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("case", CASES)
def test_groups_on_device_follow_cpu(device, tmp_path, case, precision):
    system = in_groups(mixed_system(tmp_path, **settings_of(case)))
    options = RunOptions(precision=precision, raise_nstlist=False)
    ends = []
    for place in ("cpu", "cuda"):
        with open_transport("loopback") as transport:
            simulation = Simulation(transport, system, replace(options, device=place))
            ends.append(
                (*followed(simulation, 12), simulation.rank.read_work(), simulation.rank.read_extended())
            )
    (before, cpu, work, extended), (after, gpu, device_work, device_extended) = ends
    for name in (*NAMES, "temperature"):
        np.testing.assert_allclose([r[name] for r in after], [r[name] for r in before], atol=5e-2, rtol=1e-4)
    for name in ("kinetic", "conserved"):
        np.testing.assert_allclose([r[name] for r in after], [r[name] for r in before], atol=1.0, rtol=1e-3)
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    np.testing.assert_allclose(device_work, work, atol=2e-2, rtol=1e-4)
    np.testing.assert_allclose(device_extended.values, extended.values, rtol=2e-4, atol=1e-6)
    assert len({round(after[-1][name]) for name in NAMES}) == 3
    assert (np.abs(device_extended.heat[1]) > 0).tolist() == [case == "nose-hoover"] * 2 + [False]


def test_temperatures_of_groups_on_device_follow_gmx(device, tmp_path):
    system = start(tmp_path, HOOVER)
    records, _ = followed(on_one(system, "reproducible"), 10)
    names = ("temperature_Protein", "temperature_non-Protein")
    found = [[records[step][name] for name in names] for step in (0, 1, 5, 9)]
    np.testing.assert_allclose(found, TEMPERATURES, atol=2e-3)


def test_velocities_on_device_where_one_group_is_not_coupled_follow_gmx(device, tmp_path):
    system = start(tmp_path, WEAK)
    simulation = on_one(system, "reproducible")
    simulation.run(10)
    each = 0.5 * system.topology.mass * (simulation.gather().v.astype(float) ** 2).sum(1)
    found = np.bincount(system.group_of_atom, weights=each)
    np.testing.assert_allclose(found, [496.6294, 6143.8436], rtol=1e-5)


@pytest.mark.parametrize(
    ("case", "n_ranks", "rung"),
    [
        ("v-rescale", 1, "nvshmem-step"),
        ("v-rescale", 2, "nvshmem-step"),
        ("v-rescale", 4, "nvshmem-fused"),
        ("nose-hoover", 2, "nvshmem-fused"),
        ("berendsen", 8, "nvshmem-fused"),
        ("sd", 4, "nvshmem-fused"),
    ],
)
def test_groups_on_ranks_have_the_hash_of_one(device, case, n_ranks, rung):
    system = in_groups(bundled_system(**settings_of(case)))
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, n_ranks, "reproducible", rung)
    (expected, _), (found, _) = followed(alone, 23), followed(ranks, 23)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert ranks.rank.read_extended() == alone.rank.read_extended()
    assert ranks.rank.read_work() == alone.rank.read_work()
    for name in (*NAMES, "conserved"):
        np.testing.assert_allclose([r[name] for r in found], [r[name] for r in expected], rtol=1e-9)


@pytest.mark.parametrize("case", ["v-rescale", "nose-hoover"])
def test_groups_taken_up_from_a_checkpoint_go_on_as_if_nothing_had_happened(device, case):
    system = in_groups(bundled_system(**settings_of(case)))
    whole = on_one(system, "reproducible")
    whole.run(20)
    part = on_one(system, "reproducible")
    part.run(13)
    now, searched, rank = part.gather(), part.gather_searched(), part.rank
    continuation = Continuation(
        now.x, part.r_list, part.nstlist, *rank.read_work(), rank.read_cell(), rank.read_extended()
    )
    boxes = {"box": searched.cell.box, "user_box": searched.cell.user_box}
    again = replace(system, x=searched.x, v=now.v, step=13, continuation=continuation, **boxes)
    rest = on_one(again, "reproducible")
    rest.run(7)
    assert rest.trajectory_hash() == whole.trajectory_hash()
    assert rest.rank.read_work() == whole.rank.read_work()
    assert rest.rank.read_extended() == whole.rank.read_extended()
