"""Whole runs on a device: energies of the CPU, conservation, temperature, and equal bits in reproducible mode."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from pair_potentials import POTENTIALS
from pulsemd.base.errors import UnstableError
from pulsemd.base.units import BAR
from pulsemd.engine import gpu_rank
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.kernels.nonbonded import gpu as gpu_nonbonded
from pulsemd.kernels.update import cuda_programs, gpu_kinetic
from pulsemd.kernels.update import gpu as gpu_update
from pulsemd.systems import list_systems
from systems import bundled_system, overlapping_waters

pytestmark = pytest.mark.gpu


def simulate(system, precision="fast", device="cuda", reporters=None):
    return Simulation(
        open_transport("loopback"), system, RunOptions(precision=precision, device=device), reporters
    )


@pytest.mark.parametrize("name", list_systems())
@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_energies_on_device_equal_cpu(device, precision, name):
    system = bundled_system(name)
    reference = simulate(system, "reproducible", "cpu").evaluate()
    mine = simulate(system, precision).evaluate()
    assert mine.keys() == reference.keys()
    for term in reference.keys() - {"pressure", "total", "conserved"}:
        assert mine[term] == pytest.approx(reference[term], rel=1e-5, abs=2e-3), term
    virial = [3 * e["pressure"] * e["volume"] / BAR - 2 * e["kinetic"] for e in (mine, reference)]
    assert virial[0] == pytest.approx(virial[1], rel=2e-5, abs=2.0)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_lennard_jones_in_python_on_device_gives_the_energies_of_the_built_in_one(device, precision):
    system = bundled_system("water-ethanol")
    expected = simulate(system, precision).evaluate()
    found = simulate(replace(system, pair_potential=POTENTIALS["my_lj"]), precision).evaluate()
    for term, value in expected.items():
        assert found[term] == pytest.approx(value, rel=1e-5, abs=0.1 if term == "pressure" else 2e-3), term


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_a_single_point_of_overlapping_atoms_gives_its_energy_and_a_warning(device, caplog, where):
    system, expected = overlapping_waters()
    energies = simulate(system, device=where).evaluate()
    assert energies["lj"] == pytest.approx(expected, rel=1e-4)
    assert "atoms overlap, a run cannot start so" in caplog.text


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_energy_is_conserved_without_a_thermostat(device, precision):
    """Below 0.05 kJ/mol/ps per atom is what a wrong force or a lost pair would exceed at once."""
    conserved = []
    reporter = Reporter(100, energies=lambda _s, _t, e: conserved.append(e["conserved"]))
    system = bundled_system(
        tcoupl="no", nsttcouple=10, verlet_buffer_tolerance=-1.0, rlist=1.15, nstlist=10, dt=0.001
    )
    simulate(system, precision, reporters=[reporter]).run(4001)
    time = np.arange(len(conserved)) * 0.1
    settled = time >= 1.0
    slope = np.polyfit(time[settled], np.array(conserved)[settled], 1)[0]
    assert abs(slope) / system.topology.n_atoms < 2e-3


def test_thermostat_on_device_holds_the_temperature(device):
    temperature = []
    reporter = Reporter(20, energies=lambda _s, _t, e: temperature.append(e["temperature"]))
    simulation = simulate(bundled_system(tau_t=0.1), reporters=[reporter])
    simulation.run(1000)
    assert np.mean(temperature[10:]) == pytest.approx(300.0, abs=6.0)
    frame = simulation.gather()
    mass = simulation.system.topology.mass
    assert np.abs(mass @ frame.v).max() < 2.0
    energies = simulation.evaluate()
    assert np.isfinite(list(energies.values())).all()


def test_waters_stay_rigid_on_device(device):
    system = bundled_system()
    simulation = simulate(system)
    simulation.run(200)
    x = simulation.gather().x
    o, h1, h2 = (x[system.topology.settle_atoms[:, k]] for k in range(3))
    d_oh, d_hh = system.topology.settle_parameters[0]
    for a, b, length in ((o, h1, d_oh), (o, h2, d_oh), (h1, h2, d_hh)):
        r = (a - b).astype(np.float64) / 2**32 @ system.box
        np.testing.assert_allclose(np.linalg.norm(r, axis=1), length, atol=2e-8)


@pytest.mark.parametrize("name", ["water", "water-ethanol"])
def test_three_reproducible_runs_on_device_give_one_hash_for_any_launch_shape(device, monkeypatch, name):
    system = bundled_system(name)

    def digest():
        simulation = simulate(system, "reproducible", reporters=[Reporter(50, energies=lambda *_: None)])
        simulation.run(300)
        return simulation.trajectory_hash(), simulation.evaluate()

    first = digest()
    assert digest() == first
    assert digest() == first
    monkeypatch.setattr(gpu_nonbonded, "PAIR_WARPS", 2)
    for name, threads, user in (("MOVE_THREADS", 128, gpu_update), ("SUM_THREADS", 64, gpu_kinetic)):
        for module in (cuda_programs, user):
            monkeypatch.setattr(module, name, threads)
    assert digest() == first


def test_steps_as_graphs_give_the_hash_of_steps_launched_one_by_one(device):
    """Graphs of whole lifetimes, of the steps between two outputs, and cut where outputs fall unevenly."""
    system = bundled_system()
    ends = set()
    for graph, interval in ((False, 0), (True, 0), (True, 20), (True, 7)):
        reporters = [Reporter(interval, energies=lambda *_: None)] if interval else []
        options = RunOptions(precision="reproducible", device="cuda", graph=graph)
        simulation = Simulation(open_transport("loopback"), system, options, reporters)
        simulation.warm_up()
        simulation.run(200)
        ends.add(simulation.trajectory_hash())
        if interval != 7:  # which comes in the same place of a lifetime too seldom
            assert isinstance(simulation.rank.graph_report(), dict) == graph
    assert len(ends) == 1


@pytest.mark.parametrize("name", list_systems())
def test_kernels_that_overlap_give_the_hash_of_kernels_one_after_the_other(device, monkeypatch, name):
    system, ends = bundled_system(name, nsttcouple=5), []
    new_device = gpu_rank.CudaDevice

    def without_overlap():
        made = new_device()
        made.can_overlap = False
        return made

    for make in (new_device, without_overlap):
        monkeypatch.setattr(gpu_rank, "CudaDevice", make)
        simulation = simulate(system, "reproducible")
        simulation.run(300)
        ends.append((simulation.trajectory_hash(), simulation.evaluate()))
    assert ends[0] == ends[1]


def test_forces_started_by_the_move_give_the_bits_of_the_exclusion_kernel(device, monkeypatch):
    ends = []
    for together in (True, False):
        simulation = simulate(
            bundled_system(), "reproducible", reporters=[Reporter(7, energies=lambda *_: None)]
        )
        if not together:
            monkeypatch.setattr(simulation.rank._exclusions, "water_field", None)
            monkeypatch.setattr(simulation.rank._update, "_field", None)
        simulation.run(60)
        ends.append((simulation.trajectory_hash(), simulation.evaluate()))
    assert ends[0] == ends[1]


def test_device_and_cpu_follow_the_same_trajectory_for_a_while(device):
    system = bundled_system(nsttcouple=5, nstcomm=10)
    ends = []
    for where in ("cpu", "cuda"):
        simulation = simulate(system, "reproducible", where)
        simulation.run(25)
        ends.append(simulation.gather())
    r = (ends[0].x - ends[1].x).astype(np.float64) / 2**32 @ system.box
    assert np.abs(r).max() < 2e-6
    np.testing.assert_allclose(ends[0].v, ends[1].v, atol=2e-3)


def test_blow_up_on_device_names_step_and_atom(device):
    system = bundled_system(tcoupl="no", comm_mode="none")
    system.v[3:6] = 5e5
    simulation = simulate(system)
    with pytest.raises(UnstableError, match=r"step 0: SOL 2 OW \(atom 4\)"):
        simulation.run(50)


def test_run_command_on_device_writes_its_choice_into_the_summary(device, pulsemd):
    summary = pulsemd.summary("run", "water", "-o", "out", "--device", "cuda", "--steps", 100)
    assert summary["device"] == "cuda"
    assert device.name in summary["device_name"]
    assert summary["steps"] == 100
    assert 100 * summary["atoms"] < summary["device_bytes"] < 2**30
    assert summary["searches"]["on_device"] == summary["searches"]["all"] >= 1
    host = summary["host_us_per_step"]
    assert 0.0 < host["cpu"] <= 1.01 * host["wall"] < 1.01 * summary["us_per_step"]
    auto = pulsemd.summary("run", "water", "-o", "out2", "--steps", 10)
    assert auto["device"] == "cuda"
    assert auto["device_reason"]
    assert json.loads((pulsemd.folder / "out" / "summary.json").read_text())["trajectory_hash"]


def test_several_ranks_on_one_gpu_are_refused_with_the_remedy(device, pulsemd):
    one = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    command = ("run", "water", "-o", "out", "--device", "cuda", "--ranks", 2)
    done = pulsemd(*command, env={"CUDA_VISIBLE_DEVICES": one})
    assert done.returncode == 4
    assert "use fewer --ranks" in done.stderr
