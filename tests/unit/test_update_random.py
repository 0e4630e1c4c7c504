"""Counter-based random numbers, starting velocities and the thermostat."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pulsemd.base.units import BOLTZMANN
from pulsemd.engine.coupling import maxwell_velocities, v_rescale_factor
from pulsemd.kernels.update.philox import gamma, normals, philox, uniforms

ONES = 0xFFFFFFFF
KNOWN = [  # Random123's known answers for philox4x32-10: counter, key, result
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_known_counters_give_known_answers(counter, key, expected):
    assert tuple(int(n) for n in philox(np.array([counter], np.uint64), key)[0]) == expected


def test_normals_many_ids_are_standard_and_uncorrelated():
    z = normals(5, 1, 7, np.arange(50_000))
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(z.T) - np.eye(4)).max() < 0.02


def test_numbers_differ_by_seed_stream_and_step():
    base = uniforms(1, 1, 1, np.arange(4))
    for other in ((2, 1, 1), (1, 2, 1), (1, 1, 2), (1 + 2**32, 1, 1)):
        assert not np.any(uniforms(*other, np.arange(4)) == base)


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5, 400.0])
def test_gamma_any_shape_has_its_distribution(shape):
    draws = [gamma(shape, 11, 2, step) for step in range(4000)]
    assert stats.kstest(draws, "gamma", args=(shape,)).pvalue > 1e-3


def test_maxwell_velocities_do_not_depend_on_the_other_atoms():
    mass = np.full(1000, 18.0)
    few = maxwell_velocities(mass[:500], 300.0, 3).astype(float)
    many = maxwell_velocities(mass, 300.0, 3).astype(float)
    # the same numbers up to the common shift and scale
    assert np.corrcoef(few.ravel(), many[:500].ravel())[0, 1] > 0.9999


def test_maxwell_velocities_have_temperature_and_no_momentum():
    mass = np.tile([15.9994, 1.008, 0.0], 300)
    v = maxwell_velocities(mass, 250.0, 1).astype(float)
    assert not v[2::3].any()
    np.testing.assert_allclose(mass @ v, 0, atol=1e-3)
    assert mass @ (v * v).sum(1) / (3 * 600 * BOLTZMANN) == pytest.approx(250.0, rel=1e-5)


def test_v_rescale_alone_samples_the_canonical_distribution():
    n_dof, target, kinetic = 30, 0.5 * 30 * BOLTZMANN * 300, 5.0
    samples = []
    for step in range(10_000):
        kinetic *= v_rescale_factor(kinetic, target, n_dof, 0.1, 0.2, 42, step) ** 2
        if step > 50 and step % 5 == 0:
            samples.append(kinetic)
    scale = BOLTZMANN * 300
    assert stats.kstest(np.array(samples) / scale, "gamma", args=(n_dof / 2,)).pvalue > 1e-3


def test_v_rescale_weak_coupling_relaxes_exponentially():
    n_dof = 300_000
    target = 0.5 * n_dof * BOLTZMANN * 300
    factor = v_rescale_factor(2 * target, target, n_dof, 1.0, 0.5, 1, 0)
    assert factor**2 * 2 == pytest.approx(1 + np.exp(-0.5), rel=1e-2)
