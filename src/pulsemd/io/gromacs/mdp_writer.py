"""Run settings as the text of an .mdp file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from pulsemd.base.errors import InputError
from pulsemd.forcefield.settings import RunSettings

DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(RunSettings) if f.default is not MISSING}
"""What settings are if a file does not say."""

OF_GROUPS = frozenset(("tau_t", "ref_t"))
"""One value for each of tc_grps."""

OF_BAROSTAT = ("pcoupltype", "nstpcouple", "tau_p", "compressibility", "ref_p")
"""Options that mean nothing without a barostat."""


def to_mdp(settings: RunSettings) -> str:
    """Write settings as the text of a .mdp file that reads back to the same."""
    lines = []
    for name, default in DEFAULTS.items():
        value = getattr(settings, name)
        if name == "ignored" or (value == default and isinstance(default, tuple)):
            continue
        if not settings.has_temperature and name in ("tc_grps", "tau_t", "ref_t"):
            continue
        if settings.pcoupl == "no" and name in OF_BAROSTAT:
            continue
        alike = name in OF_GROUPS and not isinstance(value, tuple)
        times = len(settings.tc_grps) if alike else 1  # one value for each group
        lines.append(f"{name.replace('_', '-'):<24} = {' '.join([word_of(name, value)] * times)}")
    return "\n".join(lines) + "\n"


def word_of(name: str, value: object) -> str:
    """Write the value of an option.

    Raises
    ------
    InputError
        If it has a unit.
    """
    if hasattr(value, "value_in_unit"):
        raise InputError(
            f"{name} = {value}: a number without unit is expected, of nm, ps, amu, e, K, kJ/mol and bar"
        )
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        flag = {"include": "-I", "define": "-D"}.get(name, "")
        words = [word_of(name, word) for word in value]
        return " ".join(word if word.startswith(flag) else flag + word for word in words)
    return str(value)
