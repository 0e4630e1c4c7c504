"""Constants of the pair potentials from the options of a run, with the meaning GROMACS gives them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pulsemd.base.errors import InputError
from pulsemd.base.units import COULOMB
from pulsemd.kernels.nonbonded.ewald import ewald_coefficient, ewald_polynomial
from pulsemd.kernels.nonbonded.formula import LENNARD_JONES, electrostatics

SWITCHES = ("force-switch", "potential-switch")
"""Values of vdw-modifier by which Lennard-Jones fades out between rvdw-switch and rvdw."""


class PairSettings(Protocol):
    """The options read here; `pulsemd.forcefield.settings.RunSettings` has them all."""

    @property
    def coulombtype(self) -> str: ...
    @property
    def coulomb_modifier(self) -> str: ...
    @property
    def rcoulomb(self) -> float: ...
    @property
    def epsilon_r(self) -> float: ...
    @property
    def epsilon_rf(self) -> float: ...
    @property
    def ewald_rtol(self) -> float: ...
    @property
    def vdwtype(self) -> str: ...
    @property
    def vdw_modifier(self) -> str: ...
    @property
    def rvdw(self) -> float: ...
    @property
    def rvdw_switch(self) -> float: ...


@dataclass(frozen=True)
class PairConstants:
    """What the pair potentials need beside the atoms' own parameters.

    Parameters
    ----------
    cutoff : float, nm
        Pairs act at r < cutoff.
    coulomb_factor : float, kJ mol^-1 nm e^-2
        1/(4 pi eps0 eps_r).
    k_rf, c_rf : float, nm^-3 and nm^-1
    ending : {'shift', 'force-switch', 'potential-switch'}
        How Lennard-Jones ends at the cut-off, see `pulsemd.kernels.nonbonded.formula.LENNARD_JONES`.
    shift6, shift12 : float, nm^-6 and nm^-12
    r_switch : float, nm, where switching begins
    inverse_width : float, 1/nm, of the range of switching
    a6, b6, a12, b12 : float, of a switched force, see `force_switch_constants`
    beta : float, nm^-1
        Ewald splitting parameter; 0: reaction field.
    ewald_shift : float, nm^-1
        Subtracted from erfc(beta r)/r.
    """

    cutoff: float
    coulomb_factor: float
    k_rf: float
    c_rf: float
    ending: str = "shift"
    shift6: float = 0.0
    shift12: float = 0.0
    r_switch: float = 0.0
    inverse_width: float = 0.0
    a6: float = 0.0
    b6: float = 0.0
    a12: float = 0.0
    b12: float = 0.0
    beta: float = 0.0
    ewald_shift: float = 0.0

    @property
    def ewald(self) -> tuple[float, ...]:
        """Polynomial of `formula.ewald`; empty: reaction field."""
        return ewald_polynomial(self.beta * self.cutoff) if self.beta else ()

    @property
    def coulomb_arguments(self) -> tuple[float, float]:
        """Third and fourth argument of `formula.ewald` or `formula.reaction_field`."""
        return (1.0 / self.cutoff, self.ewald_shift) if self.beta else (self.k_rf, self.c_rf)

    @property
    def lennard_jones_arguments(self) -> tuple[float, ...]:
        """The arguments after c6 and c12 of the function of `ending`."""
        return tuple(getattr(self, name) for name in LENNARD_JONES[self.ending][1])

    def coulomb(self, r2: np.ndarray, qq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Energy [kJ/mol] and force over r [kJ/mol/nm^2] of pairs within the cut-off, in float64."""
        return electrostatics(r2, qq, *self.coulomb_arguments, self.ewald)

    def coulomb_shape(self, r: np.ndarray) -> np.ndarray:
        """Energy of two charges over qq, without the constant shift; nm^-1, float64."""
        if self.beta:
            return np.array([math.erfc(self.beta * d) for d in r]) / r
        return 1.0 / r + self.k_rf * r**2

    def lennard_jones(self, r: np.ndarray, c6: np.ndarray | float, c12: np.ndarray | float):
        """Energy [kJ/mol] and force over r [kJ/mol/nm^2] at distances r [nm], as arrays; for r below the cut-off."""
        return LENNARD_JONES[self.ending][0](r * r, c6, c12, *self.lennard_jones_arguments)


def reaction_field_constants(settings: PairSettings) -> tuple[float, float]:
    """(k_rf [nm^-3], c_rf [nm^-1]) of V = qq (1/r + k_rf r^2 - c_rf).

    With 'reaction-field' k_rf = (epsilon_rf - epsilon_r) / ((2 epsilon_rf + epsilon_r) r_c^3), epsilon_rf = 0
    meaning infinity, and c_rf = 1/r_c + k_rf r_c^2 whatever the modifier. With 'cut-off' k_rf = 0, and c_rf
    is 1/r_c with the modifier 'potential-shift' and 0 with 'none' (as measured with gmx 2022.5).
    """
    cutoff = settings.rcoulomb
    if settings.coulombtype == "cut-off":
        return 0.0, 1.0 / cutoff if settings.coulomb_modifier == "potential-shift" else 0.0
    if settings.epsilon_rf == 0.0:
        k_rf = 0.5 / cutoff**3
    else:
        ratio = (settings.epsilon_rf - settings.epsilon_r) / (2.0 * settings.epsilon_rf + settings.epsilon_r)
        k_rf = ratio / cutoff**3
    return k_rf, 1.0 / cutoff + k_rf * cutoff**2


def force_switch_constants(power: int, switch: float, cutoff: float) -> tuple[float, float, float]:
    """(a, b, shift) of the potential r^-p - a/3 (r - r_1)^3 - b/4 (r - r_1)^4 - shift beyond r_1.

    Force, its derivative and energy are zero at the cut-off.

    References
    ----------
    van der Spoel & van Maaren, J. Chem. Theory Comput. 2, 1 (2006), eqs. 5-7.
    """
    p, width = power, cutoff - switch
    a = -p * ((p + 4) * cutoff - (p + 1) * switch) / (cutoff ** (p + 2) * width**2)
    b = p * ((p + 3) * cutoff - (p + 1) * switch) / (cutoff ** (p + 2) * width**3)
    return a, b, cutoff**-p - a / 3.0 * width**3 - b / 4.0 * width**4


def pair_constants(settings: PairSettings) -> PairConstants:
    """Constants of the pair potentials.

    Raises
    ------
    InputError
        If an option has a value that is not supported, or the two cut-offs differ.
    """
    _require("coulombtype", settings.coulombtype, ("reaction-field", "cut-off", "pme"))
    _require("coulomb-modifier", settings.coulomb_modifier, ("potential-shift", "none"))
    _require("vdwtype", settings.vdwtype, ("cut-off",))
    _require("vdw-modifier", settings.vdw_modifier, ("potential-shift", "none", *SWITCHES))
    cutoff = settings.rcoulomb
    if settings.rvdw != cutoff or not cutoff > 0.0:
        raise InputError(
            f"rcoulomb = {cutoff} and rvdw = {settings.rvdw} nm: give both the same positive value"
        )
    lattice_sum = settings.coulombtype == "pme"
    k_rf, c_rf = (0.0, 0.0) if lattice_sum else reaction_field_constants(settings)
    beta = ewald_coefficient(cutoff, settings.ewald_rtol) if lattice_sum else 0.0
    coulomb_shifted = lattice_sum and settings.coulomb_modifier == "potential-shift"
    plain = PairConstants(
        cutoff=cutoff,
        coulomb_factor=COULOMB / settings.epsilon_r if settings.epsilon_r != 0.0 else 0.0,
        k_rf=k_rf,
        c_rf=c_rf,
        beta=beta,
        ewald_shift=math.erfc(beta * cutoff) / cutoff if coulomb_shifted else 0.0,
    )
    if settings.vdw_modifier == "potential-shift":
        return replace(plain, shift6=cutoff**-6, shift12=cutoff**-12)
    return _switched(plain, settings) if settings.vdw_modifier in SWITCHES else plain


def _switched(plain: PairConstants, settings: PairSettings) -> PairConstants:
    """Constants of a switched force or potential."""
    switch, cutoff, modifier = settings.rvdw_switch, settings.rvdw, settings.vdw_modifier
    if not 0.0 <= switch < cutoff:
        raise InputError(
            f"rvdw-switch = {switch} nm: with vdw-modifier = {modifier} it is below rvdw = {cutoff}"
        )
    plain = replace(plain, ending=modifier, r_switch=switch)
    if modifier == "potential-switch":
        return replace(plain, inverse_width=1.0 / (cutoff - switch))
    a6, b6, shift6 = force_switch_constants(6, switch, cutoff)
    a12, b12, shift12 = force_switch_constants(12, switch, cutoff)
    return replace(plain, shift6=shift6, shift12=shift12, a6=a6, b6=b6, a12=a12, b12=b12)


def _require(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} = {value} is not supported; use one of {', '.join(known)}")
