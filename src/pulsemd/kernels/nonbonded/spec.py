"""What distinguishes the compiled variants of the pair kernel, and the memory layout they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsemd.kernels.nonbonded.user_formula import UserFormula

ROWS = 4
"""Atoms of an i-cluster; two consecutive i-clusters share the memory of one j-cluster."""

LANES = 8
"""Atoms of a j-cluster: one vector of float32."""

BLOCK = 3 * LANES
"""Elements of a j-cluster in an array of three components: all x, all y, all z."""

SWITCH_CONSTANTS = ("r_switch", "inverse_width", "a6", "b6", "a12", "b12")
"""Names of the constants of a switched Lennard-Jones potential."""

CONSTANTS = (
    "cutoff2",
    "coulomb_a",
    "coulomb_b",
    "shift6",
    "shift12",
    *SWITCH_CONSTANTS,
    "minimum2",
    "limit2",
)
"""Names of the first elements of the kernel's float32 constants; the box over 2^32 follows, row by row.

The two of Coulomb are `PairConstants.coulomb_arguments`."""

GRID_STEP = 2.0**-23
"""Step [nm] of the grid to which positions are rounded in reproducible mode on a GPU, in boxes up to 256 nm."""

FORCE_LIMIT = {"fast": 2.0**22, "reproducible": 2.0**18}
"""Largest force of one pair [kJ/mol/nm]; beyond it the kernel reports an error (see `PairForces.check`)."""

SINGLE_POINT_LIMIT = 2.0**56
"""The same where nothing moves afterwards: float32 still holds the squares of force over r."""

LIMIT_DISTANCE = 0.1
"""Distance [nm] at which the limit of fast mode holds, which watches force over r."""

MINIMUM_DISTANCE2 = 3.82e-7
"""Smallest r^2 [nm^2] that enters a formula: its -6th power is still a float32. Closer pairs that interact
exceed `FORCE_LIMIT`; those that do not interact give zero instead of 0 * inf."""

TOLERANT_DISTANCE2 = 0.05**2
"""The same, nm^2, in minimisation: the force over r of closer pairs is that of 0.05 nm, which float32 holds for any
atoms, and the energy belongs to it."""

CAPPED_FORCE = 0.984375 * FORCE_LIMIT["reproducible"]
"""Force of one pair [kJ/mol/nm] to which capped kernels reduce a larger one, along its direction."""

TOUCHING2 = 1e-12
"""Smallest r^2 [nm^2] at which a capped force keeps its size; nearer atoms feel less, and on one spot nothing."""

CAPPED_ENERGY = 2.0**30
"""Largest Lennard-Jones energy of one pair [kJ/mol] in capped kernels: half of what fixed point holds."""

CAPPED_DISTANCE = 0.1
"""Distance [nm] below which the work of `CAPPED_FORCE` is added to it, so that it still falls with the distance."""

Precision = Literal["fast", "reproducible"]


@dataclass(frozen=True)
class KernelSpec:
    """One compiled variant of the pair kernel.

    Parameters
    ----------
    precision : {'fast', 'reproducible'}
    combination : {'geometric', 'lorentz-berthelot', 'table', 'types'}
        'types': the formula's arguments are numbers of the first (``_i``) and of the second atom (``_j``).
    displacement : {'relative', 'pairwise'}
        'relative': positions become float32 relative to an atom of the i-cluster, once per tile; needs
        r_list + twice the largest cluster radius <= half the smallest box width. 'pairwise': the integer
        difference of every pair is converted; always right.
    orthorhombic : bool
        The box is diagonal.
    energies : bool
        Energies and virial too; slower, so a variant of its own.
    formula : UserFormula or None
        In place of Lennard-Jones.
    shifted : bool
        The formula's energy is shifted to zero at the cut-off.
    ewald : tuple of float
        Polynomial of `formula.ewald`; empty: reaction field.
    ending : {'shift', 'force-switch', 'potential-switch'}
        How Lennard-Jones ends at the cut-off.
    capped : bool
        In reproducible mode pair forces end at `CAPPED_FORCE`, so that minimisation can begin from overlaps.
    """

    precision: Precision
    combination: str
    displacement: Literal["relative", "pairwise"]
    orthorhombic: bool
    energies: bool
    formula: UserFormula | None = None
    shifted: bool = False
    ewald: tuple[float, ...] = ()
    ending: str = "shift"
    capped: bool = False

    @property
    def n_parameters(self) -> int:
        """Numbers of a pair of types in the table."""
        return 2 if self.formula is None else len(self.formula.arguments)

    @property
    def all_masked(self) -> bool:
        """Every tile carries its bitmask of pairs."""
        return self.precision == "reproducible"
