"""Water on a jittered lattice at 100 atoms/nm^3, for benchmarks of single kernels."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from pulsemd.forcefield.nonbonded import LennardJonesTable, build_table

DENSITY = 100.0  # atoms/nm^3
_ANGLE = np.deg2rad(109.47) / 2


@dataclass(frozen=True)
class WaterLattice:
    """Three-site water: positions on the lattice of 2^32, and its tables.

    Parameters
    ----------
    x : (n, 3) int32
    box : (3, 3) float64, nm
    """

    x: np.ndarray
    box: np.ndarray
    type_index: np.ndarray
    charge: np.ndarray
    exclusion_offset: np.ndarray
    exclusion_atoms: np.ndarray
    table: LennardJonesTable
    options: SimpleNamespace

    @property
    def n_atoms(self) -> int:
        return len(self.x)


def reaction_field_options(cutoff: float = 1.0) -> SimpleNamespace:
    """Reaction field with an infinite dielectric constant beyond the cutoff."""
    return SimpleNamespace(
        coulombtype="reaction-field",
        coulomb_modifier="potential-shift",
        rcoulomb=cutoff,
        epsilon_r=1.0,
        epsilon_rf=0.0,
        vdwtype="cut-off",
        vdw_modifier="potential-shift",
        rvdw=cutoff,
    )


def water_lattice(per_edge: tuple[int, int, int], cutoff: float = 1.0, seed: int = 1) -> WaterLattice:
    """A box of molecules, ``per_edge`` along each edge, each turned at random."""
    rng = np.random.default_rng(seed)
    n_molecules = int(np.prod(per_edge))
    spacing = (3.0 / DENSITY) ** (1.0 / 3.0)
    edges = spacing * np.array(per_edge)
    sites = np.stack(np.meshgrid(*(np.arange(n) for n in per_edge), indexing="ij"), -1).reshape(-1, 3)
    centers = sites * spacing + rng.uniform(-0.03, 0.03, (n_molecules, 3))
    q = rng.normal(size=(n_molecules, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    turn = np.stack(
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
         2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
         2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], -1,
    ).reshape(-1, 3, 3)  # fmt: skip
    arms = 0.1 * np.array(
        [[0, 0, 0], [np.sin(_ANGLE), np.cos(_ANGLE), 0], [-np.sin(_ANGLE), np.cos(_ANGLE), 0]]
    )
    positions = (centers[:, None] + np.einsum("nij,kj->nki", turn, arms)).reshape(-1, 3)
    fraction = positions / edges
    fraction -= np.floor(fraction + 0.5)
    lattice = np.rint(fraction * 2.0**32).astype(np.int64).astype(np.int32)
    first = np.repeat(3 * np.arange(n_molecules, dtype=np.int32), 3)
    others = np.tile(np.array([[1, 2], [0, 2], [0, 1]], np.int32), (n_molecules, 1)) + first[:, None]
    return WaterLattice(
        lattice,
        np.diag(edges),
        np.tile(np.array([0, 1, 1], np.int32), n_molecules),
        np.tile([-0.8476, 0.4238, 0.4238], n_molecules),
        np.arange(0, 6 * n_molecules + 1, 2, dtype=np.int64),
        others.ravel(),
        build_table(("OW", "HW"), 3, (0.3166, 0.1), (0.650, 0.0), {}),
        reaction_field_options(cutoff),
    )
