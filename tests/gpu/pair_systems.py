"""Pair forces on a device and their float64 reference, computed on the device by a double sum in pieces."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pulsemd.kernels.nonbonded.formula import lennard_jones, reaction_field
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.nonbonded.settings import pair_constants

sys.path.append(str(Path(__file__).resolve().parent.parent / "parity"))

_CHUNK = 2**25  # pairs at a time


@dataclass
class GpuResult:
    """In kJ/mol and nm, by global id; the raw sums too."""

    forces: np.ndarray
    energies: np.ndarray
    raw_forces: np.ndarray
    raw_energies: np.ndarray
    counts: object


def rows_on(device, x, order=None):
    """Positions as rows of four and their global ids, in some order, with rows that hold no atom between."""
    n = len(x)
    order = np.arange(n) if order is None else order
    rows, gid = np.full((n + 5, 4), 77, np.int32), np.full(n + 5, -1, np.int32)
    rows[5:, :3], gid[5:] = x[order], order
    return device.to_device(rows), device.to_device(gid)


def make_forces(device, system, options, table, precision, **shape):
    """`GpuPairForces` of a system of the parity tests."""
    offset, atoms = system.exclusions(np.arange(system.n))
    return GpuPairForces(
        device, table, options, precision, system.type_index, system.charge, offset, atoms, **shape
    )


def evaluate(pair_forces, with_energies=True, prune=False, blocks=None):
    """Forces and energies of the atoms where they are, by global id."""
    device, slots = pair_forces.device, pair_forces.slots
    fast = pair_forces.precision == "fast"
    forces = device.zeros((slots.capacity, 4), np.float32 if fast else np.int64)
    energies = device.zeros(11, np.float64 if fast else np.int64)
    if prune:
        pair_forces.prune()
    pair_forces.forces(forces, energies if with_energies else None, blocks=blocks)
    pair_forces.check()
    raw, sums = device.to_host(forces), device.to_host(energies)
    assert not raw[:, 3].any()
    assert not raw[device.to_host(slots.gid) < 0].any()
    raw = raw[device.to_host(slots.slot_of_gid), :3]
    force_unit, energy_unit = (1.0, 1.0) if fast else (2.0**-32, 2.0**-20)
    return GpuResult(raw * force_unit, sums * energy_unit, raw, sums, pair_forces.pairs.counts)


def compute_on(device, system, options, table, precision, r_list, order=None, shape=(), **how):
    """Search and evaluate once."""
    pair_forces = make_forces(device, system, options, table, precision, **dict(shape))
    pair_forces.search(*rows_on(device, system.x, order), system.box, r_list)
    return evaluate(pair_forces, **how)


def float64_forces(device, x, box, charge, type_index, table, options, excluded, rows):
    """Forces (len(rows), 3) on some atoms, kJ/mol/nm, in float64.

    Parameters
    ----------
    excluded : (k, 2) int, excluded pairs, each in both orders
    rows : (m,) int, atoms whose forces are wanted
    """
    xp, constants = device.xp, pair_constants(options)
    result = np.empty((len(rows), 3))
    with device.current():
        x, box, charge = xp.asarray(x), xp.asarray(box), xp.asarray(charge)
        kinds, c6, c12 = xp.asarray(type_index), xp.asarray(table.c6), xp.asarray(table.c12)
        step = max(1, _CHUNK // len(x))
        for first in range(0, len(rows), step):
            chunk = rows[first : first + step]
            acting = xp.ones((len(chunk), len(x)), bool)
            place = np.full(len(x), -1)
            place[chunk] = np.arange(len(chunk))
            mine = place[excluded[:, 0]] >= 0
            acting[place[excluded[mine, 0]], excluded[mine, 1]] = False
            acting[np.arange(len(chunk)), chunk] = False
            i = xp.asarray(chunk)
            d = ((x[i, None] - x[None]).astype(np.float64) / 2.0**32) @ box
            r2 = (d**2).sum(-1)
            acting &= r2 < constants.cutoff**2
            r2 = xp.where(acting, r2, 1.0)
            shifts = constants.shift6, constants.shift12
            _, force = lennard_jones(r2, c6[kinds[i, None], kinds], c12[kinds[i, None], kinds], *shifts)
            qq = constants.coulomb_factor * charge[i, None] * charge
            force = force + reaction_field(r2, qq, constants.k_rf, constants.c_rf)[1]
            result[first : first + step] = xp.asnumpy(((acting * force)[..., None] * d).sum(1))
    return result
