"""Energy and pressure of what a cut-off takes away from the attraction of atoms, in a homogeneous system."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DispersionCorrection:
    """A correction that depends on the volume V alone: energy ``constant + per_density / V``.

    Parameters
    ----------
    constant : float, kJ/mol
    per_density : float, kJ/mol nm^3
    virial : float, kJ/mol nm^3
        The virial, a multiple of the unit matrix, is this over V; the pressure this over V^2.
    """

    constant: float
    per_density: float
    virial: float

    def energy(self, volume: float) -> float:
        """Energy, kJ/mol, in a volume in nm^3."""
        return self.constant + self.per_density / volume

    def pressure(self, volume: float) -> float:
        """Pressure, kJ/mol/nm^3, in a volume in nm^3."""
        return self.virial / volume**2
