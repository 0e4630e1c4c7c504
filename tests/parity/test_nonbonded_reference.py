"""Forces, energies and virial of the vector kernels against float64 brute force."""

import math

import numpy as np
import pytest

from nonbonded_reference import BOXES, brute_force, compute, lj_table, make_system, relative, settings
from pulsemd.kernels.nonbonded.exclusions import exclusion_forces, self_energy
from pulsemd.kernels.nonbonded.launch import PairForces
from pulsemd.kernels.nonbonded.settings import pair_constants

PRECISIONS = ("fast", "reproducible")
TOLERANCE = 2e-6  # relative L2 of forces, float32 pair arithmetic


def check(system, options, table, precision, r_list):
    reference = brute_force(system, options, table, r_list)
    result = compute(system, options, table, precision, r_list)
    assert relative(result.forces, reference.forces) < TOLERANCE
    assert (abs(result.energies[:2] - reference.energies[:2]) < 3e-7 * reference.size + 1e-5).all()
    assert relative(result.energies[2:], reference.energies[2:]) < 5e-6
    assert result.pairs == reference.pairs_within
    assert result.excluded == reference.excluded_within


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", BOXES)
def test_pair_forces_of_any_box_match_float64(name, precision):
    check(make_system(BOXES[name]), settings(), lj_table("lorentz-berthelot"), precision, 0.9)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("combination", ["geometric", "lorentz-berthelot", "table"])
def test_pair_forces_of_each_combination_rule_match_float64(combination, precision):
    check(make_system(BOXES["orthorhombic"], seed=2), settings(), lj_table(combination), precision, 0.85)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "options",
    [
        {"coulombtype": "cut-off", "coulomb_modifier": "none", "vdw_modifier": "none"},
        {"coulombtype": "cut-off"},
        {"epsilon_rf": 78.3, "epsilon_r": 2.0, "vdw_modifier": "none"},
        {"coulombtype": "pme"},
        {"coulombtype": "pme", "coulomb_modifier": "none", "ewald_rtol": 1e-6},
        {"vdw_modifier": "force-switch"},
        {"vdw_modifier": "potential-switch"},
    ],
)
def test_pair_forces_of_each_option_match_float64(options, precision):
    check(
        make_system(BOXES["orthorhombic"], seed=3), settings(**options), lj_table("geometric"), precision, 0.9
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", BOXES)
def test_pair_forces_of_a_box_as_small_as_the_cutoff_allows_match_float64(name, precision):
    widths = 1.0 / np.linalg.norm(np.linalg.inv(BOXES[name]), axis=0)
    r_list = 0.4999 * widths.min()
    options = settings(rcoulomb=r_list - 0.02, rvdw=r_list - 0.02)
    check(make_system(BOXES[name], seed=4), options, lj_table("table"), precision, r_list)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("spacing", [0.41, 0.7])
def test_pair_forces_of_a_large_box_match_float64(spacing, precision):
    check(
        make_system(np.diag([4.2, 3.9, 3.6]), spacing, seed=5),
        settings(),
        lj_table("geometric"),
        precision,
        0.9,
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_pair_forces_after_atoms_moved_within_the_buffer_match_float64(precision):
    system = make_system(BOXES["triclinic"], seed=6)
    options, table = settings(), lj_table("lorentz-berthelot")
    forces = _search(system, options, table, precision, 1.0)
    rng = np.random.default_rng(7)
    step = rng.uniform(-0.04, 0.04, system.x.shape) @ np.linalg.inv(system.box)
    system.x = system.x + np.rint(step * 2.0**32).astype(np.int32)
    total = np.zeros(system.x.shape, np.float32 if precision == "fast" else np.int64)
    forces.local(system.x, total)
    unit = 1.0 if precision == "fast" else 2.0**-32
    assert relative(total * unit, brute_force(system, options, table, 1.0).forces) < TOLERANCE


def _search(system, options, table, precision, r_list):
    forces = PairForces(table, options, precision)
    n = system.n
    leaders, home = system.x[system.leader], np.full(n, 7, np.uint8)
    exclusions = system.exclusions(np.arange(n))
    forces.search(
        system.x,
        system.box,
        n,
        system.type_index,
        system.charge,
        *exclusions,
        leaders,
        home,
        (False,) * 3,
        r_list,
    )
    return forces


@pytest.mark.parametrize("precision", PRECISIONS)
def test_exclusion_and_self_terms_match_float64(precision):
    system = make_system(BOXES["triclinic"], seed=8)
    constants = pair_constants(settings(epsilon_rf=40.0))
    pairs = np.argwhere(np.triu(system.excluded)).astype(np.int32)
    fast = precision == "fast"
    forces = np.zeros(system.x.shape, np.float32 if fast else np.int64)
    energies = np.zeros(11, np.float64 if fast else np.int64)
    exclusion_forces(system.x, pairs, system.charge, system.box, constants, forces, energies)
    self_energy(system.charge, constants, energies)

    d = (system.x[pairs[:, 0]] - system.x[pairs[:, 1]]) / 2.0**32 @ system.box
    r2 = (d**2).sum(1)
    inside = r2 < constants.cutoff**2
    assert 0 < inside.sum() < len(pairs)
    qq = constants.coulomb_factor * system.charge[pairs].prod(1) * inside
    energy = (qq * (constants.k_rf * r2 - constants.c_rf)).sum()
    energy -= 0.5 * constants.coulomb_factor * constants.c_rf * (system.charge**2).sum()
    f = (-2.0 * constants.k_rf * qq)[:, None] * d
    expected = np.zeros(system.x.shape)
    np.add.at(expected, pairs[:, 0], f)
    np.add.at(expected, pairs[:, 1], -f)
    force_unit, energy_unit = (1.0, 1.0) if fast else (2.0**-32, 2.0**-20)
    assert relative(forces * force_unit, expected) < 1e-6
    np.testing.assert_allclose(energies[1] * energy_unit, energy, rtol=1e-6)
    np.testing.assert_allclose(energies[2:] * energy_unit, (d.T @ f).ravel(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_exclusion_and_self_terms_of_a_lattice_sum_take_out_erf_at_any_distance(precision):
    system = make_system(BOXES["triclinic"], seed=8)
    constants = pair_constants(settings(coulombtype="pme"))
    pairs = np.argwhere(np.triu(system.excluded)).astype(np.int32)
    fast = precision == "fast"
    forces = np.zeros(system.x.shape, np.float32 if fast else np.int64)
    energies = np.zeros(11, np.float64 if fast else np.int64)
    exclusion_forces(system.x, pairs, system.charge, system.box, constants, forces, energies)
    self_energy(system.charge, constants, energies)

    d = (system.x[pairs[:, 0]] - system.x[pairs[:, 1]]) / 2.0**32 @ system.box
    r, beta = np.linalg.norm(d, axis=1), constants.beta
    assert (r > constants.cutoff).any()
    qq = constants.coulomb_factor * system.charge[pairs].prod(1)
    erf = np.array([math.erf(beta * value) for value in r])
    energy = (
        -(qq * erf / r).sum() - constants.coulomb_factor * beta / np.sqrt(np.pi) * (system.charge**2).sum()
    )
    slope = erf / r - 2.0 * beta / np.sqrt(np.pi) * np.exp(-((beta * r) ** 2))
    f = (-qq * slope / r**2)[:, None] * d
    expected = np.zeros(system.x.shape)
    np.add.at(expected, pairs[:, 0], f)
    np.add.at(expected, pairs[:, 1], -f)
    force_unit, energy_unit = (1.0, 1.0) if fast else (2.0**-32, 2.0**-20)
    assert relative(forces * force_unit, expected) < 1e-6
    np.testing.assert_allclose(energies[1] * energy_unit, energy, rtol=1e-9, atol=1e-4)
    np.testing.assert_allclose(energies[2:] * energy_unit, (d.T @ f).ravel(), rtol=1e-5, atol=1e-4)
