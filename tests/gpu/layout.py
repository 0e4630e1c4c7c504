"""Slots as a search leaves them, made on the host for tests of kernels that only read or move atoms."""

from __future__ import annotations

import numpy as np

from pulsemd.kernels.search.gpu_layout import Slots


def shuffled_slots(device, x, seed=0, spare=37):
    """Atoms in random slots with empty ones between; returns the slots and where each atom is."""
    n = len(x)
    capacity = -(-(n + spare) // 64) * 64
    rng = np.random.default_rng(seed)
    where = rng.permutation(capacity)[:n].astype(np.int32)
    gid, source = np.full(capacity, -1, np.int32), np.full(capacity, -1, np.int32)
    gid[where] = source[where] = np.arange(n)
    rows = np.full((capacity, 4), 12345, np.int32)
    rows[where, :3] = x
    arrays = [device.to_device(array) for array in (rows, gid, source, where)]
    return Slots(capacity, capacity, *arrays, device.zeros((capacity, 2), np.float32)), where


def put_forces(device, slots, where, f):
    """Forces (n, 3) of the atoms in an array of slots."""
    rows = np.zeros((slots.capacity, 4), f.dtype)
    rows[where, :3] = f
    return device.to_device(rows)
