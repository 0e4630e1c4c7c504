"""PME on CPUs: mesh sizes, splines, and energies, virial and forces against direct lattice sums in float64."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from ewald_sums import (
    BETA,
    BOXES,
    CUBE,
    DODECAHEDRON,
    FACTOR,
    UNREDUCED,
    direct_sum,
    expected_error,
    system,
)

from pulsemd.base.errors import InputError
from pulsemd.domain.lattice import lattice_transform, reduce_box, to_lattice
from pulsemd.kernels.nonbonded.ewald import correction
from pulsemd.kernels.pme.lattice_sum import LatticeSum
from pulsemd.kernels.pme.mesh import Mesh, mesh_size, spline_values, wave_factors


def mesh_result(positions, charge, box, spacing, order):
    """The same three of PME in the reduced box, and the lattice sum."""
    reduced, frame = reduce_box(box)
    x = lattice_transform(to_lattice(positions, box), frame)
    mesh = Mesh(mesh_size(reduced, spacing, order), order, reduced, np.eye(3, dtype=np.int64))
    lattice = LatticeSum(mesh, BETA, FACTOR, float(charge.sum()))
    lattice.spread(x, charge)
    sums = lattice.solve(True)
    forces = np.zeros(x.shape)
    lattice.add_forces(x, charge, forces)
    return sums[0], sums[1:].reshape(3, 3), forces, mesh.shape


@cache
def charges_and_forces(name, seed):
    """Positions and charges of a system, and their forces by the direct sum."""
    positions, charge = system(BOXES[name], seed)
    return positions, charge, direct_sum(positions, charge, BOXES[name])[2]


@pytest.mark.parametrize("order", [4, 5, 6])
@pytest.mark.parametrize("spacing", [0.13, 0.08])
@pytest.mark.parametrize("name", BOXES)
def test_mesh_forces_have_the_error_that_theory_predicts(name, spacing, order):
    box, errors, expected = BOXES[name], [], []
    for seed in range(4):
        positions, charge, exact = charges_and_forces(name, seed)
        _, _, forces, shape = mesh_result(positions, charge, box, spacing, order)
        errors.append(np.sqrt(((forces - exact) ** 2).sum(1).mean()))
        expected.append(expected_error(charge, reduce_box(box)[0], shape, order))
    ratio = np.mean(errors) / np.mean(expected)
    print(f"{name}, {spacing} nm, order {order}: error {np.mean(errors):.3g}, theory {np.mean(expected):.3g}")
    assert 0.7 < ratio < 1.4


@pytest.mark.parametrize("name", BOXES)
def test_mesh_energy_and_virial_converge_to_the_direct_sum(name):
    box = BOXES[name]
    positions, charge = system(box, 7)
    energy, virial, _ = direct_sum(positions, charge, box)
    off = []
    for spacing in (0.12, 0.06):
        found, tensor, _, _ = mesh_result(positions, charge, box, spacing, 6)
        off.append([abs(found - energy), np.abs(tensor - virial).max()])
    assert (np.array(off[1]) < 1e-6 * abs(energy)).all()
    assert (np.array(off[1]) < 0.1 * np.array(off[0])).all()


@pytest.mark.parametrize("cell", ["cubic", "primitive"])
def test_energy_of_rock_salt_is_its_madelung_constant(cell):
    """1.747564594633 per pair of ions at unit distance (Crandall & Buhler, J. Phys. A 20, 5497 (1987))."""
    half = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]) * 0.28
    n = 4
    box = np.diag([0.56 * n] * 3) if cell == "cubic" else half * 2 * n
    sites = np.array(list(itertools.product(range(2 * n), repeat=3)))
    if cell == "cubic":
        positions, charge = sites * 0.28, np.where(sites.sum(1) % 2, -1.0, 1.0)
    else:
        positions = np.concatenate([sites @ half, sites @ half + [0.28, 0.0, 0.0]])
        charge = np.repeat([1.0, -1.0], len(sites))
    energy, _, forces, _ = mesh_result(positions, charge, box, 0.06, 6)
    reduced, frame = reduce_box(box)
    x = lattice_transform(to_lattice(positions, box), frame)
    r = np.linalg.norm((x - x[0]).astype(np.float64) / 2.0**32 @ reduced, axis=1)[1:]
    long_range = np.array([BETA * correction((BETA * d) ** 2)[0] for d in r])
    real = 0.5 * len(x) * FACTOR * charge[0] * (charge[1:] * (1.0 / r - long_range))[r < 1.1].sum()
    own = -FACTOR * BETA / np.sqrt(np.pi) * (charge**2).sum()
    madelung = -(energy + real + own) / (0.5 * len(x)) * 0.28 / FACTOR
    assert madelung == pytest.approx(1.747564594633, abs=2e-6)
    assert np.abs(forces).max() < 1e-2


@pytest.mark.parametrize(
    ("spacing", "order", "shape"),
    [  # gmx_d 2022.5 grompp, fourier-nx of gmx dump for boxes of 10 nm cut into so many spacings
        (10 / 5.5, 4, 6), (10 / 5.5, 5, 8), (10 / 24.5, 4, 25), (10 / 45.5, 4, 48), (10 / 49.5, 4, 52),
        (10 / 84.5, 4, 96), (10 / 96.5, 4, 100), (10 / 137.5, 4, 144), (10 / 257.5, 4, 280),
        (10 / 289.5, 4, 300), (10 / 320.5, 4, 324), (10 / 337.5, 4, 384),
    ],
)  # fmt: skip
def test_mesh_size_is_that_of_gmx(spacing, order, shape):
    assert mesh_size(np.diag([10.0] * 3), spacing, order) == (shape,) * 3


def test_mesh_size_follows_the_lengths_of_box_vectors_and_given_numbers():
    box = np.array([[3.0, 0.0, 0.0], [1.0, 4.1, 0.0], [-1.0, 1.5, 5.7]])
    assert mesh_size(box, 0.12, 4) == (25, 36, 52)  # gmx_d 2022.5
    assert mesh_size(box, 0.12, 4, (0, 37, 0)) == (25, 37, 52)
    assert mesh_size(box, 0.12, 4, skip_13=True) == (25, 36, 56)
    assert mesh_size(box, 0.12, 4, (0, 0, 52), skip_13=True) == (25, 36, 52)
    with pytest.raises(InputError, match="fourier-nx = 3: give from pme-order = 4"):
        mesh_size(box, 0.12, 4, (3, 0, 0))
    with pytest.raises(InputError, match="raise it"):
        mesh_size(box, 0.001, 4)


def test_splines_have_their_published_values():
    np.testing.assert_allclose(spline_values(4), [1 / 6, 4 / 6, 1 / 6])
    np.testing.assert_allclose(spline_values(5), np.array([1, 11, 11, 1]) / 24)
    np.testing.assert_allclose(spline_values(6), np.array([1, 26, 66, 26, 1]) / 120)
    assert np.isfinite(wave_factors(20, 5)).all()


@pytest.mark.parametrize("order", [4, 5, 6])
def test_charge_on_the_mesh_is_kept_and_its_place_is_exact_at_faces(order):
    ends = np.array([[-(2**31)] * 3, [2**31 - 1] * 3, [-1] * 3, [0, -1, 2**31 - 1]], np.int32)
    lattice = LatticeSum(Mesh((12, 14, 17), order, CUBE, np.eye(3, dtype=np.int64)), BETA, FACTOR)
    for x in ends:
        lattice.spread(x[None], np.array([0.75]))
        assert lattice.charges.sum() == pytest.approx(0.75 * 2.0**40, abs=order**3)
        assert (lattice.charges != 0).sum() <= order**3


def test_mesh_along_other_vectors_of_the_lattice_gives_the_same_up_to_its_error():
    """Positions of the run are those of its reduced box; the mesh may be along the files' vectors."""
    positions, charge = system(DODECAHEDRON, 3)
    energy, virial, exact = direct_sum(positions, charge, DODECAHEDRON)
    reduced, _ = reduce_box(UNREDUCED)
    assert not np.allclose(reduced, DODECAHEDRON)
    matrix = np.rint(reduced @ np.linalg.inv(DODECAHEDRON)).astype(np.int64)
    mesh = Mesh(mesh_size(DODECAHEDRON, 0.08, 6), 6, DODECAHEDRON, matrix)
    lattice = LatticeSum(mesh, BETA, FACTOR, float(charge.sum()))
    x = to_lattice(positions, reduced)
    lattice.spread(x, charge)
    sums = lattice.solve(True)
    forces = np.zeros(x.shape)
    lattice.add_forces(x, charge, forces)
    assert sums[0] == pytest.approx(energy, rel=1e-5)
    np.testing.assert_allclose(sums[1:].reshape(3, 3), virial, atol=1e-5 * abs(virial).max())
    assert np.linalg.norm(forces - exact) < 1e-4 * np.linalg.norm(exact)
