"""Each bonded kernel: force = -dV/dx by central differences, momentum, virial, and both precisions alike."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.kernels.bonded import bends, stretches, terms, twists

RAD = np.pi / 180
CASES = {
    "bond": (terms.harmonic_bonds, 2, [0.15, 2e5]),
    "angle": (terms.harmonic_angles, 3, [109.5 * RAD, 520.0]),
    "urey_bradley": (terms.urey_bradley_angles, 3, [109.5 * RAD, 520.0, 0.25, 9000.0]),
    "proper": (terms.proper_dihedrals, 4, [30 * RAD, 5.0, 3]),
    "improper": (terms.harmonic_impropers, 4, [170 * RAD, 40.0]),
    "ryckaert_bellemans": (terms.ryckaert_bellemans, 4, [9.28, 12.16, -13.12, -3.06, 26.24, -31.5]),
    "pair14": (terms.pairs14, 2, [1e-4, 1e-10, 12.0]),
    "quartic_bond": (stretches.quartic_bonds, 2, [0.13, 2e6]),
    "morse_bond": (stretches.morse_bonds, 2, [0.12, 400.0, 20.0]),
    "cubic_bond": (stretches.cubic_bonds, 2, [0.12, 2e5, -8.0]),
    "fene_bond": (stretches.fene_bonds, 2, [0.3, 5000.0]),
    "distance_restraint": (stretches.distance_restraints, 2, [0.12, 0.13, 0.14, 2e5]),
    "cosine_angle": (bends.cosine_angles, 3, [109.5 * RAD, 520.0]),
    "restricted_angle": (bends.restricted_angles, 3, [100 * RAD, 50.0]),
    "quartic_angle": (bends.quartic_angles, 3, [110 * RAD, 1.0, 20.0, 300.0, -40.0, 50.0]),
    "linear_angle": (bends.linear_angles, 3, [0.4, 9000.0]),
    "bond_bond_cross": (bends.bond_bond_crosses, 3, [0.12, 0.13, 9000.0]),
    "bond_angle_cross": (bends.bond_angle_crosses, 3, [0.12, 0.13, 0.2, 9000.0]),
    "restricted_dihedral": (twists.restricted_dihedrals, 4, [60 * RAD, 0.5]),
    "bending_torsion": (twists.bending_torsions, 4, [2.0, 1.0, -3.0, 2.0, 4.0, 1.5]),
    "angle_restraint": (bends.angle_restraints, 4, [50 * RAD, 40.0, 2]),
    "angle_restraint_z": (bends.angle_restraints_z, 2, [50 * RAD, 40.0, 3]),
    "dihedral_restraint": (twists.dihedral_restraints, 4, [170 * RAD, 30 * RAD, 40.0]),
}
BOXES = [np.eye(3) * 1.1, np.array([[1.2, 0, 0], [0.3, 1.1, 0], [-0.2, 0.4, 1.0]])]


def chain(n_atoms, box, n_terms=40, seed=0):
    """n_terms random short chains across the periodic faces, as lattice rows."""
    rng = np.random.default_rng(seed)
    step = rng.normal(size=(n_terms, n_atoms, 3))
    step *= rng.uniform(0.1, 0.16, (n_terms, n_atoms, 1)) / np.linalg.norm(step, axis=2, keepdims=True)
    r = rng.uniform(0, 1, (n_terms, 1, 3)) @ box + np.cumsum(step, axis=1)
    frac = r.reshape(-1, 3) @ np.linalg.inv(box)
    return np.rint(frac * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)


def evaluate(kernel, x, box, n_atoms, parameters, dtype=np.float64, scale=0.0):
    rows = np.arange(len(x), dtype=np.int32).reshape(-1, n_atoms)
    f = np.zeros((len(x), 3), dtype)
    sums = np.zeros(11, np.int64 if scale else np.float64)
    index, error = np.zeros(len(rows), np.int32), np.zeros(1, np.int64)
    kernel(x, box, rows, index, np.array([parameters], float), f, sums, 0, 2, scale, error)
    assert not error[0]
    return f, sums


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("name", CASES)
def test_bonded_force_is_minus_the_gradient(name, box):
    kernel, n_atoms, parameters = CASES[name]
    x = chain(n_atoms, box, 12)
    f, _ = evaluate(kernel, x, box, n_atoms, parameters)
    step, numeric = 2e-5, np.zeros_like(f)
    inverse = np.linalg.inv(box) * 2.0**32
    for row in range(len(x)):
        for d in range(3):
            moved = np.rint(np.eye(3)[d] * step @ inverse).astype(np.int64)
            energy = []
            for sign in (1, -1):
                y = x.copy()
                y[row] = (y[row] + sign * moved).astype(np.uint32).view(np.int32)
                energy.append(evaluate(kernel, y, box, n_atoms, parameters)[1][:2].sum())
            numeric[row, d] = -(energy[0] - energy[1]) / (2 * step)
    scale = np.abs(f).max()
    np.testing.assert_allclose(numeric, f, rtol=2e-3, atol=2e-4 * scale)


@pytest.mark.parametrize("name", CASES)
def test_bonded_forces_sum_to_zero_and_fixed_point_agrees(name):
    kernel, n_atoms, parameters = CASES[name]
    x = chain(n_atoms, BOXES[1], 20, seed=5)
    f, sums = evaluate(kernel, x, BOXES[1], n_atoms, parameters)
    np.testing.assert_allclose(f.reshape(-1, n_atoms, 3).sum(1), 0, atol=1e-9 * np.abs(f).max())
    fixed, fixed_sums = evaluate(kernel, x, BOXES[1], n_atoms, parameters, np.int64, 2.0**32)
    assert not fixed.reshape(-1, n_atoms, 3).sum(1).any()
    np.testing.assert_allclose(fixed / 2.0**32, f, atol=2e-9 + 1e-12 * np.abs(f).max())
    np.testing.assert_allclose(fixed_sums / 2.0**20, sums, atol=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_bonded_virial_is_the_change_of_energy_with_volume(name):
    kernel, n_atoms, parameters = CASES[name]
    x = chain(n_atoms, BOXES[0], seed=6)
    _, sums = evaluate(kernel, x, BOXES[0], n_atoms, parameters)
    step = 1e-5
    energy = [
        evaluate(kernel, x, BOXES[0] * s, n_atoms, parameters)[1][:2].sum() for s in (1 + step, 1 - step)
    ]
    # dV/ds at s = 1 is -sum r . f
    assert sums[2] + sums[6] + sums[10] == pytest.approx(
        -(energy[0] - energy[1]) / (2 * step), rel=1e-4, abs=1e-6 + 1e-7 * abs(energy[0])
    )
    if name == "angle_restraint_z":
        return  # an axis in space turns with no atoms: its virial is not symmetric
    np.testing.assert_allclose(
        sums[2:].reshape(3, 3), sums[2:].reshape(3, 3).T, rtol=1e-6, atol=1e-6 + 1e-9 * np.abs(sums).max()
    )


def test_dihedral_sign_follows_iupac():
    """Looking along j-k (into the page), a clockwise turn from i to l is positive; here l is turned the other way."""
    box = np.eye(3) * 4.0
    r = np.array([[0.1, 0, 0], [0, 0, 0], [0, 0, 0.1], [0, -0.1, 0.1]])
    x = np.rint(r / 4 * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)
    assert terms.dihedral_angle(x, box, 0, 1, 2, 3)[0] == pytest.approx(-np.pi / 2)
