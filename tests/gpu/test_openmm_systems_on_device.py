"""Systems of OpenMM's force fields on a device: energies and forces of its Reference platform, the CPU's virial."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from openmm_systems import NAMES, assert_energies, read, single_point
from pulsemd.engine.openmm_system import system_from_openmm
from pulsemd.kernels.update import cuda_programs
from pulsemd.kernels.update import gpu as gpu_update
from single_points import forces_of, simulate, virial_of

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", NAMES)
def test_openmm_systems_on_device(device, name):
    system, recorded = single_point(name), read(name)[1]
    cpu = simulate(system, "reproducible", "cpu")
    reference = cpu.evaluate()
    virial, largest = virial_of(cpu)
    heavy = system.topology.mass > 0  # OpenMM leaves the forces of sites where they were, too
    forces = recorded.forces[heavy].astype(float)
    for precision in ("fast", "reproducible"):
        simulation = simulate(system, precision)
        energies = simulation.evaluate()
        assert_energies(energies, recorded.energies)
        for term in reference.keys() - {"pressure", "total", "conserved"}:
            assert energies[term] == pytest.approx(reference[term], rel=1e-5, abs=2e-3), (precision, term)
        np.testing.assert_allclose(virial_of(simulation)[0], virial, rtol=0, atol=2e-5 * largest)
        mine = forces_of(simulation)[heavy]
        assert np.linalg.norm(mine - forces) <= 1e-5 * np.linalg.norm(forces), precision


RUN = {
    "dt": 0.001,
    "nsteps": -1,
    "nstlist": 10,
    "tcoupl": "v-rescale",
    "tc_grps": "System",
    "tau_t": 0.1,
    "ref_t": 300.0,
    "ld_seed": 5,
    "gen_vel": True,
    "gen_temp": 300.0,
    "gen_seed": 3,
}


def test_a_protein_in_four_site_water_on_device_follows_the_cpu(device):
    """ff14SB and TIP4P-Ew; the energies of the end, computed by both."""
    system = system_from_openmm(read("tip4pew")[0], RUN)
    assert len(system.topology.virtual_sites)
    ends = []
    for where in ("cpu", "cuda"):
        simulation = simulate(system, "reproducible", where)
        simulation.run(40)
        ends.append(simulation.gather())
    r = (ends[0].x - ends[1].x).astype(np.float64) / 2**32 @ system.box
    assert np.abs(r).max() < 5e-6
    np.testing.assert_allclose(ends[0].v, ends[1].v, atol=5e-3)
    end = replace(system, x=ends[0].x, v=ends[0].v)
    expected, found = (simulate(end, "reproducible", where).evaluate() for where in ("cpu", "cuda"))
    for term in expected.keys() - {"pressure", "total", "conserved"}:
        assert found[term] == pytest.approx(expected[term], rel=1e-5, abs=2e-3), term


def test_a_protein_in_four_site_water_on_device_gives_one_hash_for_any_launch_shape(device, monkeypatch):
    system = system_from_openmm(read("tip4pew")[0], RUN)
    hashes = set()
    for threads in (64, 64, 128):
        for module in (cuda_programs, gpu_update):
            monkeypatch.setattr(module, "MOVE_THREADS", threads)
        simulation = simulate(system, "reproducible")
        simulation.run(400)
        hashes.add(simulation.trajectory_hash())
    assert len(hashes) == 1
