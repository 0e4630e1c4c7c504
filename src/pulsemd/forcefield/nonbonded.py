"""Lennard-Jones parameters of all pairs of atom types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]
Combination = Literal["geometric", "lorentz-berthelot", "table"]


@dataclass(frozen=True, eq=False)
class LennardJonesTable:
    """V(r) = c12 / r^12 - c6 / r^6 for every pair of atom types.

    Parameters
    ----------
    type_names : tuple of str
    c6, c12 : (T, T) float64, kJ/mol nm^6 and kJ/mol nm^12, symmetric
    combination : {'geometric', 'lorentz-berthelot', 'table'}
        The rule that gives every entry: 'geometric' c6_ij = sqrt(c6_ii c6_jj) and likewise c12;
        'lorentz-berthelot' sigma_ij = (sigma_i + sigma_j)/2, epsilon_ij = sqrt(epsilon_i epsilon_j);
        'table' as soon as one pair breaks the rule.
    sigma, epsilon : (T,) float64, nm and kJ/mol
        The types' own parameters, c6 = 4 epsilon sigma^6 and c12 = 4 epsilon sigma^12. Where c6 and c12
        were given and one of them is zero both are zero here: then only ``c6`` and ``c12`` tell.
    """

    type_names: tuple[str, ...]
    c6: Float64
    c12: Float64
    combination: Combination
    sigma: Float64
    epsilon: Float64


def build_table(
    type_names: Sequence[str],
    comb_rule: int,
    first: ArrayLike,
    second: ArrayLike,
    overrides: Mapping[tuple[int, int], tuple[float, float]],
) -> LennardJonesTable:
    """Combine the parameters of atom types as GROMACS does.

    Parameters
    ----------
    type_names : sequence of str, length T
    comb_rule : int
        1: parameters are c6 and c12, combined geometrically. 2: sigma and epsilon, arithmetic sigma and
        geometric epsilon (Lorentz-Berthelot). 3: sigma and epsilon, both geometric.
    first, second : (T,) array_like
        c6 [kJ/mol nm^6] and c12 [kJ/mol nm^12], or sigma [nm] and epsilon [kJ/mol]. A negative sigma means
        its absolute value without dispersion (c6 = 0), and passes that on to every combination.
    overrides : mapping of (i, j) to (first, second)
        Pairs of types given explicitly, in the same kind of parameters.

    References
    ----------
    GROMACS reference manual 2022, section "Parameter files / Non-bonded parameters".
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if comb_rule == 2:
        one, two = 0.5 * (np.abs(a)[:, None] + np.abs(a)[None, :]), _geometric(b)
    else:
        one, two = _geometric(np.abs(a)), _geometric(b)
    if comb_rule != 1:
        one = np.where((a < 0)[:, None] | (a < 0)[None, :], -one, one)
    ruled = _coefficients(comb_rule, one, two)
    one, two = one.copy(), two.copy()
    for (i, j), (p, q) in overrides.items():
        one[i, j] = one[j, i] = p
        two[i, j] = two[j, i] = q
    c6, c12 = _coefficients(comb_rule, one, two)
    combination: Combination = "lorentz-berthelot" if comb_rule == 2 else "geometric"
    if (comb_rule != 1 and bool((a < 0).any())) or not (_same(c6, ruled[0]) and _same(c12, ruled[1])):
        combination = "table"
    sigma, epsilon = _sigma_epsilon(a, b) if comb_rule == 1 else (np.abs(a), b)
    return LennardJonesTable(tuple(type_names), c6, c12, combination, sigma, epsilon)


def _same(x: Float64, y: Float64) -> bool:
    return bool(np.allclose(x, y, rtol=1e-12, atol=0.0))


def _geometric(values: Float64) -> Float64:
    root = np.sqrt(values)
    return root[:, None] * root[None, :]


def _coefficients(comb_rule: int, one: Float64, two: Float64) -> tuple[Float64, Float64]:
    """c6 and c12 from the parameters of pairs; a negative sigma drops c6."""
    if comb_rule == 1:
        return one, two
    power = np.abs(one) ** 6
    return np.where(one < 0, 0.0, 4.0 * two * power), 4.0 * two * power * power


def _sigma_epsilon(c6: Float64, c12: Float64) -> tuple[Float64, Float64]:
    both = (c6 > 0) & (c12 > 0)
    safe6, safe12 = np.where(both, c6, 1.0), np.where(both, c12, 1.0)
    sigma = np.where(both, (safe12 / safe6) ** (1.0 / 6.0), 0.0)
    return sigma, np.where(both, safe6 * safe6 / (4.0 * safe12), 0.0)
