"""Virtual sites on a device: those that rigid waters carry along, and the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.cuda_programs import GROUP_THREADS, MAX_WATER_SITES, sites_program
from pulsemd.topology.groups import update_groups
from pulsemd.topology.virtual_sites import SiteKind, VirtualSites


@dataclass(frozen=True, eq=False)
class WaterSites:
    """Virtual sites of rigid waters that the update moves together with them.

    Parameters
    ----------
    atoms : (m, s) int32
        Global ids of the sites of each water, the same number for all; (m, 0) where there are none.
    weights : (kinds, s, 3) float64
        a, b, c of a site at a r_1 + b r_2 + c (r_1 x r_2) from O, r_1 and r_2 the vectors to its hydrogens.
    others : VirtualSites
        All other sites.
    """

    atoms: np.ndarray
    weights: np.ndarray
    others: VirtualSites


def water_sites(waters: Sequence[np.ndarray], sites: VirtualSites) -> WaterSites:
    """Find the sites that rigid waters carry along: of all waters the same number, of a kind the same weights.

    Parameters
    ----------
    waters : sequence of (m, 3) int32
        Global ids of O, H, H of each kind of water.
    sites : VirtualSites
    """
    kind_of = np.repeat(np.arange(len(waters)), [len(atoms) for atoms in waters])
    none = WaterSites(np.zeros((len(kind_of), 0), np.int32), np.zeros((len(waters), 0, 3)), sites)
    if len(sites) == 0 or len(kind_of) == 0:
        return none
    found, water, weights = _of_waters(np.concatenate(waters), sites)
    count = np.bincount(water, minlength=len(kind_of))
    n = int(count[0])
    if not 0 < n <= MAX_WATER_SITES or (count != n).any():
        return none
    order = np.argsort(water, kind="stable")
    atoms, weights = sites.sites[found][order].reshape(-1, n), weights[order].reshape(-1, n, 3)
    of_kind = weights[np.unique(kind_of, return_index=True)[1]]
    if not np.array_equal(weights, of_kind[kind_of]):
        return none
    return WaterSites(atoms, of_kind, _without(sites, found))


def _of_waters(waters: np.ndarray, sites: VirtualSites) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the sites that follow from O and both hydrogens of one water, that water, and their weights."""
    planar = np.isin(sites.kind, (SiteKind.LINEAR, SiteKind.OUT_OF_PLANE)) & (np.diff(sites.offset) == 4)
    found = np.flatnonzero(planar)
    parents = sites.atoms[sites.offset[found, None] + [1, 2, 3]]
    n_atoms = max(int(waters.max()), int(sites.atoms.max())) + 1
    water_of, place = np.full(n_atoms, -1), np.full(n_atoms, -1)
    water_of[waters] = np.arange(len(waters))[:, None]
    place[waters] = [0, 1, 2]
    water = water_of[parents]
    together = (water[:, 0] >= 0) & (water == water[:, :1]).all(1) & (place[parents[:, 0]] == 0)
    found, parents, water = found[together], parents[together], water[together, 0]
    values = sites.values[sites.offset[found, None] + [1, 2, 3]]
    out = (sites.kind[found] == SiteKind.OUT_OF_PLANE)[:, None]
    weights = np.column_stack([values[:, 1:], np.where(out, values[:, :1], 0.0)])
    turned = place[parents[:, 1]] == 2
    weights[turned] = weights[turned][:, [1, 0, 2]] * [1.0, 1.0, -1.0]
    return found, water, weights


def _without(sites: VirtualSites, found: np.ndarray) -> VirtualSites:
    left = np.ones(len(sites), bool)
    left[found] = False
    return _chosen(sites, np.flatnonzero(left))


def _chosen(sites: VirtualSites, index: np.ndarray) -> VirtualSites:
    """These sites, in this order."""
    sizes = np.diff(sites.offset)[index]
    offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(sites.offset[index] - offset[:-1], sizes) + np.arange(offset[-1])
    return VirtualSites(sites.kind[index], offset, sites.atoms[rows], sites.values[rows])


def site_sets(sites: VirtualSites) -> tuple[np.ndarray, VirtualSites]:
    """Sites by the sets that share atoms: (n_sets + 1,) int32, the first of each, and the sites in that order."""
    offset, atoms = update_groups(int(sites.atoms.max()) + 1, sites.links)
    set_of = np.empty(len(atoms), np.int64)
    set_of[atoms] = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
    order = np.argsort(set_of[sites.sites], kind="stable")
    first = np.unique(set_of[sites.sites][order], return_index=True)[1]
    return np.append(first, len(sites)).astype(np.int32), _chosen(sites, order)


class GpuSites:
    """Virtual sites that no rigid water carries along.

    Parameters
    ----------
    device : CudaDevice
    sites : VirtualSites, one at least
    step : device array, the struct ``Step`` of move.cuh
    control : device array, the record of `pulsemd.kernels.update.control`
    fixed : bool
        int64 fixed-point forces and virial (reproducible mode).
    """

    def __init__(self, device: CudaDevice, sites: VirtualSites, step: Any, control: Any, fixed: bool) -> None:
        self.device, self._step, self._control, self._fixed = device, step, control, fixed
        first, sites = site_sets(sites)
        self._n_sets = len(first) - 1
        integers = [device.to_device(a, np.int32) for a in (first, sites.kind, sites.offset, sites.atoms)]
        self._first, *others = integers
        self._table = (*others, device.to_device(sites.values, np.float64))

    def bind_spread(self, slots: Slots, forces: Any, virial: Any) -> Callable[[], None]:
        """A launch that hands the forces of the sites to their parents.

        Parameters
        ----------
        forces : (capacity, 4) float32 or int64, device
            OUTPUT, changed.
        virial : (9,) float64 or int64, device, or None
            OUTPUT, added to.
        """
        kernel = self.device.kernel(sites_program(self._fixed, virial is not None), "spread_sites")
        return kernel.bind(
            self._blocks, GROUP_THREADS, slots.x, forces, self._first, np.int32(self._n_sets), *self._table,
            slots.slot_of_gid, self._step, virial, np.int32(slots.capacity), slots.counters,
        )  # fmt: skip

    def bind_construct(self, slots: Slots, offset: int) -> Callable[[], None]:
        """A launch that puts the sites where they belong, in the step with this offset."""
        return self.device.kernel(sites_program(self._fixed, False), "construct_sites").bind(
            self._blocks, GROUP_THREADS, slots.x, self._first, np.int32(self._n_sets), *self._table,
            slots.slot_of_gid, slots.gid, self._step, self._control, np.int32(offset), np.int32(slots.capacity),
            slots.counters,
        )  # fmt: skip

    @property
    def _blocks(self) -> int:
        return -(-self._n_sets // GROUP_THREADS)
