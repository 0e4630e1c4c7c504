"""The PME mesh on a device against the CPU: forces, energy, virial, whole steps, equal bits in reproducible mode."""

from __future__ import annotations

import ewald_sums
import numpy as np
import pytest
from ewald_sums import BETA, FACTOR

from pulsemd.domain.lattice import lattice_transform, reduce_box, to_lattice
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.kernels.pme import cuda_programs, gpu, solvers
from pulsemd.kernels.pme.cuda_programs import PlaneShape
from pulsemd.kernels.pme.gpu import GpuLatticeSum
from pulsemd.kernels.pme.lattice_sum import LatticeSum
from pulsemd.kernels.pme.mesh import Mesh, mesh_size
from pulsemd.kernels.search.gpu_layout import Slots
from systems import bundled_system

pytestmark = pytest.mark.gpu

BOXES = {
    "orthorhombic": np.diag([2.0, 2.2, 2.6]),
    "triclinic": np.array([[2.2, 0.0, 0.0], [0.3, 2.1, 0.0], [-0.5, 0.4, 2.3]]),
}
FRAMES = {
    "orthorhombic": np.eye(3, dtype=np.int64),
    "triclinic": np.array([[1, 0, 0], [-1, 1, 0], [0, 2, -1]]),
}
CASES = [
    (4, (20, 24, 28)),
    (4, (24, 20, 25)),
    (5, (16, 18, 20)),
    (5, (16, 16, 21)),
    (6, (20, 20, 24)),
    (6, (18, 20, 22)),
]


def charges_in_slots(device, apart, n=203, capacity=320):
    """Charges anywhere or, of each 64 slots, near one place; every eighth slot empty; and their slots on the device."""
    rng = np.random.default_rng(5)
    x = np.zeros((capacity, 4), np.int32)
    gid = np.full(capacity, -1, np.int32)
    filled = np.flatnonzero(np.arange(capacity) % 8 != 3)[:n]
    gid[filled] = np.arange(n)
    x[:, :3] = rng.integers(-(2**31), 2**31, (capacity, 3))
    if not apart:
        centers = np.array(
            [[-(2**31)] * 3, [0, 2**31 - 1, -(2**31)], [2**30, 5, -7], [-1, 0, 1], [-(2**30)] * 3]
        )
        near = np.repeat(centers, 64, axis=0) + rng.integers(-(2**28), 2**28, (capacity, 3))
        x[:, :3] = near.astype(np.uint32).view(np.int32)
    x[filled[:4], :3] = (
        x[filled[:4], :3] if not apart else [[-(2**31)] * 3, [2**31 - 1] * 3, [-1] * 3, [0] * 3]
    )
    charge = rng.normal(size=capacity).astype(np.float32) * np.float32(FACTOR**0.5)
    x[:, 3] = charge.view(np.int32)
    to_device = device.to_device
    slots = Slots(capacity, capacity, to_device(x), to_device(gid), None, None, None)
    return filled, np.ascontiguousarray(x[filled, :3]), charge[filled].astype(np.float64), slots


def mesh_on_device(device, mesh, slots, fixed):
    """Forces (capacity, 3), and energy and virial (10,)."""
    kind, unit = (np.int64, (2.0**-32, 2.0**-20)) if fixed else (np.float32, (1.0, 1.0))
    forces = device.zeros((slots.capacity, 4), kind)
    sums = device.zeros(10, np.int64 if fixed else np.float64)
    lattice = GpuLatticeSum(device, mesh, BETA, fixed)
    lattice.settle_in([slots], [forces], sums[:1], sums[1:])
    device.fork(lattice.stream)
    for energies in (True, False):  # the second time adds the same forces again, and no sums
        lattice.find_potential(energies)
        lattice.add_forces()
    device.join(lattice.stream)
    return device.to_host(forces)[:, :3] * unit[0] / 2.0, device.to_host(sums) * unit[1]


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(("order", "shape"), CASES)
@pytest.mark.parametrize("name", BOXES)
def test_mesh_on_device_equals_cpu(device, name, order, shape, apart, precision):
    fixed, box = precision == "reproducible", BOXES[name]
    filled, x, charge, slots = charges_in_slots(device, apart)
    mesh = Mesh(shape, order, box, FRAMES[name])
    cpu = LatticeSum(mesh, BETA, 1.0)
    cpu.spread(x, charge)
    expected_sums = cpu.solve(True)
    expected = np.zeros((len(x), 3))
    cpu.add_forces(x, charge, expected)

    found, sums = mesh_on_device(device, mesh, slots, fixed)
    assert not found[np.setdiff1d(np.arange(slots.capacity), filled)].any()
    tolerance = 1e-9 if fixed else 3e-6
    assert np.linalg.norm(found[filled] - expected) <= tolerance * np.linalg.norm(expected)
    np.testing.assert_allclose(
        sums,
        expected_sums,
        atol=(1e-8 if fixed else 2e-6) * abs(expected_sums).max() + 1e-3,
    )


@pytest.mark.parametrize(("order", "shape"), CASES)
def test_reproducible_mesh_has_the_same_bits_in_any_order_and_launch_shape(device, order, shape, monkeypatch):
    filled, x, charge, slots = charges_in_slots(device, apart=False)
    mesh = Mesh(shape, order, BOXES["triclinic"], FRAMES["triclinic"])
    forces, sums = mesh_on_device(device, mesh, slots, fixed=True)
    n = len(filled)
    places = np.random.default_rng(1).permutation(2 * n)[:n]
    rows, gid = np.zeros((2 * n, 4), np.int32), np.full(2 * n, -1, np.int32)
    rows[places, :3], rows[places, 3], gid[places] = x, charge.astype(np.float32).view(np.int32), np.arange(n)
    others = Slots(2 * n, 2 * n, device.to_device(rows), device.to_device(gid), None, None, None)
    monkeypatch.setattr(cuda_programs, "COLUMNS", 5)
    monkeypatch.setattr(cuda_programs, "THREADS", 64)
    monkeypatch.setattr(solvers, "THREADS", 64)
    monkeypatch.setattr(gpu, "THREADS", 64)
    monkeypatch.setattr(PlaneShape, "plane_threads", 96)
    found, other_sums = mesh_on_device(device, mesh, others, fixed=True)
    assert np.array_equal(found[places], forces[filled])
    assert np.array_equal(other_sums, sums)


def simulate(system, precision, device, reporters=None):
    options = RunOptions(precision=precision, device=device)
    return Simulation(open_transport("loopback"), system, options, reporters)


PME = {"coulombtype": "pme", "fourierspacing": 0.12}


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", ["water", "peptide"])
def test_energies_with_pme_on_device_equal_cpu(device, precision, name):
    system = bundled_system(name, **PME)
    reference = simulate(system, "reproducible", "cpu").evaluate()
    mine = simulate(system, precision, "cuda").evaluate()
    assert mine.keys() == reference.keys()
    for term in reference.keys() - {"pressure", "total", "conserved"}:
        assert mine[term] == pytest.approx(reference[term], rel=1e-5, abs=2e-2), term
    assert mine["pressure"] == pytest.approx(reference["pressure"], rel=1e-4, abs=2.0)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_energy_with_pme_is_conserved_in_graphs(device, precision):
    conserved = []
    reporter = Reporter(100, energies=lambda _s, _t, e: conserved.append(e["conserved"]))
    system = bundled_system(
        tcoupl="no", nsttcouple=10, verlet_buffer_tolerance=-1.0, rlist=1.15, nstlist=10, dt=0.001, **PME
    )
    simulate(system, precision, "cuda", [reporter]).run(2001)
    time = np.arange(len(conserved)) * 0.1
    slope = np.polyfit(time[5:], np.array(conserved)[5:], 1)[0]
    assert abs(slope) / system.topology.n_atoms < 2e-3


def test_two_reproducible_runs_with_pme_have_one_hash(device):
    system = bundled_system(**PME)
    hashes = []
    for _ in range(2):
        simulation = simulate(system, "reproducible", "cuda")
        simulation.run(100)
        hashes.append(simulation.trajectory_hash())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("order", [4, 5, 6])
@pytest.mark.parametrize("spacing", [0.13, 0.08])
@pytest.mark.parametrize("name", ewald_sums.BOXES)
def test_mesh_forces_on_device_have_the_error_that_theory_predicts(device, name, spacing, order, precision):
    """Against the direct sum in float64; charges in a cube, a rhombic dodecahedron and a cell that is not reduced."""
    box, fixed, errors, expected = ewald_sums.BOXES[name], precision == "reproducible", [], []
    reduced, frame = reduce_box(box)
    mesh = Mesh(mesh_size(reduced, spacing, order), order, reduced, np.eye(3, dtype=np.int64))
    for seed in range(4):
        positions, charge = ewald_sums.system(box, seed)
        exact = ewald_sums.direct_sum(positions, charge, box)[2]
        n = len(charge)
        x = np.zeros((n, 4), np.int32)
        x[:, :3] = lattice_transform(to_lattice(positions, box), frame)
        x[:, 3] = (charge * FACTOR**0.5).astype(np.float32).view(np.int32)
        slots = Slots(
            n, n, device.to_device(x), device.to_device(np.arange(n, dtype=np.int32)), None, None, None
        )
        found = mesh_on_device(device, mesh, slots, fixed)[0]
        errors.append(np.sqrt(((found - exact) ** 2).sum(1).mean()))
        expected.append(ewald_sums.expected_error(charge, reduced, mesh.shape, order))
    ratio = np.mean(errors) / np.mean(expected)
    print(f"{name}, {spacing} nm, order {order}: error {np.mean(errors):.3g}, theory {np.mean(expected):.3g}")
    assert 0.7 < ratio < 1.4
