"""Counter-based random numbers: Philox 4x32-10.

A number depends on (seed, stream, step, id) alone, so any rank can draw it and a restart repeats it.

References
----------
J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11 (2011).
"""

from __future__ import annotations

import math

import numpy as np

_MULTIPLY = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)

STREAM_VELOCITY = 1
STREAM_V_RESCALE = 2
STREAM_BAROSTAT = 3
STREAM_NOISE = 4


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox 4x32-10 of each counter.

    Parameters
    ----------
    counter : (n, 4) integers below 2^32
    key : two integers below 2^32

    Returns
    -------
    (n, 4) uint64, each below 2^32
    """
    c0, c1, c2, c3 = (np.asarray(counter[:, k], dtype=np.uint64) for k in range(4))
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLY[0], c2 * _MULTIPLY[1]
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def uniforms(seed: int, stream: int, step: int, ids: np.ndarray) -> np.ndarray:
    """Four numbers of the open interval (0, 1) for each id, (n, 4) float64.

    `seed` is taken modulo 2^64 together with the stream number as the key; `step` and `ids` make the counter.
    """
    ids = np.asarray(ids, dtype=np.uint64)
    counter = np.empty((len(ids), 4), dtype=np.uint64)
    counter[:, 0], counter[:, 1] = ids & _LOW, ids >> _SHIFT
    counter[:, 2], counter[:, 3] = step & 0xFFFFFFFF, (step >> 32) & 0xFFFFFFFF
    key = (seed & 0xFFFFFFFF, ((seed >> 32) & 0xFFFFFFFF) ^ (stream << 24))
    return (philox(counter, key).astype(np.float64) + 0.5) * 2.0**-32


def normals(seed: int, stream: int, step: int, ids: np.ndarray) -> np.ndarray:
    """Four standard normal numbers for each id, (n, 4) float64 (Box & Muller 1958)."""
    u = uniforms(seed, stream, step, ids)
    radius = np.sqrt(-2.0 * np.log(u[:, 0::2]))
    angle = 2.0 * math.pi * u[:, 1::2]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def gamma(shape: float, seed: int, stream: int, step: int, group: int = 0) -> float:
    """One number of the gamma distribution with the given shape > 0 and scale 1; each group has its own.

    References
    ----------
    G. Marsaglia, W. W. Tsang, ACM Trans. Math. Softw. 26, 363 (2000).
    """
    if shape < 1.0:
        u = float(uniforms(seed, stream, step, np.array([1 + (group << 32)]))[0, 0])
        return gamma_from(shape + 1.0, seed, stream, step, group) * u ** (1.0 / shape)
    return gamma_from(shape, seed, stream, step, group)


def gamma_from(shape: float, seed: int, stream: int, step: int, group: int = 0) -> float:
    """`gamma` for shape >= 1; the draws of attempt k have id 2 + k, and the group's number in its upper half."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(1000):
        u = uniforms(seed, stream, step, np.array([2 + attempt + (group << 32)]))[0]
        z = math.sqrt(-2.0 * math.log(u[0])) * math.cos(2.0 * math.pi * u[1])
        w = 1.0 + c * z
        if w > 0.0 and math.log(u[2]) < 0.5 * z * z + d * (1.0 - w**3 + 3.0 * math.log(w)):
            return d * w**3
    raise ArithmeticError(f"no gamma({shape}) number accepted in 1000 attempts")
