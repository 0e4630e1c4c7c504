"""Friction and noise of stochastic dynamics.

A velocity loses a part of itself and gets a random number of the same temperature; the number depends on the seed, the
step and the atom alone, so any rank draws it and a restart repeats it. Normal numbers come from a table, by the upper
14 bits of a word: the same bits on every processor, which logarithms and cosines do not promise.

References
----------
N. Goga et al., J. Chem. Theory Comput. 8, 3637 (2012); the table is that of gmx 2022 (TabulatedNormalDistribution).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numba import njit

from pulsemd.kernels.update.philox import STREAM_NOISE

TABLE_BITS = 14

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_WORD_SHIFT = np.uint64(32 - TABLE_BITS)
_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_STREAM = np.uint64(STREAM_NOISE << 24)


@cache
def normal_table() -> np.ndarray:
    """Normal numbers of equal probability, mean 0 and variance 1, (2^14,) float64; one half mirrors the other."""
    half, inverse = 1 << (TABLE_BITS - 1), NormalDist().inv_cdf
    upper = np.array([inverse(0.5 + (k + 0.5) / (2 * half)) for k in range(half)])
    upper /= np.sqrt((upper**2).mean())
    return np.concatenate([-upper[::-1], upper])


@njit(cache=True, nogil=True)
def _words(seed, step, gid):
    """Philox 4x32-10 as in philox.py, of one atom."""
    c0, c1 = np.uint64(gid), np.uint64(0)
    c2, c3 = np.uint64(step) & _LOW, np.uint64(step) >> _SHIFT
    k0, k1 = np.uint64(seed) & _LOW, (np.uint64(seed) >> _SHIFT) ^ _STREAM
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLY_0, c2 * _MULTIPLY_1
        c0, c1, c2, c3 = (p1 >> _SHIFT) ^ c1 ^ k0, p1 & _LOW, (p0 >> _SHIFT) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    return c0, c1, c2


@njit(cache=True, nogil=True, error_model="numpy")
def friction_and_noise(v, gid, n_owned, mass, group, keep, noise, seed, step, table, out):
    """What friction and noise add to the velocities of the owned atoms.

    Parameters
    ----------
    v : (n_owned, 3) float32, nm/ps
    gid : (n_local,) int32
    mass : (n_local,) float64, amu; 0: nothing is added
    group : (n_atoms,) int32, coupling group of each atom, by global id
    keep, noise : (groups,) float64
        Share of a velocity that a step leaves; standard deviation of the noise times the root of the mass.
    seed, step : int
    table : of `normal_table`
    out : (n_owned, 3) float32
        OUTPUT
    """
    for r in range(n_owned):
        if mass[r] == 0.0:
            out[r, 0], out[r, 1], out[r, 2] = 0.0, 0.0, 0.0
            continue
        a, b, c = _words(seed, step, gid[r])
        g = group[gid[r]]
        lost, width = keep[g] - 1.0, noise[g] / np.sqrt(mass[r])
        out[r, 0] = lost * v[r, 0] + width * table[a >> _WORD_SHIFT]
        out[r, 1] = lost * v[r, 1] + width * table[b >> _WORD_SHIFT]
        out[r, 2] = lost * v[r, 2] + width * table[c >> _WORD_SHIFT]


@dataclass(frozen=True, eq=False)
class Bath:
    """Friction and noise by coupling group.

    Parameters
    ----------
    group : (n_atoms,) int32, by global id
    keep : (groups,) float64
        Share of a velocity that a step leaves, exp(-dt / tau).
    noise : (groups,) float64, sqrt(kJ/mol)
        Standard deviation of the noise times the root of the mass, sqrt(kT (1 - keep^2)).
    seed : int
    """

    group: np.ndarray
    keep: np.ndarray
    noise: np.ndarray
    seed: int

    def change(
        self,
        v: np.ndarray,
        gid: np.ndarray,
        mass: np.ndarray,
        step: int,
    ) -> np.ndarray:
        """What a step adds to the velocities (n_owned, 3), nm/ps, of the first rows of `gid` and `mass`."""
        added = np.empty_like(v)
        table = normal_table()
        friction_and_noise(
            v, gid, len(v), mass, self.group, self.keep, self.noise, self.seed, step, table, added
        )
        return added
