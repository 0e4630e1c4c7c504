"""A System while it is being read: what its particles and forces said, over all atoms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.document import Force
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.topology.virtual_sites import Site

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

Coefficients = Callable[[Float64], tuple[Float64, Float64]]
"""From columns of types (T, p) to c6 and c12 of their pairs (T, T)."""


@dataclass(frozen=True)
class PairPart:
    """What one force adds to the pair potential other than Coulomb.

    Parameters
    ----------
    force : Force
    columns : (n, p) float64
        Parameters of every particle.
    coefficients : function
        c6 and c12 from the columns of types; None for a potential of another form.
    potential : function
        The potential of another form, from the columns of types, c6 and c12 (T, T) of Lennard-Jones to be added, and
        the distance from which both are switched off.
    switch : float or None
        Distance from which it is switched off, nm.
    corrected : bool
        Whether the pairs beyond the cut-off count, by a mean value.
    """

    force: Force
    columns: Float64
    coefficients: Coefficients | None
    switch: float | None
    corrected: bool
    potential: Callable[[Float64, Float64, Float64, float | None], PairPotential] | None = None


@dataclass
class SystemDraft:
    """Everything that forces give; `bonded` by kind of term, in the units of `pulsemd.topology.terms`."""

    file: str | None
    mass: Float64
    constraints: Int32
    lengths: Float64
    sites: list[Site]
    charge: Float64
    bonded: dict[str, list[tuple[Int32, Float64]]] = field(default_factory=dict)
    pair_parts: list[PairPart] = field(default_factory=list)
    excluded: list[tuple[Force, Int32]] = field(default_factory=list)
    """Excluded pairs of each force with pairs."""
    cutoffs: list[tuple[Force, float]] = field(default_factory=list)
    electrostatics: Force | None = None
    """The force that has the charges."""
    reference: Float64 | None = None
    """(n, 3) nm, of restrained particles."""
    run: dict[str, Force] = field(default_factory=dict)
    """Forces that say how to run, by class."""
    reading: Force | None = None
    """The force whose terms are being added."""
    within: list[tuple[Force, Int32, float]] = field(default_factory=list)
    """Pairs (m, 2) whose terms hold up to a distance, nm."""
    constant: float = 0.0
    """Energy that depends on nothing, kJ/mol."""
    at_coordinates: list[tuple[Force, Int32]] = field(default_factory=list)
    """Atoms of terms that OpenMM takes at their coordinates, not at the nearest image."""

    @property
    def n_atoms(self) -> int:
        """Particles of the system."""
        return len(self.mass)

    def add(self, kind: str, atoms: Int32, parameters: Float64) -> None:
        """Add terms of a kind; those without effect are left out by the caller."""
        if len(atoms):
            self.bonded.setdefault(kind, []).append((atoms, parameters))
            if self.reading is not None and not self.reading.periodic:
                self.at_coordinates.append((self.reading, atoms))
