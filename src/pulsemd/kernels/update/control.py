"""What a run on a device keeps there so that no step needs the host: the record of control.cuh, on the host."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_RECORD = [
    ("step", "<i8"),
    ("start", "<i8"),
    ("error", "<u8"),
    ("turned", "<u8"),
    ("com", "<f8", 3),
    ("work", "<f8"),
    ("before", "<f8"),
    ("after", "<f8"),
    ("momentum", "<f8", 3),
    ("blocks_done", "<u4"),
    ("n_baths", "<u4"),
    ("before_yz", "<f8", 2),
    ("after_yz", "<f8", 2),
    ("kinetic", "<f8"),
    ("kinetic_yz", "<f8", 2),
    ("work_then", "<f8"),
]
_OF_BATH = ("scale", "kick", "loss", "xi", "friction", "before", "after", "kinetic")
_BATH = np.dtype([(name, "<f8") for name in _OF_BATH])
_WORDS, _WORDS_OF_BATH = np.dtype(_RECORD).itemsize // 8, _BATH.itemsize // 8

NO_ERROR = 2**64 - 1
_COSINE_SCALE = 2.0**30


@cache
def control_type(n_baths: int) -> np.dtype[np.void]:
    """The struct ``Control`` of control.cuh, with the ``baths`` (n_baths,) behind it."""
    return np.dtype([*_RECORD, ("baths", _BATH, (n_baths,))])


def first_control(n_baths: int, kick: float) -> np.ndarray:
    """Words (k,) int64 of the record before the first step; `kick`: see ``Thermostat.kick`` of kinetic.cu."""
    start = np.zeros(1, control_type(n_baths))
    start["error"], start["turned"], start["n_baths"] = NO_ERROR, NO_ERROR, n_baths
    start["baths"]["scale"], start["baths"]["kick"] = 1.0, kick
    return start.view(np.int64)


def as_control(words: np.ndarray) -> np.void:
    """Words of a record, on the host, as the record."""
    n_baths = (len(words) - _WORDS) // _WORDS_OF_BATH
    record: np.void = words.view(control_type(n_baths))[0]
    return record


def heat_words(words: Any) -> tuple[Any, Any]:
    """Views of words of a record, on the host or the device: work, and `xi` and `friction` of each bath."""
    work = np.dtype(_RECORD).fields["work"][1] // 8
    xi = _OF_BATH.index("xi")
    return words[work : work + 1], words[_WORDS:].reshape(-1, _WORDS_OF_BATH)[:, xi : xi + 2]


def turn_in(control: np.void) -> tuple[int, float] | None:
    """Number of a constraint of LINCS that turned by more than lincs-warnangle in a step, and the cosine of the angle,
    the largest so far; None: there is none."""
    word = int(control["turned"])
    return None if word == NO_ERROR else (word & 0xFFFFFFFF, (word >> 32) / _COSINE_SCALE - 1.0)
