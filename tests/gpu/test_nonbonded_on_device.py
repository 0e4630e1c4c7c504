"""Pair forces on a GPU: against float64, against the CPU, and bit by bit in reproducible mode."""

import hashlib
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pair_systems import compute_on, evaluate, float64_forces, make_forces, rows_on

from nonbonded_reference import (  # isort: skip
    BOXES,
    System,
    brute_force,
    compute,
    lattice,
    lj_table,
    make_system,
    relative,
    settings,
)
from pair_potentials import POTENTIALS
from pulsemd.base.errors import UnstableError
from pulsemd.kernels.nonbonded.spec import KernelSpec
from pulsemd.kernels.search import gpu as gpu_search
from pulsemd.kernels.search.cuda_programs import CHUNKS

pytestmark = pytest.mark.gpu
PRECISIONS = ("fast", "reproducible")
COMBINATIONS = ("geometric", "lorentz-berthelot", "table")
TOLERANCE = 5e-6  # relative L2 of forces: float32 pair arithmetic, positions of reproducible mode to 2^-23 nm
LARGE = {
    "orthorhombic": np.diag([5.2, 4.8, 5.5]),
    "triclinic": np.array([[5.5, 0.0, 0.0], [1.7, 5.2, 0.0], [-1.4, 1.6, 5.1]]),
}


def check(result, reference):
    assert relative(result.forces, reference.forces) < TOLERANCE
    assert (abs(result.energies[:2] - reference.energies[:2]) < 5e-7 * reference.size + 1e-5).all()
    assert relative(result.energies[2:], reference.energies[2:]) < 5e-6
    assert result.counts.pairs == reference.pairs_within
    assert result.counts.excluded == reference.excluded_within


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "combination"), list(product(BOXES, COMBINATIONS)))
def test_pair_forces_of_any_box_and_rule_match_float64(device, name, combination, precision):
    system, options, table = make_system(BOXES[name]), settings(), lj_table(combination)
    result = compute_on(device, system, options, table, precision, 0.9)
    check(result, brute_force(system, options, table, 0.9))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "choice",
    [
        {"coulombtype": "cut-off", "coulomb_modifier": "none", "vdw_modifier": "none"},
        {"coulombtype": "cut-off"},
        {"epsilon_rf": 78.3, "epsilon_r": 2.0, "vdw_modifier": "none"},
        {"vdw_modifier": "force-switch"},
        {"vdw_modifier": "potential-switch"},
    ],
)
def test_pair_forces_of_each_option_match_float64(device, choice, precision):
    system, options = make_system(BOXES["orthorhombic"], seed=3), settings(**choice)
    table = lj_table("geometric")
    check(
        compute_on(device, system, options, table, precision, 0.9), brute_force(system, options, table, 0.9)
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("modifier", ["none", "potential-shift"])
@pytest.mark.parametrize("name", POTENTIALS)
def test_pair_potentials_in_python_match_float64(device, name, modifier, precision):
    system, options = make_system(BOXES["triclinic"], seed=11), settings(vdw_modifier=modifier)
    table, potential = lj_table("lorentz-berthelot"), POTENTIALS[name]
    result = compute_on(device, system, options, table, precision, 0.9, shape={"potential": potential})
    check(result, brute_force(system, options, table, 0.9, potential))
    alone = compute_on(
        device, system, options, table, precision, 0.9, shape={"potential": potential}, with_energies=False
    )
    assert relative(alone.forces, result.forces) < (1e-6 if precision == "fast" else 1e-12)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", BOXES)
def test_pair_forces_of_a_box_as_small_as_the_cutoff_allows_match_float64(device, name, precision):
    widths = 1.0 / np.linalg.norm(np.linalg.inv(BOXES[name]), axis=0)
    r_list = 0.4999 * widths.min()
    options = settings(rcoulomb=r_list - 0.02, rvdw=r_list - 0.02)
    system, table = make_system(BOXES[name], seed=4), lj_table("table")
    check(
        compute_on(device, system, options, table, precision, r_list),
        brute_force(system, options, table, r_list),
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "combination"), list(product(LARGE, COMBINATIONS)))
def test_every_variant_in_a_large_box_matches_float64(device, name, combination, precision):
    system, options, table = make_system(LARGE[name], seed=5), settings(), lj_table(combination)
    pair_forces = make_forces(device, system, options, table, precision)
    pair_forces.search(*rows_on(device, system.x), system.box, 0.9, r_inner=0.82)
    spec = KernelSpec(precision, combination, "relative", name == "orthorhombic", False, shifted=True)
    assert pair_forces.spec == spec
    excluded = np.argwhere(system.excluded)
    expected = float64_forces(
        device, system.x, system.box, system.charge, system.type_index, table, options, excluded,
        np.arange(system.n),
    )  # fmt: skip
    plain = evaluate(pair_forces)
    for prune, energies in product((False, True, False), (False, True)):
        result = evaluate(pair_forces, with_energies=energies, prune=prune)
        assert relative(result.forces, expected) < TOLERANCE
        if energies:
            assert relative(result.energies, plain.energies) < 1e-6


def test_the_pairwise_variant_of_fast_mode_in_a_large_box_matches_the_relative_one(device):
    system, options, table = make_system(LARGE["triclinic"], seed=6), settings(), lj_table("geometric")
    pair_forces = make_forces(device, system, options, table, "fast")
    pair_forces.search(*rows_on(device, system.x), system.box, 0.9)
    relative_result = evaluate(pair_forces)
    pair_forces.spec = replace(pair_forces.spec, displacement="pairwise")
    assert relative(evaluate(pair_forces).forces, relative_result.forces) < TOLERANCE


@pytest.mark.parametrize("name", LARGE)
def test_the_pairwise_variant_of_reproducible_mode_has_the_bits_of_the_relative_one(device, name):
    system, options, table = make_system(LARGE[name], seed=6), settings(), lj_table("geometric")
    pair_forces = make_forces(device, system, options, table, "reproducible")
    pair_forces.search(*rows_on(device, system.x), system.box, 0.9)
    first = evaluate(pair_forces)
    pair_forces.spec = replace(pair_forces.spec, displacement="pairwise")
    second = evaluate(pair_forces)
    assert (first.raw_forces == second.raw_forces).all()
    assert (first.raw_energies == second.raw_energies).all()


def test_energies_and_virial_match_the_cpu(device):
    system, options, table = make_system(LARGE["triclinic"], seed=7), settings(), lj_table("table")
    for precision in PRECISIONS:
        here = compute_on(device, system, options, table, precision, 0.9)
        cpu = compute(system, options, table, precision, 0.9)
        assert relative(here.forces, cpu.forces) < TOLERANCE
        np.testing.assert_allclose(here.energies, cpu.energies, rtol=1e-5, atol=1e-3)
        assert (here.counts.pairs, here.counts.excluded) == (cpu.pairs, cpu.excluded)


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("name", ["small", "large"])
def test_reproducible_bits_depend_on_no_run_no_launch_shape_and_no_order(
    device, monkeypatch, name, combination
):
    box = BOXES["triclinic"] if name == "small" else LARGE["orthorhombic"]
    system, options, table = make_system(box, seed=8), settings(), lj_table(combination)
    shuffled = np.random.default_rng(1).permutation(system.n).astype(np.int32)
    ways = [
        {},
        {},
        {},
        {"shape": {"warps": 1}},
        {"shape": {"warps": 4}},
        {"blocks": 7},
        {"order": shuffled},
        {"with_energies": False},
    ]
    hashes = set()
    for way in ways:
        result = compute_on(device, system, options, table, "reproducible", 0.9, **way)
        if way.get("with_energies", True):
            sums = result.raw_energies.tobytes()
        hashes.add(hashlib.sha256(result.raw_forces.tobytes() + sums).hexdigest())
    assert (result.raw_forces.sum(axis=0) == 0).all()
    for chunk in CHUNKS:
        monkeypatch.setattr(gpu_search, "chunk_for", lambda _n, chunk=chunk: chunk)
        result = compute_on(device, system, options, table, "reproducible", 0.9)
        hashes.add(hashlib.sha256(result.raw_forces.tobytes() + result.raw_energies.tobytes()).hexdigest())
    assert len(hashes) == 1


def test_reproducible_bits_do_not_depend_on_the_list_cutoff_beyond_the_cutoff(device):
    system, options, table = make_system(LARGE["orthorhombic"], seed=9), settings(), lj_table("geometric")
    forces = [
        compute_on(device, system, options, table, "reproducible", r).raw_forces for r in (0.85, 0.9, 1.1)
    ]
    assert (forces[0] == forces[1]).all()
    assert (forces[0] == forces[2]).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_atoms_that_moved_since_the_search_keep_their_pairs(device, precision):
    system, options, table = make_system(LARGE["orthorhombic"], seed=10), settings(), lj_table("geometric")
    pair_forces = make_forces(device, system, options, table, precision)
    pair_forces.search(*rows_on(device, system.x), system.box, 0.9)
    step = np.random.default_rng(2).uniform(-0.02, 0.02, (system.n, 3)) @ np.linalg.inv(system.box)
    moved = replace(system, x=(system.x + np.rint(step * 2.0**32).astype(np.int64)).astype(np.int32))
    slots = device.to_host(pair_forces.slots.slot_of_gid)
    rows = device.to_host(pair_forces.slots.x)
    rows[slots, :3] = moved.x
    pair_forces.slots.x.set(rows, stream=device.stream)
    here = evaluate(pair_forces)
    again = compute_on(device, moved, options, table, precision, 0.9)
    assert relative(here.forces, again.forces) < TOLERANCE


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_charge_less_atoms_exactly_on_others_give_no_force(device, precision, combination):
    system, options, table = make_system(BOXES["orthorhombic"], seed=11), settings(), lj_table(combination)
    site = np.flatnonzero(system.type_index == 2)[:40]
    x, charge = system.x.copy(), system.charge.copy()
    charge[site] = 0.0
    x[site] = x[(site + 301) % system.n]
    system = replace(system, x=x, charge=charge)
    result = compute_on(device, system, options, table, precision, 0.9)
    assert np.isfinite(result.forces).all()
    assert not result.forces[site].any()
    assert relative(result.forces, brute_force_without(system, site, options, table)) < TOLERANCE


def brute_force_without(system, left_out, options, table):
    keep = np.setdiff1d(np.arange(system.n), left_out)
    excluded = system.excluded[np.ix_(keep, keep)]
    part = System(system.x[keep], system.box, system.type_index[keep], system.charge[keep], keep, excluded)
    forces = np.zeros((system.n, 3))
    forces[keep] = brute_force(part, options, table, 0.9).forces
    return forces


@pytest.mark.parametrize("precision", PRECISIONS)
def test_overlapping_atoms_are_reported(device, precision):
    system, options, table = make_system(BOXES["orthorhombic"], seed=12), settings(), lj_table("geometric")
    first, second = np.flatnonzero(system.type_index == 0)[:2]
    x = system.x.copy()
    x[second] = x[first] + 1000
    with pytest.raises(UnstableError, match="atoms overlap"):
        compute_on(device, replace(system, x=x), options, table, precision, 0.9)


def test_forces_replayed_from_a_graph_have_the_same_bits(device):
    system, options, table = make_system(LARGE["orthorhombic"], seed=13), settings(), lj_table("geometric")
    pair_forces = make_forces(device, system, options, table, "reproducible")
    pair_forces.search(*rows_on(device, system.x), system.box, 0.9)
    expected = evaluate(pair_forces, with_energies=False).raw_forces
    forces = device.zeros((pair_forces.slots.capacity, 4), np.int64)

    def step():
        device.clear(forces)
        pair_forces.forces(forces)

    step()
    replay = device.capture(step)
    replay()
    replay()
    found = device.to_host(forces)[device.to_host(pair_forces.slots.slot_of_gid), :3]
    assert (found == expected).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_slab_between_vacuum_matches_the_cpu(device, precision):
    thick = make_system(np.diag([4.0, 4.2, 3.1]), seed=14)
    positions = thick.x / 2.0**32 @ thick.box
    box = np.diag([4.0, 4.2, 14.0])
    system, options, table = replace(thick, x=lattice(positions, box), box=box), settings(), lj_table("table")
    cpu = compute(system, options, table, precision, 0.9)
    pair_forces = make_forces(device, system, options, table, precision)
    rows = rows_on(device, system.x)
    for _ in range(3):  # the column grid follows the density
        counts = pair_forces.search(*rows, box, 0.9)
        assert (counts.pairs, counts.excluded) == (cpu.pairs, cpu.excluded)
        assert relative(evaluate(pair_forces).forces, cpu.forces) < TOLERANCE
        rows = pair_forces.slots.x, pair_forces.slots.gid


def tiles_of(device, counters, entry_room, entries, groups, masks):
    """(k, 4) of every tile of a list: supercluster, j-cluster, half, i-cluster."""
    entries, groups, masks = (device.to_host(a) for a in (entries, groups, masks))
    found = []
    largest, others = entry_room
    for size, count in enumerate(counters):
        first = 0 if size == len(counters) - 1 else largest + size * others
        for super_, begin, end, _ in entries[first : first + count]:
            for group in range(begin, end):
                words = masks[2 * group : 2 * group + 2, 0]
                bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & 1
                half, bit = np.nonzero(bits)
                rows = np.column_stack([np.full(len(bit), super_), groups[group, bit // 8], half, bit % 8])
                found.append(rows)
    return np.concatenate(found)


def smallest_distances(device, pair_forces, tiles, box):
    """Of the pairs of each tile, all slots alike, nm."""
    x = device.to_host(pair_forces.slots.x)[:, :3]
    i = 64 * tiles[:, 0, None] + 8 * tiles[:, 3, None] + np.arange(8)
    j = 8 * tiles[:, 1, None] + 4 * tiles[:, 2, None] + np.arange(4)
    d = (x[i][:, :, None] - x[j][:, None]).astype(np.float64) / 2.0**32 @ box
    return np.sqrt((d * d).sum(-1)).min((1, 2))


@pytest.mark.parametrize("chunk", [CHUNKS[0], CHUNKS[-1]])
@pytest.mark.parametrize("displacement", ["relative", "pairwise"])
@pytest.mark.parametrize("name", ["orthorhombic", "triclinic"])
def test_a_pruning_keeps_the_tiles_with_a_pair_within_the_inner_radius_and_no_other(
    device, monkeypatch, name, displacement, chunk
):
    monkeypatch.setattr(gpu_search, "chunk_for", lambda _n: chunk)
    box = 0.7 * LARGE[name]
    system, options = make_system(box, seed=8), settings(rcoulomb=0.45, rvdw=0.45)
    pair_forces = make_forces(device, system, options, lj_table("geometric"), "fast")
    pair_forces.search(*rows_on(device, system.x), box, 0.62, r_inner=0.5)
    assert pair_forces.spec.displacement == "relative"
    pair_forces.spec = replace(pair_forces.spec, displacement=displacement)
    moved = device.to_host(pair_forces.slots.x)
    moved[:, :3] += np.random.default_rng(1).integers(-(2**25), 2**25, (len(moved), 3), np.int32)
    pair_forces.slots.x.set(moved)
    pair_forces.prune()
    pairs = pair_forces.pairs.lists[0]
    shape = pair_forces.pairs.counts.entries_by_size, pairs.entry_room
    listed = tiles_of(device, *shape, pairs.entries, pairs.groups, pairs.masks)
    kept = {tuple(tile) for tile in tiles_of(device, *shape, *pairs.kept).tolist()}
    nearest = smallest_distances(device, pair_forces, listed, box)
    wanted = {tuple(tile) for tile in listed[nearest < 0.5].tolist()}
    allowed = {tuple(tile) for tile in listed[nearest < 0.5001].tolist()}
    assert wanted <= kept <= allowed
    assert len(wanted) < 0.8 * len(listed)
