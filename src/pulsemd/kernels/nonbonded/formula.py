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
