"""Virtual sites: places, forces as derivatives of places, order of construction."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.kernels.constraints.virtual_sites import construct_sites, spread_sites
from pulsemd.topology.virtual_sites import Site, SiteKind, virtual_sites

BOX = np.array([[1.2, 0, 0], [0.3, 1.1, 0], [-0.2, 0.4, 1.0]])
INVERSE = np.linalg.inv(BOX) * 2.0**32
SITES = {
    "same": Site(4, SiteKind.LINEAR, (0,), (1.0,)),
    "linear": Site(4, SiteKind.LINEAR, (0, 1, 2, 3), (0.5, 0.7, -0.4, 0.2)),
    "fixed_distance_2": Site(4, SiteKind.FIXED_DISTANCE, (0, 1), (0.1, 1.0)),
    "fixed_distance_3": Site(4, SiteKind.FIXED_DISTANCE, (0, 1, 2), (0.1, 0.6, 0.4)),
    "fixed_distance_4": Site(4, SiteKind.FIXED_DISTANCE, (0, 1, 2, 3), (0.1, 0.5, 0.3, 0.2)),
    "fixed_angle": Site(4, SiteKind.FIXED_ANGLE, (0, 1, 2), (-0.05, 0.08, 0.0)),
    "local_frame": Site(4, SiteKind.FIXED_ANGLE, (0, 1, 2), (0.06, -0.03, 0.07)),
    "out_of_plane": Site(4, SiteKind.OUT_OF_PLANE, (0, 1, 2), (2.0, 0.3, -0.2)),
    "normal": Site(4, SiteKind.NORMAL, (0, 1, 2, 3), (0.1, 0.9, 1.2, 0.0)),
}


def lattice(r):
    return np.rint(r @ INVERSE).astype(np.int64).astype(np.uint32).view(np.int32)


def atoms(seed=1):
    """Four atoms across a periodic face, and a site anywhere; nm."""
    rng = np.random.default_rng(seed)
    r = np.array(
        [[0.02, 1.05, 0.01], [0.12, 1.12, -0.02], [-0.1, 1.0, 0.08], [0.03, 0.95, -0.1], [0.6, 0.6, 0.6]]
    )
    return r + rng.uniform(-0.02, 0.02, r.shape)


def arrays(*sites):
    found = virtual_sites(sites)
    return found.kind, found.offset, found.atoms, found.values


def placed(r, *sites):
    x = lattice(r)
    construct_sites(x, *arrays(*sites), BOX, INVERSE)
    return x


def offset(x, i, j):
    return (x[i] - x[j]).astype(float) * 2.0**-32 @ BOX


def spread(x, f, *sites, scale=1.0, virial=None):
    virial = np.zeros(0, np.int64 if scale != 1.0 else float) if virial is None else virial
    spread_sites(x, f, scale, *arrays(*sites), BOX, virial, 2.0**20 if scale != 1.0 else 0.0)


@pytest.mark.parametrize("name", SITES)
def test_site_forces_are_the_derivatives_of_its_place(name):
    site, r, step = SITES[name], atoms(), 1e-5
    f = np.zeros((5, 3))
    f[4] = force = np.array([300.0, -200.0, 150.0])
    spread(placed(r, site), f, site)
    expected = np.zeros((4, 3))
    for i in range(4):
        for d in range(3):
            places = []
            for sign in (1, -1):
                moved = r.copy()
                moved[i, d] += sign * step
                x = placed(moved, site)
                places.append(offset(x, 4, 0) + moved[0] - r[0])
            expected[i, d] = force @ (places[0] - places[1]) / (2 * step)
    np.testing.assert_allclose(f[:4], expected, atol=1e-2)
    assert not f[4].any()


@pytest.mark.parametrize("name", SITES)
def test_site_forces_keep_momentum_exactly_torque_and_virial(name):
    site, rng = SITES[name], np.random.default_rng(3)
    x = placed(atoms(), site)
    f = np.zeros((5, 3), np.int64)
    f[4] = rng.integers(-(2**40), 2**40, 3)
    before, virial = f.sum(0), np.zeros(9, np.int64)
    total = f[4] * 2.0**-32
    spread(x, f, site, scale=2.0**-32, virial=virial)
    assert np.array_equal(f.sum(0), before)
    moved = sum(np.outer(offset(x, i, 4), f[i] * 2.0**-32) for i in range(4))
    np.testing.assert_allclose(virial.reshape(3, 3) / 2.0**20, moved, atol=1e-5)
    torque = sum(np.cross(offset(x, i, 4), f[i] * 2.0**-32) for i in range(4))
    if site.kind != SiteKind.LINEAR:
        np.testing.assert_allclose(moved, moved.T, atol=1e-9 * np.abs(total).max())
    np.testing.assert_allclose(torque, 0, atol=1e-9 * np.abs(total).max())


def test_site_places_of_each_kind_are_those_of_the_formulas():
    r = atoms()
    p, q, s = r[1] - r[0], r[2] - r[0], r[3] - r[0]
    unit = lambda a: a / np.linalg.norm(a)  # noqa: E731
    across = (q - p) - (q - p) @ p / (p @ p) * p
    expected = {
        "same": 0 * p,
        "linear": 0.7 * p - 0.4 * q + 0.2 * s,
        "fixed_distance_2": 0.1 * unit(p),
        "fixed_distance_3": 0.1 * unit(0.6 * p + 0.4 * q),
        "fixed_distance_4": 0.1 * unit(0.5 * p + 0.3 * q + 0.2 * s),
        "fixed_angle": -0.05 * unit(p) + 0.08 * unit(across),
        "local_frame": 0.06 * unit(p) - 0.03 * unit(across) + 0.07 * unit(np.cross(p, q)),
        "out_of_plane": 0.3 * p - 0.2 * q + 2.0 * np.cross(p, q),
        "normal": 0.1 * unit(np.cross(0.9 * q - p, 1.2 * s - p)),
    }
    for name, site in SITES.items():
        np.testing.assert_allclose(offset(placed(r, site), 4, 0), expected[name], atol=1e-8)


def test_sites_of_sites_are_constructed_after_their_parents_and_pass_forces_on():
    r = np.concatenate([atoms(), [[0.5, 0.5, 0.5]] * 2])
    sites = (
        Site(4, SiteKind.LINEAR, (5, 6), (0.5, 0.5)),
        Site(6, SiteKind.LINEAR, (5, 3), (0.25, 0.75)),
        Site(5, SiteKind.LINEAR, (0, 1), (0.4, 0.6)),
    )
    x = placed(r, *sites)
    five = 0.6 * (r[1] - r[0])
    np.testing.assert_allclose(offset(x, 5, 0), five, atol=1e-8)
    np.testing.assert_allclose(offset(x, 6, 0), 0.25 * five + 0.75 * (r[3] - r[0]), atol=1e-8)
    f = np.zeros((7, 3))
    f[4] = 1.0
    spread(x, f, *sites)
    np.testing.assert_allclose(f[[0, 1, 3], 0], [0.625 * 0.4, 0.625 * 0.6, 0.375])
    assert not f[4:].any()


def test_sites_constructed_from_each_other_are_refused():
    with pytest.raises(ValueError, match="1"):
        virtual_sites(
            [
                Site(3, SiteKind.LINEAR, (0,), (1.0,)),
                Site(4, SiteKind.LINEAR, (0, 5), (0.5, 0.5)),
                Site(5, SiteKind.LINEAR, (4, 1), (0.5, 0.5)),
            ]
        )
