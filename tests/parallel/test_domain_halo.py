"""Decomposition against brute force: every pair computed once, with both atoms present."""

from __future__ import annotations

import numpy as np
import pytest
from ownership_rule import owner_of_terms

from domain_support import World, check_domains, halo_limit, on_ranks, random_bounds
from pulsemd.base.errors import DomainError
from pulsemd.domain.atoms import LocalAtoms, UpdateGroups, select_owned
from pulsemd.domain.grid import LATTICE, Grid, choose_grid, pulse_counts
from pulsemd.domain.lattice import reduce_box, to_lattice
from pulsemd.domain.migrate import migrate
from pulsemd.domain.ownership import assign_terms, check_terms
from pulsemd.domain.plan import build_halo, max_leader_extent

KINDS = ("orthorhombic", "triclinic", "left-handed", "unreduced")


def random_box(kind: str, rng: np.random.Generator) -> np.ndarray:
    box = np.diag(rng.uniform(2.0, 6.0, 3))
    if kind != "orthorhombic":
        box[1, 0], box[2, 0], box[2, 1] = rng.uniform(-0.5, 0.5, 3) * box[[0, 0, 1], [0, 0, 1]]
    if kind == "left-handed":
        box = box[[1, 0, 2]]
    if kind == "unreduced":
        for _ in range(5):
            i, j = rng.permutation(3)[:2]
            box[i] += rng.integers(-3, 4) * box[j]
    return box


def random_case(kind: str, seed: int, most_ranks: int) -> tuple[World, Grid, float]:
    """A world, a grid of 1-7 cells per dimension and a list cut-off that just fits or is short."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    box, _ = reduce_box(random_box(kind, rng))
    while True:
        shape = tuple(int(n) for n in rng.integers(1, 8, 3))
        if 1 < np.prod(shape) <= most_ranks:
            break
    grid = Grid(shape)
    if rng.random() < 0.5:
        grid = Grid(shape, tuple(random_bounds(n, rng) for n in shape))
    halo = halo_limit(grid, box) * rng.choice([0.3, 0.7, 1.0])
    reach = halo * rng.choice([0.0, 0.1, 0.25])
    return World(box, 70, reach, seed), grid, halo - 2 * reach


def check_case(kind: str, seed: int, most_ranks: int) -> None:
    world, grid, r_list = random_case(kind, seed, most_ranks)
    staged, direct = (world.domains(grid, r_list, plan) for plan in ("staged", "direct"))
    check_domains(world, grid, staged, r_list)
    check_domains(world, grid, direct, r_list)
    for a, b in zip(staged, direct, strict=True):
        assert set(a.gid.tolist()) == set(b.gid.tolist())
        assert np.array_equal(a.atoms.gid, b.atoms.gid)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(27))
def test_build_halo_random_boxes_and_grids_sees_every_pair_once(kind: str, seed: int) -> None:
    check_case(kind, seed, 16)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(100, 115))
def test_build_halo_up_to_343_ranks_sees_every_pair_once(kind: str, seed: int) -> None:
    check_case(kind, seed, 343)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 7, 8, 9, 11, 12])
def test_build_halo_any_rank_count_sees_every_pair_once(n_ranks: int) -> None:
    world = World(np.diag([3.0, 3.0, 4.0]), 120, 0.1, n_ranks)
    grid = choose_grid(n_ranks, world.box, 1.0)
    check_domains(world, grid, world.domains(grid, 0.8), 0.8)


def test_build_halo_owner_that_crossed_before_migration_is_refused_on_every_rank() -> None:
    box = np.diag([10.0, 10.0, 10.0])
    groups, grid = UpdateGroups.singles(2), Grid((2, 1, 1))
    before, after = (to_lattice(np.array([[x, 1, 1], [7.0, 1, 1]]), box) for x in (4.9, 5.1))
    v = np.zeros((2, 3), np.float32)

    def moved(transport):
        atoms = select_owned(grid, transport.rank, groups, before, v)
        return LocalAtoms(atoms.gid, after[atoms.gid], atoms.v)

    def stale(transport):
        return build_halo(transport, grid, groups, moved(transport), box, 1.0)

    def right(transport):
        return build_halo(
            transport, grid, groups, migrate(transport, grid, groups, moved(transport)), box, 1.0
        )

    errors = on_ranks(2, stale, expect_errors=True)
    assert all(isinstance(e, DomainError) and "rank 0 holds atom 1 of rank 1" in str(e) for e in errors)
    domains = on_ranks(2, right)
    assert [sorted(d.atoms.gid.tolist()) for d in domains] == [[], [0, 1]]


def test_migrate_atom_crossing_a_periodic_face_arrives_across_it() -> None:
    box = np.diag([10.0, 10.0, 10.0])
    groups, grid = UpdateGroups.singles(3), Grid((2, 1, 2))
    inside = to_lattice(np.array([[9.9, 1, 9.9], [2.0, 1, 1], [7.0, 1, 1]]), box)
    step = np.zeros((3, 3), np.int32)
    step[0] = to_lattice(np.array([[0.2, 0, 0.2]]), box)[0]  # to 10.1, never wrapped

    def work(transport):
        atoms = select_owned(grid, transport.rank, groups, inside, np.zeros((3, 3), np.float32))
        return migrate(transport, grid, groups, LocalAtoms(atoms.gid, atoms.x + step[atoms.gid], atoms.v))

    owned = [a.gid.tolist() for a in on_ranks(4, work)]
    assert 0 in owned[grid.rank_of_cell((0, 0, 0))]
    assert sorted(gid for gids in owned for gid in gids) == [0, 1, 2]


@pytest.mark.parametrize("shape", [(2, 2, 2), (1, 1, 7), (3, 1, 2), (1, 1, 1)])
def test_migrate_far_jumps_conserves_atoms_and_groups(shape: tuple[int, int, int]) -> None:
    world, grid = World(np.diag([4.0, 5.0, 6.0]), 60, 0.3, 5), Grid(shape)
    jump = world.rng.integers(-(2**31), 2**31, (world.n, 3)).astype(np.int32)[world.leader]
    moved = world.x + jump
    image = np.arange(3 * world.n, dtype=np.int32).reshape(-1, 3)

    def work(transport):
        atoms = select_owned(grid, transport.rank, world.groups, world.x, world.v, image)
        return migrate(
            transport, grid, world.groups, LocalAtoms(atoms.gid, moved[atoms.gid], atoms.v, atoms.image)
        )

    atoms = on_ranks(grid.size, work)
    gid = np.concatenate([a.gid for a in atoms])
    assert np.array_equal(np.sort(gid), np.arange(world.n))
    for rank, a in enumerate(atoms):
        assert np.array_equal(a.x, moved[a.gid])
        assert np.array_equal(a.v, world.v[a.gid])
        assert np.array_equal(a.image, image[a.gid])
        assert (grid.rank_of(moved[world.leader[a.gid]]) == rank).all()


@pytest.mark.parametrize("plan", ["staged", "direct"])
def test_build_halo_box_scaling_goes_from_one_to_two_pulses_and_back(plan: str) -> None:
    world, grid = World(np.diag([6.0, 6.0, 6.0]), 100, 0.05, 3), Grid((2, 1, 5))
    full = world.box
    pulses = []
    for scale in (1.0, 0.75, 1.0):
        world.box = full * scale
        domains = world.domains(grid, 0.9, plan)
        check_domains(world, grid, domains, 0.9)
        pulses.append(len(domains[0].plan.pulses))
    assert pulses == ([2, 3, 2] if plan == "staged" else [3, 5, 3])


@pytest.mark.parametrize("plan", ["staged", "direct"])
@pytest.mark.parametrize(
    ("shape", "places"), [((1, 1, 4), 0.12), ((2, 2, 2), 0.05), ((1, 2, 4), 0.1), ((5, 1, 1), 0.01)]
)
def test_build_halo_empty_domains_are_legal(plan: str, shape: tuple[int, int, int], places: float) -> None:
    world, grid = World(np.diag([5.0, 6.0, 8.0]), 40, 0.05, 9, extent_of_places=places), Grid(shape)
    world.x += np.int32(LATTICE // 16)  # all within one sixteenth of the box from there
    domains = world.domains(grid, 1.0, plan)
    assert min(d.n_owned for d in domains) == 0
    check_domains(world, grid, domains, 1.0)


@pytest.mark.parametrize("plan", ["staged", "direct"])
def test_build_halo_vacuum_slab_in_a_quarter_of_z_leaves_three_ranks_empty(plan: str) -> None:
    world, grid = World(np.diag([5.0, 6.0, 8.0]), 60, 0.0, 9), Grid((1, 1, 4))
    world.x[:, 2] = (world.x[:, 2].view(np.uint32) // 4).view(np.int32)
    domains = world.domains(grid, 1.0, plan)
    assert [d.n_owned for d in domains] == [60, 0, 0, 0]
    check_domains(world, grid, domains, 1.0)


@pytest.mark.parametrize("plan", ["staged", "direct"])
def test_build_halo_one_atom_on_eight_ranks(plan: str) -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 1, 0.0, 2), Grid((2, 2, 2))
    domains = world.domains(grid, 1.5, plan)
    assert sum(d.n_owned for d in domains) == 1
    check_domains(world, grid, domains, 1.5)


def test_build_halo_no_atoms_at_all_gives_empty_domains() -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 0, 0.0, 2), Grid((2, 1, 1))
    assert [d.n_local for d in world.domains(grid, 1.5)] == [0, 0]


def test_build_halo_ten_slices_on_three_ranks_sees_every_pair_once() -> None:
    tenths = tuple(k * LATTICE // 10 for k in (0, 3, 6, 10))
    whole = (0, LATTICE)
    world, grid = World(np.diag([3.0, 3.0, 5.0]), 100, 0.1, 8), Grid((1, 1, 3), (whole, whole, tenths))
    check_domains(world, grid, world.domains(grid, 1.2), 1.2)


def test_build_halo_atoms_exactly_on_cell_bounds_have_one_owner() -> None:
    box, grid = np.diag([6.0, 6.0, 6.0]), Grid((3, 2, 1))
    xs, ys = (0, 2, 4, 6, np.nextafter(2, 0)), (0, -0.0, 3, 6, -60, 300)
    places = np.array([[x, y, 1.0] for x in xs for y in ys])
    world = World(box, len(places), 0.0, 0)
    world.x = to_lattice(places, box)
    check_domains(world, grid, world.domains(grid, 1.9), 1.9)


def test_build_halo_one_large_solute_sets_the_halo() -> None:
    world, grid = World(np.diag([8.0, 8.0, 8.0]), 80, 0.05, 4), Grid((2, 1, 1))
    solute = world.groups.atoms[world.groups.offset[3] : world.groups.offset[4]]
    world.x[solute[1:], 0] = world.x[solute[:1], 0] + np.int32(LATTICE // 8)  # 1 nm from its leader
    assert len(solute) > 1
    domains = world.domains(grid, 1.0)
    assert domains[0].halo_width == pytest.approx(3.0, rel=0.01)
    check_domains(world, grid, domains, 1.0)


def test_build_halo_that_no_longer_fits_is_refused_with_the_limit() -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 20, 0.3, 1), Grid((2, 1, 1))
    errors = on_ranks(
        2,
        lambda t: build_halo(t, grid, world.groups, world.start(t, grid), world.box, 1.8),
        expect_errors=True,
    )
    assert all(isinstance(e, DomainError) and "half the box's" in str(e) for e in errors)


def test_build_halo_lost_atom_is_an_error_on_every_rank() -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 20, 0.0, 1), Grid((2, 2, 1))

    def work(transport):
        atoms = world.start(transport, grid)
        return build_halo(
            transport, grid, world.groups, atoms.take(np.arange(len(atoms))[:-1]), world.box, 1.0
        )

    errors = on_ranks(4, work, expect_errors=True)
    assert all("16 atoms together but the system has 20" in str(e) for e in errors)


def test_build_halo_atom_held_twice_is_named() -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 20, 0.0, 1), Grid((2, 1, 1))

    def work(transport):
        atoms = world.start(transport, grid)
        rows = np.arange(len(atoms))
        rows[-1] = rows[0]
        return build_halo(transport, grid, world.groups, atoms.take(rows), world.box, 1.0)

    errors = on_ranks(2, work, expect_errors=True)
    assert all(isinstance(e, DomainError) and "is here twice" in str(e) for e in errors)


def test_build_halo_split_group_is_refused() -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 20, 0.2, 1), Grid((2, 1, 1))

    def work(transport):
        atoms = world.start(transport, grid)
        return build_halo(
            transport, grid, world.groups, atoms.take(np.arange(len(atoms))[::-1]), world.box, 1.0
        )

    errors = on_ranks(2, work, expect_errors=True)
    assert all(isinstance(e, DomainError) and "not whole and consecutive" in str(e) for e in errors)


def test_build_halo_order_does_not_depend_on_where_atoms_came_from() -> None:
    world, grid = World(np.diag([4.0, 4.0, 4.0]), 80, 0.1, 1), Grid((2, 1, 2))
    straight = world.domains(grid, 1.0)

    def scrambled(transport):
        other = Grid((1, 4, 1))
        atoms = migrate(
            transport, grid, world.groups, select_owned(other, transport.rank, world.groups, world.x, world.v)
        )
        return build_halo(transport, grid, world.groups, atoms, world.box, 1.0)

    for a, b in zip(straight, on_ranks(4, scrambled), strict=True):
        assert np.array_equal(a.gid, b.gid)


def random_terms(world: World, k: int, longest: float) -> np.ndarray:
    """Terms of k atoms near one another, among them ones within a group."""
    near = world.pairs_within(longest)
    neighbours = {int(i): {int(i)} for i in range(world.n)}
    for i, j in near:
        neighbours[int(i)].add(int(j))
        neighbours[int(j)].add(int(i))
    return np.array([world.rng.choice(sorted(neighbours[i]), k) for i in range(world.n)], np.int32)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(2, 2, 2), (1, 1, 5), (3, 2, 1)])
def test_assign_terms_of_k_atoms_each_on_one_rank(k: int, shape: tuple[int, int, int]) -> None:
    world, grid = World(np.diag([5.0, 5.5, 6.0]), 80, 0.1, k), Grid(shape)
    terms = random_terms(world, k, 0.9)
    leader_x = world.x[world.leader]
    extent = max_leader_extent(terms, leader_x, world.box)
    domains = world.domains(grid, 0.7, extent=extent)
    owner = owner_of_terms(leader_x[terms], grid)

    def work(transport):
        d = domains[transport.rank]
        mine, rows = assign_terms(terms, d.local_row, d.leader_x, d.home, grid.split_dims)
        check_terms(transport, {"test": (terms, mine)}, str)
        assert np.array_equal(d.gid[rows], terms[mine])
        assert np.array_equal(mine, np.flatnonzero(owner == transport.rank))
        return mine

    mine = np.concatenate(on_ranks(grid.size, work))
    assert np.array_equal(np.sort(mine), np.arange(len(terms)))


def test_check_terms_partner_outside_the_halo_is_named_on_every_rank() -> None:
    box, grid = np.diag([9.0, 9.0, 9.0]), Grid((3, 1, 1))
    world = World(box, 3, 0.0, 0)
    world.x = to_lattice(np.array([[1.0, 1, 1], [5.0, 1, 1], [5.1, 1, 1]]), box)
    terms = np.array([[0, 1], [1, 2]], np.int32)
    domains = world.domains(grid, 1.0)

    def work(transport):
        d = domains[transport.rank]
        mine, _ = assign_terms(terms, d.local_row, d.leader_x, d.home, grid.split_dims)
        check_terms(transport, {"bond": (terms, mine)}, lambda gid: f"ARG (atom {gid + 1})")

    errors = on_ranks(3, work, expect_errors=True)
    assert len({str(e) for e in errors}) == 1
    assert "1 of 2 bond terms" in str(errors[0])
    assert r"ARG (atom 1) - ARG (atom 2) on 0 ranks" in str(errors[0])


def test_max_leader_extent_across_a_periodic_face_is_the_short_way() -> None:
    box = np.diag([5.0, 5.0, 5.0])
    x = to_lattice(np.array([[0.1, 0, 0], [4.9, 0, 0], [4.9, 0.3, 0]]), box)
    assert max_leader_extent(np.array([[0, 1, 2]], np.int32), x, box) == pytest.approx(np.hypot(0.2, 0.3))


def test_pulse_counts_cover_the_halo_of_every_rank() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        n = int(rng.integers(2, 8))
        whole = (0, LATTICE)
        grid = Grid((n, 1, 1), (random_bounds(n, rng), whole, whole))
        halo = int(rng.uniform(0.01, 0.49) * min(LATTICE, 2 * (LATTICE - max(grid.cell_widths[0]))))
        count = pulse_counts(grid, (halo, 0, 0))[0]
        cells = np.tile(grid.cell_widths[0], 2)
        assert all(cells[c + 1 : c + 1 + count].sum() >= halo for c in range(n))
        assert any(cells[c + 1 : c + count].sum() < halo for c in range(n))


@pytest.mark.parametrize("plan", ["staged", "direct"])
@pytest.mark.parametrize("shape", [(2, 2, 2), (1, 1, 5), (1, 3, 2)])
def test_build_halo_channels_copy_positions_and_sum_back(plan: str, shape: tuple[int, int, int]) -> None:
    world, grid = World(np.diag([5.0, 5.5, 6.0]), 80, 0.1, 6), Grid(shape)

    def work(transport):
        atoms = world.start(transport, grid)
        d = build_halo(transport, grid, world.groups, atoms, world.box, 1.2, kind=plan)
        capacity = max(transport.allgather(d.n_local))
        x = transport.allocate("x", capacity, 3, np.int32)
        f = transport.allocate("f", capacity, 1, np.int64)
        forward, reverse = transport.channel(d.plan, x), transport.channel(d.plan, f)
        x[: d.n_owned] = d.atoms.x
        forward.forward()
        assert np.array_equal(x[: d.n_local], world.x[d.gid])
        forward.release()
        f[: d.n_local] = 1
        reverse.reverse()
        return d, f[: d.n_owned, 0].copy()

    results = on_ranks(grid.size, work)
    holders = np.bincount(np.concatenate([d.gid for d, _ in results]), minlength=world.n)
    for d, sums in results:
        assert np.array_equal(sums, holders[d.atoms.gid])


def test_build_halo_two_atoms_in_a_box_of_3000_nm_on_eight_ranks() -> None:
    box, grid = np.diag([3000.0, 3000.0, 3000.0]), Grid((2, 2, 2))
    world = World(box, 2, 0.0, 0)
    world.x = to_lattice(np.array([[1499.8, 2999.9, 10.0], [1500.3, 0.2, 10.0]]), box)
    assert len(world.pairs_within(1.0)) == 1
    check_domains(world, grid, world.domains(grid, 1.0), 1.0)
