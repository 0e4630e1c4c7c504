"""Forces of the ranks of a decomposition, computed one rank after the other on one device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pulsemd.base.fixed_point import ENERGY_SCALE, FORCE_SCALE
from pulsemd.domain.grid import Grid
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.gpu_region import device_leaders, region_of
from pulsemd.engine.terms import TermOwnership
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.plan.cut import all_domains


@dataclass
class Parts:
    """Sums over ranks, raw and in kJ/mol and nm; counts of pairs, excluded pairs and terms."""

    forces: np.ndarray
    sums: np.ndarray
    raw: np.ndarray
    pairs: int
    excluded: int
    exclusion_terms: int
    terms: np.ndarray


def domains_of(system, shape, r_list, kind="staged"):
    """The grid and the `LocalDomain` of every rank."""
    grid, extent = Grid(shape), TermOwnership(system).start_extent(system)
    return grid, all_domains(system, grid, r_list, extent, kind)


class RankForces:
    """Everything that gives forces on one rank; without a region on the only rank."""

    def __init__(self, device, system, precision, region=None):
        topology, fixed = system.topology, precision == "reproducible"
        exclusions = topology.exclusion_offset, topology.exclusion_atoms
        self.device, self.system, self.fixed = device, system, fixed
        self.pairs = GpuPairForces(
            device, system.table, system.settings, precision, topology.type_index, topology.charge,
            *exclusions, region=region,
        )  # fmt: skip
        constants = self.pairs.constants
        self.exclusions = GpuExclusions(
            device, *exclusions, topology.settle_atoms, system.box, constants, fixed
        )
        self.bonded = GpuBonded(
            device, topology.terms, topology.charge, constants.coulomb_factor, SLOTS, VIRIAL,
            system.reference, system.box, fixed,
        )  # fmt: skip
        self.stream = device.new_stream(-1)

    def arrays(self):
        slots = self.pairs.slots
        self.f = self.device.zeros((slots.capacity, 4), np.int64 if self.fixed else np.float32)
        self.sums = self.device.zeros(N_SUMS, np.int64 if self.fixed else np.float64)
        return slots, self.f, self.sums

    def only(self, r_list, prune=False):
        """Forces of all atoms on one rank, by global id."""
        system, device = self.system, self.device
        x = np.zeros((len(system.x), 4), np.int32)
        x[:, :3] = system.x
        gid = device.to_device(np.arange(len(x), dtype=np.int32))
        counts = self.pairs.search(device.to_device(x), gid, system.box, r_list)
        slots, f, sums = self.arrays()
        self.exclusions.settle_in(slots, f, sums)
        self.bonded.settle_in(slots, f, sums)
        self.exclusions.start_forces(True, False)
        if prune:
            self.pairs.prune()
        self.pairs.forces(f, sums[:N_PAIR_SUMS])
        if self.bonded.n_terms:
            self.bonded.add_forces(True)
        rows = device.to_host(f)[device.to_host(slots.slot_of_gid), :3]
        return rows, device.to_host(sums), counts

    def search(self, domain, r_list, r_inner=None):
        device = self.device
        x = np.zeros((domain.n_local, 4), np.int32)
        x[:, :3] = self.system.x[domain.gid]
        self.pairs.search(
            device.to_device(x), device.to_device(domain.gid), self.system.box, r_list, r_inner,
            domain.n_owned, device_leaders(device, domain),
        )  # fmt: skip
        slots, f, sums = self.arrays()
        self.exclusions.settle_in(slots, f, sums)
        self.exclusions.settle_in_ghosts(slots, f, sums, self.stream)
        if self.bonded.n_terms:
            self.bonded.settle_in_part(slots, f, sums, self.stream)
        self.bonded.choose()
        self.exclusions.count_pairs()
        chosen = device.to_host(self.bonded.chosen) if self.bonded.n_terms else np.zeros((1, 0), np.int32)
        self.terms = chosen.sum(0, dtype=np.int64)

    def local(self, energies=True, prune=False):
        self.exclusions.start_forces(energies, False)
        if prune:
            self.pairs.prune()
        self.pairs.forces(self.f, self.sums[:N_PAIR_SUMS] if energies else None)
        if self.bonded.n_terms:
            self.bonded.add_part(0, energies)

    def nonlocal_(self, energies=True, prune=False):
        device = self.device
        device.fork(self.stream)
        self.exclusions.start_ghost_forces(energies)
        totals = self.sums[:N_PAIR_SUMS] if energies else None
        if prune:
            self.pairs.prune(1, self.stream)
        self.pairs.forces(self.f, totals, part=1, stream=self.stream)
        if self.bonded.n_terms:
            self.bonded.add_part(1, energies)
        device.join(self.stream)


def forces_of_ranks(device, system, shape, r_list, precision, kind="staged", prune=False):
    """`Parts` of a decomposition."""
    grid, domains = domains_of(system, shape, r_list, kind)
    fixed = precision == "reproducible"
    raw = np.zeros((len(system.x), 3), np.int64 if fixed else np.float64)
    total, pairs, excluded, exclusion_terms, terms = 0, 0, 0, 0, 0
    for rank, domain in enumerate(domains):
        region = region_of(grid, rank, system.box, r_list, domain.halo_width)
        part = RankForces(device, system, precision, region)
        part.search(domain, r_list, 0.5 * (system.settings.rcoulomb + r_list) if prune else None)
        part.local(prune=prune)
        part.nonlocal_(prune=prune)
        if prune:  # once more with what the pruning kept
            device.clear(part.f)
            device.clear(part.sums)
            part.local()
            part.nonlocal_()
        slots = part.pairs.slots
        rows = device.to_host(part.f)[device.to_host(slots.slot_of_gid)[domain.gid], :3]
        np.add.at(raw, domain.gid, rows)
        total = total + device.to_host(part.sums)
        pairs += sum(counts.pairs for counts in part.pairs.pairs.all_counts)
        excluded += sum(counts.excluded for counts in part.pairs.pairs.all_counts)
        exclusion_terms += int(device.to_host(part.exclusions.pairs_found)[0])
        terms = terms + part.terms
    units = (FORCE_SCALE, ENERGY_SCALE) if fixed else (1.0, 1.0)
    return Parts(raw / units[0], total / units[1], raw, pairs, excluded, exclusion_terms, terms)
