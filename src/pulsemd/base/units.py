"""Physical constants in nm, ps, amu, e, kJ/mol, K, bar (CODATA 2018 values)."""

from typing import Final

BOLTZMANN: Final = 0.00831446261815324
"""Gas constant R [kJ/mol/K]."""

COULOMB: Final = 138.935458
"""1/(4 pi eps0) [kJ mol^-1 nm e^-2]; gmx 2022.5 uses 138.935458, and so do we to compare with it."""

BAR: Final = 16.605390671738466
"""1 kJ mol^-1 nm^-3 in bar."""

ATOMIC_MASS_PER_NM3: Final = 1.6605390671738466
"""1 amu/nm^3 in kg/m^3."""
