"""Constants of the pair potentials from the options of a run, with the meaning GROMACS gives them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pulsemd.base.errors import InputError
from pulsemd.base.units import COULOMB
from pulsemd.kernels.nonbonded.ewald import ewald_coefficient, ewald_polynomial
from pulsemd.kernels.nonbonded.formula import electrostatics


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
    shift6, shift12 : float, nm^-6 and nm^-12
    beta : float, nm^-1
        Ewald splitting parameter; 0: reaction field.
    ewald_shift : float, nm^-1
        Subtracted from erfc(beta r)/r.
    """

    cutoff: float
    coulomb_factor: float
    k_rf: float
    c_rf: float
    shift6: float
    shift12: float
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

    def coulomb(self, r2: np.ndarray, qq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Energy [kJ/mol] and force over r [kJ/mol/nm^2] of pairs within the cut-off, in float64."""
        return electrostatics(r2, qq, *self.coulomb_arguments, self.ewald)

    def coulomb_shape(self, r: np.ndarray) -> np.ndarray:
        """Energy of two charges over qq, without the constant shift; nm^-1, float64."""
        if self.beta:
            return np.array([math.erfc(self.beta * d) for d in r]) / r
        return 1.0 / r + self.k_rf * r**2


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
    _require("vdw-modifier", settings.vdw_modifier, ("potential-shift", "none"))
    cutoff = settings.rcoulomb
    if settings.rvdw != cutoff or not cutoff > 0.0:
        raise InputError(
            f"rcoulomb = {cutoff} and rvdw = {settings.rvdw} nm: give both the same positive value"
        )
    lattice_sum = settings.coulombtype == "pme"
    k_rf, c_rf = (0.0, 0.0) if lattice_sum else reaction_field_constants(settings)
    beta = ewald_coefficient(cutoff, settings.ewald_rtol) if lattice_sum else 0.0
    coulomb_shifted = lattice_sum and settings.coulomb_modifier == "potential-shift"
    shifted = settings.vdw_modifier == "potential-shift"
    return PairConstants(
        cutoff=cutoff,
        coulomb_factor=COULOMB / settings.epsilon_r if settings.epsilon_r != 0.0 else 0.0,
        k_rf=k_rf,
        c_rf=c_rf,
        shift6=cutoff**-6 if shifted else 0.0,
        shift12=cutoff**-12 if shifted else 0.0,
        beta=beta,
        ewald_shift=math.erfc(beta * cutoff) / cutoff if coulomb_shifted else 0.0,
    )


def _require(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} = {value} is not supported; use one of {', '.join(known)}")
