"""All bonds constrained by LINCS on a device, beside CPUs, and across ranks."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.domain.lattice import LATTICE
from pulsemd.engine.gpu_control import ProcessControl
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import launch_gpus, open_transport
from pulsemd.halo.rungs.ladder import open_rung
from rungs import skipped_where_missing
from systems import bundled_system
from test_engine_ranks import on_one, on_ranks

pytestmark = pytest.mark.gpu


def simulate(precision, device="cuda", **settings):
    system = bundled_system("peptide", constraints="all-bonds", **settings)
    options = RunOptions(precision=precision, device=device)
    return Simulation(open_transport("loopback"), system, options)


def largest_deviation(simulation):
    """Largest relative deviation of a constrained length."""
    terms, x = simulation.system.topology.terms["constraint"], simulation.gather().x
    d = (x[terms.atoms[:, 0]] - x[terms.atoms[:, 1]]).astype(np.float64) / LATTICE @ simulation.system.box
    return float(np.abs(np.linalg.norm(d, axis=1) / terms.parameters[terms.index, 0] - 1.0).max())


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_steps_with_all_bonds_constrained_are_those_of_the_cpu(device, precision):
    cpu, mine = simulate(precision, "cpu", tcoupl="no"), simulate(precision, tcoupl="no")
    for simulation in (cpu, mine):
        simulation.run(3)
    expected, found = cpu.evaluate(), mine.evaluate()
    for name in ("potential", "kinetic"):
        assert found[name] == pytest.approx(expected[name], rel=2e-6), name
    assert found["pressure"] == pytest.approx(expected["pressure"], abs=1.0)
    assert np.abs(mine.gather().v - cpu.gather().v).max() < 2e-4


def test_lengths_hold_over_searches_and_noise(device):
    simulation = simulate("fast", integrator="sd", tcoupl="no", tau_t=0.5, ref_t=300.0, nstlist=5)
    simulation.run(20)
    assert largest_deviation(simulation) < 5e-4
    assert simulation.evaluate()["temperature"] == pytest.approx(300.0, abs=30.0)


def test_a_higher_order_holds_lengths_better(device):
    simulation = simulate("reproducible", tcoupl="no", lincs_order=8, lincs_iter=4)
    simulation.run(5)
    assert largest_deviation(simulation) < 1e-6


def test_a_constraint_that_turns_by_more_than_lincs_warnangle_is_warned_of_once(device, caplog):
    simulation = simulate("fast", tcoupl="no", lincs_warnangle=3.0, nstlist=2)
    caplog.clear()  # what the CPU found when it constrained the start
    simulation.run(5)
    (message,) = [record.getMessage() for record in caplog.records if "LINCS" in record.getMessage()]
    assert "degrees in a step, more than lincs-warnangle = 3" in message


ACROSS = {
    "v-rescale": {"nsttcouple": 2, "nstcomm": 3, "lincs_warnangle": 90.0},
    "box": {
        "tcoupl": "nose-hoover",
        "pcoupl": "c-rescale",
        "nstpcouple": 2,
        "tau_p": 0.5,
        "ref_p": (1.0,),
        "compressibility": (4.5e-5,),
    },
    "sd": {"integrator": "sd", "tcoupl": "no", "tau_t": 0.5, "ref_t": 300.0},
    "full steps": {
        "integrator": "md-vv",
        "nsttcouple": 2,
        "nstcomm": 3,
        "pcoupl": "c-rescale",
        "nstpcouple": 3,
        "tau_p": 0.5,
        "ref_p": (1.0,),
        "compressibility": (4.5e-5,),
    },
}


def across(case):
    return bundled_system("peptide", constraints="all-bonds", nstlist=4, **ACROSS[case])


@pytest.mark.parametrize("plan", ["staged", "direct"])
@pytest.mark.parametrize(
    ("case", "n_ranks"),
    [("v-rescale", 1), ("v-rescale", 4), ("box", 2), ("sd", 8), ("full steps", 2), ("full steps", 4)],
)
def test_networks_across_ranks_have_the_hash_of_one(device, case, n_ranks, plan):
    system = across(case)
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, n_ranks, "reproducible", plan=plan)
    for simulation in (alone, ranks):
        simulation.run(14)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    np.testing.assert_array_equal(ranks.frame().v, alone.frame().v)
    expected, found = alone.evaluate(), ranks.evaluate()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


def test_lengths_hold_across_ranks_in_fast_mode(device):
    ranks = on_ranks(across("v-rescale"), 4, "fast")
    ranks.run(40)
    assert largest_deviation(ranks) < 5e-4


@pytest.mark.parametrize(
    ("rung", "per_gpu", "case"),
    [
        ("nvshmem-fused", 1, "v-rescale"),
        ("nvshmem-step", 2, "sd"),
        ("nvshmem-stream", 1, "box"),
        ("mpi", 1, "v-rescale"),
        ("nvshmem-fused", 2, "full steps"),
        ("mpi", 1, "full steps"),
    ],
)
def test_networks_across_two_gpus_have_the_hash_of_one(device, rung, per_gpu, case):
    if device.xp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    alone = on_one(across(case), "reproducible")
    alone.run(14)
    with skipped_where_missing(rung):
        found = launch_gpus(2, f"{__name__}:hash_and_energies", (case, rung), None, ranks_per_gpu=per_gpu)
    assert found[0] == alone.trajectory_hash()
    for name, value in alone.evaluate().items():
        assert found[1][name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


def hash_and_energies(world, asked):
    """Of a run of the ranks of all processes."""
    case, rung = asked
    with open_rung(world, rung) as transport:
        options = RunOptions(
            device="cuda", ranks=transport.size, ranks_per_gpu=transport.n_local, precision="reproducible"
        )
        simulation = Simulation(ProcessControl(transport), across(case), options)
        simulation.run(14)
        return simulation.trajectory_hash(), simulation.evaluate()
