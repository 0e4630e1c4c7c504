"""Pair potentials as plain Python: the one place where the physics of a pair is written.

Each function takes r^2 and parameters and returns ``(energy, force_over_r)``; the force on i from j is
``force_over_r * (x_i - x_j)``. The same functions run on NumPy float64 arrays, where they are the oracle of
the tests, and on the traced vectors of `pulsemd.kernels.nonbonded.trace`, where they become vector code.
"""

from __future__ import annotations

import numpy as np


def rsqrt(x):
    """1/sqrt(x) of a number, an array or a traced vector."""
    return x.rsqrt() if hasattr(x, "rsqrt") else 1.0 / np.sqrt(x)


def sqrt(x):
    """Square root of a number, an array or a traced vector."""
    return x.sqrt() if hasattr(x, "sqrt") else np.sqrt(x)


def exp(x):
    """Exponential of a number, an array or a traced vector."""
    return x.exp() if hasattr(x, "exp") else np.exp(x)


def minimum(a, b):
    """The smaller of two; of numbers, arrays or traced vectors."""
    return where(a < b, a, b)


def maximum(a, b):
    """The larger of two; of numbers, arrays or traced vectors."""
    return where(a > b, a, b)


def where(condition, a, b):
    """``a`` where the condition holds, else ``b``; of numbers, arrays or traced vectors."""
    return condition.select(a, b) if hasattr(condition, "select") else np.where(condition, a, b)


def lennard_jones(r2, c6, c12, shift6, shift12):
    """Lennard-Jones energy and force.

    V(r) = c12 (r^-12 - shift12) - c6 (r^-6 - shift6).

    Parameters
    ----------
    r2 : squared distance, nm^2
    c6, c12 : kJ/mol nm^6 and kJ/mol nm^12
    shift6, shift12 : nm^-6 and nm^-12
        r_c^-6 and r_c^-12 for a potential that is zero at the cut-off r_c, or zero.

    Returns
    -------
    energy, force_over_r : kJ/mol and kJ/mol/nm^2

    References
    ----------
    Allen & Tildesley, Computer Simulation of Liquids, 2nd ed. (2017), eq. 1.6.
    """
    inverse = rsqrt(r2)
    inverse2 = inverse * inverse
    inverse6 = inverse2 * inverse2 * inverse2
    repulsion = c12 * inverse6
    energy = c12 * (inverse6 * inverse6 - shift12) - c6 * (inverse6 - shift6)
    force_over_r = (12.0 * repulsion - 6.0 * c6) * inverse6 * inverse2
    return energy, force_over_r


def lennard_jones_force_switch(r2, c6, c12, shift6, shift12, r_switch, a6, b6, a12, b12):
    """Lennard-Jones whose force goes smoothly to zero between r_1 and the cut-off.

    V(r) = c12 S_12(r) - c6 S_6(r) with S_p = r^-p - shift_p - a_p/3 x^3 - b_p/4 x^4 and x = max(r - r_1, 0), so that
    the force of S_p is p r^(-p-1) + a_p x^2 + b_p x^3.

    Parameters
    ----------
    r2, c6, c12 : as in `lennard_jones`
    shift6, shift12 : nm^-6 and nm^-12
        What makes the energy zero at the cut-off.
    r_switch : r_1, nm
    a6, b6, a12, b12 : nm^(-p-3) and nm^(-p-4)
        See `pulsemd.kernels.nonbonded.settings.force_switch_constants`.

    Returns
    -------
    energy, force_over_r : kJ/mol and kJ/mol/nm^2

    References
    ----------
    van der Spoel & van Maaren, J. Chem. Theory Comput. 2, 1 (2006), eqs. 3-7.
    """
    inverse = rsqrt(r2)
    inverse2 = inverse * inverse
    inverse6 = inverse2 * inverse2 * inverse2
    x = maximum(r2 * inverse - r_switch, 0.0)
    x2 = x * x
    repulsion = c12 * inverse6
    energy6 = shift6 + x2 * x * (a6 * (1.0 / 3.0) + x * (b6 * 0.25))
    energy12 = shift12 + x2 * x * (a12 * (1.0 / 3.0) + x * (b12 * 0.25))
    energy = (repulsion - c6) * inverse6 - (c12 * energy12 - c6 * energy6)
    added = c12 * (x2 * (a12 + x * b12)) - c6 * (x2 * (a6 + x * b6))
    force_over_r = (12.0 * repulsion - 6.0 * c6) * inverse6 * inverse2 + added * inverse
    return energy, force_over_r


def lennard_jones_potential_switch(r2, c6, c12, r_switch, inverse_width):
    """Lennard-Jones times a function that goes smoothly from 1 at r_1 to 0 at the cut-off.

    V(r) = (c12 / r^12 - c6 / r^6) (1 - 10 y^3 + 15 y^4 - 6 y^5) with y = max(r - r_1, 0) / (r_c - r_1). Written in
    1 - y, which loses no digits near the cut-off.

    Parameters
    ----------
    r2, c6, c12 : as in `lennard_jones`
    r_switch : r_1, nm
    inverse_width : 1 / (r_c - r_1), 1/nm

    Returns
    -------
    energy, force_over_r : kJ/mol and kJ/mol/nm^2

    References
    ----------
    GROMACS reference manual 2022, "Modified non-bonded interactions"; OpenMM user guide, "Lennard-Jones Interaction".
    """
    inverse = rsqrt(r2)
    inverse2 = inverse * inverse
    inverse6 = inverse2 * inverse2 * inverse2
    y = maximum((r2 * inverse - r_switch) * inverse_width, 0.0)
    z = 1.0 - y
    z2 = z * z
    factor = z2 * z * (10.0 + z * (6.0 * z - 15.0))
    slope = 30.0 * (z2 * (y * y)) * inverse_width
    repulsion = c12 * inverse6
    energy = (repulsion - c6) * inverse6
    force_over_r = (12.0 * repulsion - 6.0 * c6) * inverse6 * inverse2 * factor + energy * (slope * inverse)
    return energy * factor, force_over_r


LENNARD_JONES = {
    "shift": (lennard_jones, ("shift6", "shift12")),
    "force-switch": (
        lennard_jones_force_switch,
        ("shift6", "shift12", "r_switch", "a6", "b6", "a12", "b12"),
    ),
    "potential-switch": (lennard_jones_potential_switch, ("r_switch", "inverse_width")),
}
"""Lennard-Jones by how it ends at the cut-off: the function, and its arguments after c6 and c12, which are names of
`pulsemd.kernels.nonbonded.settings.PairConstants`. 'shift' with shifts of zero is a plain cut-off."""


def reaction_field(r2, qq, k_rf, c_rf):
    """Coulomb energy and force in a dielectric continuum beyond the cut-off.

    V(r) = qq (1/r + k_rf r^2 - c_rf).

    Parameters
    ----------
    r2 : squared distance, nm^2
    qq : kJ/mol nm
        Product of the two charges times 1/(4 pi eps0 eps_r).
    k_rf, c_rf : nm^-3 and nm^-1
        See `pulsemd.kernels.nonbonded.settings.reaction_field_constants`.

    Returns
    -------
    energy, force_over_r : kJ/mol and kJ/mol/nm^2

    References
    ----------
    Tironi, Sperb, Smith & van Gunsteren, J. Chem. Phys. 102, 5451 (1995).
    """
    inverse = rsqrt(r2)
    energy = qq * (inverse + k_rf * r2 - c_rf)
    force_over_r = qq * (inverse * (inverse * inverse) - 2.0 * k_rf)
    return energy, force_over_r


def ewald(r2, qq, per_cutoff, shift, polynomial):
    """Real-space part of an Ewald sum, energy and force.

    V(r) = qq (erfc(beta r)/r - shift), with erf(beta r)/r and its derivative by a polynomial in
    s = 2 (r/r_c)^2 - 1: force and energy are good to 5e-7 beta^3 qq and 5e-7 beta qq for r <= r_c.

    Parameters
    ----------
    r2 : squared distance, nm^2
    qq : kJ/mol nm
        Product of the two charges times 1/(4 pi eps0 eps_r).
    per_cutoff : 1/r_c, nm^-1
    shift : nm^-1
    polynomial : sequence of float
        See `pulsemd.kernels.nonbonded.ewald.ewald_polynomial`.

    Returns
    -------
    energy, force_over_r : kJ/mol and kJ/mol/nm^2

    References
    ----------
    Essmann, Perera, Berkowitz, Darden, Lee & Pedersen, J. Chem. Phys. 103, 8577 (1995).
    """
    inverse = rsqrt(r2)
    s = r2 * (2.0 * per_cutoff * per_cutoff) - 1.0
    energy_at_middle, *series = polynomial
    integral = [energy_at_middle, *(-0.25 * c / (k + 1) for k, c in enumerate(series))]
    energy = qq * (inverse - per_cutoff * horner(integral, s) - shift)
    cubed = per_cutoff * per_cutoff * per_cutoff
    force_over_r = qq * (inverse * (inverse * inverse) - cubed * horner(series, s))
    return energy, force_over_r


def electrostatics(r2, qq, a, b, polynomial):
    """`ewald`, or without a polynomial `reaction_field`; ``a`` and ``b`` are their constants."""
    return ewald(r2, qq, a, b, polynomial) if polynomial else reaction_field(r2, qq, a, b)


def horner(coefficients, x):
    """Polynomial with coefficients of rising powers of x."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = x * total + coefficient
    return total


def coulomb(r2, qq):
    """Plain Coulomb energy and force, V(r) = qq / r; parameters as in `reaction_field`."""
    inverse = rsqrt(r2)
    return qq * inverse, qq * (inverse * (inverse * inverse))


def combine_geometric(root6_i, root12_i, root6_j, root12_j):
    """(c6, c12) of two types from the square roots of their own c6 and c12."""
    return root6_i * root6_j, root12_i * root12_j


def combine_lorentz_berthelot(half_sigma_i, root_i, half_sigma_j, root_j):
    """(c6, c12) of two types from sigma/2 [nm] and 2 sqrt(epsilon) [(kJ/mol)^(1/2)] of each.

    sigma_ij = (sigma_i + sigma_j) / 2 and epsilon_ij = sqrt(epsilon_i epsilon_j).
    """
    sigma = half_sigma_i + half_sigma_j
    sigma2 = sigma * sigma
    sigma6 = sigma2 * sigma2 * sigma2
    c6 = (root_i * root_j) * sigma6
    return c6, c6 * sigma6


COMBINATIONS = {"geometric": combine_geometric, "lorentz-berthelot": combine_lorentz_berthelot}
"""Rules that give (c6, c12) from two numbers per atom; 'table' looks them up by the pair of types."""
