"""Forces of several ranks, one after the other on a device, against those of one rank with all atoms."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.engine.gpu_region import region_of
from pulsemd.engine.local import exclusion_pairs
from pulsemd.systems import build_system
from ranks import RankForces, domains_of, forces_of_ranks
from systems import bundled_system, load, mixed_system

pytestmark = pytest.mark.gpu
GRIDS = ((2, 1, 1), (1, 1, 2), (1, 3, 1), (2, 2, 1), (2, 2, 2))


def relative(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def exclusions(system):
    return exclusion_pairs(system.topology.exclusion_offset, system.topology.exclusion_atoms)


def check(device, system, shape, r_list, precision, **how):
    raw, sums, counts = RankForces(device, system, precision).only(r_list)
    parts = forces_of_ranks(device, system, shape, r_list, precision, **how)
    assert (parts.pairs, parts.excluded) == (counts.pairs, counts.excluded)
    assert parts.exclusion_terms == len(exclusions(system))
    if precision == "reproducible":
        assert np.array_equal(parts.raw, raw)
        assert np.array_equal(np.rint(parts.sums * 2.0**20).astype(np.int64), sums)
    else:
        assert relative(parts.forces, raw) < 2e-6
        np.testing.assert_allclose(parts.sums, sums, rtol=2e-6, atol=2e-2)
    return parts


@pytest.mark.parametrize("precision", ["reproducible", "fast"])
@pytest.mark.parametrize("kind", ["staged", "direct"])
@pytest.mark.parametrize("shape", GRIDS)
def test_forces_of_water_on_ranks_equal_those_of_one(device, shape, kind, precision):
    check(device, bundled_system(), shape, 1.1, precision, kind=kind)


@pytest.mark.parametrize("precision", ["reproducible", "fast"])
@pytest.mark.parametrize("name", ["peptide", "water-ethanol"])
@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 2, 1), (1, 2, 2)])
def test_forces_and_terms_of_molecules_on_ranks_equal_those_of_one(device, name, shape, precision):
    system = bundled_system(name)
    parts = check(device, system, shape, 1.1, precision)
    expected = [
        len(terms) for kind, terms in system.topology.terms.items() if kind != "constraint" and len(terms)
    ]
    assert sorted(parts.terms) == sorted(expected)


@pytest.mark.parametrize("precision", ["reproducible", "fast"])
def test_forces_of_a_mixture_on_ranks_equal_those_of_one(device, tmp_path, precision):
    check(device, mixed_system(tmp_path), (2, 1, 1), 1.1, precision)


def test_forces_of_ranks_after_pruning_equal_those_before(device):
    check(device, bundled_system(), (2, 2, 1), 1.1, "fast", prune=True)


def test_owned_atoms_fill_the_first_slots_and_ghosts_the_others(device):
    system = bundled_system()
    grid, domains = domains_of(system, (2, 2, 1), 1.1)
    domain = domains[1]
    part = RankForces(device, system, "fast", _region(grid, 1, system, domain.halo_width))
    part.search(domain, 1.1)
    slots, counts = part.pairs.slots, part.pairs.pairs.counts
    gid, source, where = (device.to_host(a) for a in (slots.gid, slots.source, slots.slot_of_gid))
    filled, end = gid >= 0, 64 * counts.owned_superclusters
    assert np.array_equal(np.sort(gid[:end][filled[:end]]), np.sort(domain.gid[: domain.n_owned]))
    assert np.array_equal(np.sort(gid[end:][filled[end:]]), np.sort(domain.gid[domain.n_owned :]))
    assert np.array_equal(domain.gid[source[filled]], gid[filled])
    assert (where >= 0).sum() == domain.n_local


def test_an_empty_domain_and_ghosts_without_owned_atoms_are_searched(device):
    system = bundled_system()
    grid, domains = domains_of(system, (2, 1, 1), 1.1)
    part = RankForces(device, system, "reproducible", _region(grid, 0, system, domains[0].halo_width))
    ghosts = np.flatnonzero(domains[0].home != 7)
    gid = domains[0].gid[ghosts]
    x = np.zeros((len(ghosts), 4), np.int32)
    x[:, :3] = system.x[gid]
    leader = np.zeros((len(ghosts), 4), np.int32)
    leader[:, :3], leader[:, 3] = domains[0].leader_x[ghosts], domains[0].home[ghosts]
    to_device = device.to_device
    for rows in (len(ghosts), 0):
        counts = part.pairs.search(
            to_device(x[:rows]), to_device(gid[:rows]), system.box, 1.1, None, 0, to_device(leader[:rows])
        )
        assert counts.owned_superclusters == 0
        assert [n.pairs for n in part.pairs.pairs.all_counts] == [0, 0]


def test_atoms_for_which_there_are_no_slots_are_all_left_out_until_they_fit(device):
    system = bundled_system()
    grid, domains = domains_of(system, (2, 2, 2), 1.1)
    part = RankForces(device, system, "reproducible", _region(grid, 0, system, domains[0].halo_width))
    part.search(domains[0], 1.1)
    searches, counts = part.pairs.pairs, part.pairs.pairs.all_counts
    everything = np.arange(3 * len(system.x), dtype=np.int32) % len(system.x)
    rows = np.zeros((len(everything), 4), np.int32)
    rows[:, :3] = system.x[everything]
    searches.begin(
        device.to_device(rows),
        device.to_device(everything),
        system.box,
        1.1,
        99,
        device.to_device(rows),
        most=0,
    )
    searches.finish()
    assert not searches.fits
    assert -searches.counts.superclusters > 3 * len(system.x) // 64 > searches.slots.capacity // 64
    assert [(n.pairs, n.entries, n.owned_superclusters) for n in searches.all_counts] == [(0, 0, 0)] * 2
    assert (device.to_host(searches.slots.gid) == -1).all()
    part.search(domains[0], 1.1)
    assert searches.fits
    assert [(n.pairs, n.superclusters) for n in searches.all_counts] == [
        (n.pairs, n.superclusters) for n in counts
    ]


def _region(grid, rank, system, halo_width):
    return region_of(grid, rank, system.box, 1.1, halo_width)


@pytest.mark.parametrize("precision", ["reproducible", "fast"])
@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 2, 1), (2, 2, 2), (4, 1, 1)])
def test_forces_of_a_larger_box_on_ranks_equal_those_of_one(device, tmp_path, shape, precision):
    box = build_system("water", 24_000, tmp_path / "water")
    check(device, load(box.configuration, box.topology, box.parameters), shape, 1.1, precision)
