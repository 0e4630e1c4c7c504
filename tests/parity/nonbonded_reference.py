"""Random systems and float64 brute force for the non-bonded tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from pulsemd.base.errors import UnstableError
from pulsemd.forcefield.nonbonded import LennardJonesTable, build_table
from pulsemd.kernels.nonbonded.launch import PairForces
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.settings import pair_constants

BOXES = {
    "orthorhombic": np.diag([2.4, 2.9, 2.6]),
    "triclinic": np.array([[2.6, 0.0, 0.0], [0.9, 2.5, 0.0], [-0.8, 1.1, 2.4]]),
    "left-handed": np.array([[0.0, 2.7, 0.0], [2.6, 0.3, 0.0], [0.2, -0.4, 2.5]]),
    "general": np.array([[2.1, 1.2, -0.4], [-1.1, 2.3, 0.3], [0.5, -0.2, 2.6]]),
}
TYPES = ("big", "small", "bare")
OVERRIDE = {(0, 1): (0.31, 0.9)}


def settings(**options) -> SimpleNamespace:
    """Options of a run under their .mdp names."""
    known = {
        "coulombtype": "reaction-field",
        "coulomb_modifier": "potential-shift",
        "rcoulomb": 0.8,
        "epsilon_r": 1.0,
        "epsilon_rf": 0.0,
        "ewald_rtol": 1e-5,
        "vdwtype": "cut-off",
        "vdw_modifier": "potential-shift",
        "rvdw_switch": 0.5,
        "rvdw": 0.8,
    }
    return SimpleNamespace(**{**known, **options})


def lj_table(combination: str) -> LennardJonesTable:
    """Three types, the last without Lennard-Jones parameters."""
    rule, overrides = {
        "geometric": (3, {}),
        "lorentz-berthelot": (2, {}),
        "table": (2, OVERRIDE),
    }[combination]
    table = build_table(TYPES, rule, (0.26, 0.22, 0.2), (0.7, 0.3, 0.0), overrides)
    assert table.combination == combination
    return table


@dataclass
class System:
    """Atoms in molecules of three, without bad contacts between molecules.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    leader : (n,) int, first atom of each atom's molecule
    """

    x: np.ndarray
    box: np.ndarray
    type_index: np.ndarray
    charge: np.ndarray
    leader: np.ndarray
    excluded: np.ndarray = field(repr=False)

    @property
    def n(self) -> int:
        return len(self.x)

    def exclusions(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """CSR of excluded partners among local ``rows`` (global numbers), absent partners dropped."""
        local = np.full(self.n, -1)
        local[rows] = np.arange(len(rows))
        partners = [local[np.flatnonzero(self.excluded[row])] for row in rows]
        partners = [np.sort(p[p >= 0]) for p in partners]
        offset = np.concatenate(([0], np.cumsum([len(p) for p in partners]))).astype(np.int64)
        flat = np.concatenate(partners) if partners else np.empty(0)
        return offset, flat.astype(np.int32)


def lattice(positions: np.ndarray, box: np.ndarray) -> np.ndarray:
    """int32 lattice positions of Cartesian ones."""
    fraction = positions @ np.linalg.inv(box)
    fraction -= np.floor(fraction + 0.5)
    return np.rint(fraction * 2.0**32).astype(np.int64).astype(np.int32)


def make_system(box: np.ndarray, spacing: float = 0.31, seed: int = 1) -> System:
    """Molecules on a jittered lattice that fills the box."""
    rng = np.random.default_rng(seed)
    counts = np.maximum(np.floor(np.linalg.norm(box, axis=1) / spacing), 1).astype(int)
    sites = np.stack(np.meshgrid(*(np.arange(c) / c for c in counts), indexing="ij"), -1).reshape(-1, 3)
    rng.shuffle(sites)
    first = sites @ box + rng.uniform(-0.03, 0.03, sites.shape)
    arms = rng.normal(size=(len(sites), 2, 3))
    arms *= 0.06 / np.linalg.norm(arms, axis=-1, keepdims=True)
    positions = np.concatenate((first[:, None], first[:, None] + arms), axis=1).reshape(-1, 3)
    n = len(positions)
    leader = np.arange(n) // 3 * 3
    excluded = leader[:, None] == leader[None]
    np.fill_diagonal(excluded, False)
    for a, b in rng.integers(0, n, (20, 2)):  # exclusions between molecules, near and far
        excluded[a, b] = excluded[b, a] = a != b
    charge = rng.uniform(-0.6, 0.6, n)
    charge[rng.random(n) < 0.2] = 0.0
    types = np.where(np.arange(n) % 3 == 0, rng.integers(0, 2, n), 2).astype(np.int32)
    return System(lattice(positions, box), box, types, charge, leader, excluded)


@dataclass
class Reference:
    """Brute force in float64; ``size`` is the sum of the absolute values of the pairs' two energies."""

    forces: np.ndarray
    energies: np.ndarray
    size: np.ndarray
    pairs_within: int
    excluded_within: int


def displacements(system: System) -> np.ndarray:
    """Minimum-image x_i - x_j (n, n, 3), nm."""
    return (system.x[:, None] - system.x[None]).astype(np.float64) / 2.0**32 @ system.box


def brute_force(
    system: System,
    options: SimpleNamespace,
    table: LennardJonesTable,
    r_list: float,
    potential: PairPotential | None = None,
) -> Reference:
    """Energies, virial, forces and numbers of pairs by a double sum."""
    constants = pair_constants(options)
    d = displacements(system)
    r2 = (d**2).sum(-1)
    upper = np.triu(np.ones(r2.shape, bool), 1)
    within = upper & (r2 <= r_list**2)
    acting = (r2 < constants.cutoff**2) & ~system.excluded & ~np.eye(system.n, dtype=bool)
    safe = np.where(acting, r2, 1.0)
    i, j = system.type_index[:, None], system.type_index[None]
    lj, f_lj = constants.lennard_jones(np.sqrt(safe), table.c6[i, j], table.c12[i, j])
    if potential is not None:
        lj, f_lj = van_der_waals(potential, table, safe, i, j, options)
    qq = constants.coulomb_factor * system.charge[:, None] * system.charge[None]
    coulomb, f_coulomb = constants.coulomb(safe, qq)
    pair_force = (acting * (f_lj + f_coulomb))[..., None] * d
    virial = 0.5 * np.einsum("ija,ijb->ab", d, pair_force)
    sums = [0.5 * (acting * lj).sum(), 0.5 * (acting * coulomb).sum()]
    return Reference(
        pair_force.sum(1),
        np.concatenate((sums, virial.ravel())),
        np.array([0.5 * (acting * abs(lj)).sum(), 0.5 * (acting * abs(coulomb)).sum()]),
        int((within & ~system.excluded).sum()),
        int((within & system.excluded).sum()),
    )


def van_der_waals(potential, table, r2, i, j, options) -> tuple[np.ndarray, np.ndarray]:
    """Energy and force over r of a user's potential in float64, shifted as the options ask."""
    resolved = potential.resolve(table)
    energy, force = resolved.formula(r2, *resolved.values[:, i, j])
    if options.vdw_modifier == "potential-shift":
        energy = energy - resolved.formula(options.rvdw**2, *resolved.values[:, i, j])[0]
    return energy, force


@dataclass
class Result:
    """Sums over the ranks, in kJ/mol and nm; the raw sums too."""

    forces: np.ndarray
    energies: np.ndarray
    raw_forces: np.ndarray
    raw_energies: np.ndarray
    pairs: int
    excluded: int


@dataclass(frozen=True)
class LocalRows:
    """Rows (global numbers, owned first) of one rank."""

    rows: np.ndarray
    n_owned: int
    home: np.ndarray


def one_rank(system: System) -> list[LocalRows]:
    """Everything on one rank."""
    return [LocalRows(np.arange(system.n), system.n, np.full(system.n, 7, np.uint8))]


def compute(
    system: System,
    options: SimpleNamespace,
    table: LennardJonesTable,
    precision: str,
    r_list: float,
    ranks: list[LocalRows] | None = None,
    split_dims: tuple[bool, bool, bool] = (False, False, False),
    with_energies: bool = True,
    potential: PairPotential | None = None,
) -> Result:
    """Run `PairForces` on every rank and add up."""
    fast = precision == "fast"
    total = np.zeros((system.n, 3), np.float64 if fast else np.int64)
    energies = np.zeros(11, np.float64 if fast else np.int64)
    pairs = excluded = 0
    for local in ranks or one_rank(system):
        rows = local.rows
        forces = PairForces(table, options, precision, potential)
        x = system.x[rows]
        counts = forces.search(
            x,
            system.box,
            local.n_owned,
            system.type_index[rows],
            system.charge[rows],
            *system.exclusions(rows),
            system.x[system.leader[rows]],
            local.home,
            split_dims,
            r_list,
        )
        mine = np.zeros((len(rows), 3), np.float32 if fast else np.int64)
        wanted = energies if with_energies else None
        forces.local(x, mine, wanted)
        forces.nonlocal_(x, mine, wanted)
        if forces.out_of_range():
            raise UnstableError("atoms overlap")
        np.add.at(total, rows, mine)
        pairs += counts.pairs
        excluded += counts.excluded
    force_unit, energy_unit = (1.0, 1.0) if fast else (2.0**-32, 2.0**-20)
    return Result(total * force_unit, energies * energy_unit, total, energies, pairs, excluded)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """Relative L2 difference."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))
