"""Layout constants that the launcher shares with the ranks; needs no compiler."""

from __future__ import annotations

from typing import Final

STRIDE: Final = 16
"""Words between two signals: 128 bytes, since x86 fetches cache lines in pairs."""
