"""The pair formulas of `formula` as a CUDA header: what is kept of each atom, and the terms of a pair."""

from __future__ import annotations

from functools import cache

from pulsemd.kernels.nonbonded.formula import COMBINATIONS, LENNARD_JONES, electrostatics
from pulsemd.kernels.nonbonded.trace.cuda import (
    ATOM_I,
    ATOM_J,
    PAIR,
    UNIFORM,
    DeviceText,
    Number,
    Trace,
    emit,
)

HEADER = "pair_formula.cuh"
"""Name under which the kernels include it."""

_TEXT = """\
constexpr int I_VALUES = {n_i};
constexpr int J_VALUES = {n_j};

struct PairTerms {{
  float {terms};
}};

DEVICE void keep_of_i(float charge, float first, float second, const PairConstants& k, float (&kept)[I_VALUES]) {{
{i_body}
}}

DEVICE void keep_of_j(float charge, float first, float second, const PairConstants& k, float (&kept)[J_VALUES]) {{
{j_body}
}}

DEVICE PairTerms pair_terms(float r2, const float (&i)[I_VALUES], const float (&j)[J_VALUES], float c6, float c12,
                            const PairConstants& k) {{
{pair_body}
}}
"""


def trace_pair(
    combination: str,
    exact: bool,
    energies: bool,
    polynomial: tuple[float, ...] = (),
    ending: str = "shift",
) -> DeviceText:
    """Trace Lennard-Jones and Coulomb for one combination rule.

    Parameters
    ----------
    combination : {'geometric', 'lorentz-berthelot', 'table'}
        With 'table' the pair's c6 and c12 are arguments.
    exact : bool
        Fix the rounding of every operation; the force then has the same bits with and without energies.
    energies : bool
        Results are force / r [kJ/mol/nm^2] and, if true, the Lennard-Jones and the Coulomb energy [kJ/mol].
    polynomial : tuple of float
        Of `formula.ewald`; empty: reaction field.
    ending : {'shift', 'force-switch', 'potential-switch'}
        How Lennard-Jones ends at the cut-off.
    """
    trace = Trace(reassociate=True, symmetric=exact)
    r2 = trace.leaf("r2", PAIR)
    function, names = LENNARD_JONES[ending]
    leaves = (trace.leaf(f"k.{name}", UNIFORM) for name in ("coulomb_a", "coulomb_b", *names))
    coulomb_a, coulomb_b, *of_ending = leaves
    charges = [trace.leaf("charge", side) for side in (ATOM_I, ATOM_J)]
    c6, c12 = _coefficients(trace, combination)
    qq = charges[0] * charges[1]
    energy_coulomb, force = electrostatics(r2, qq, coulomb_a, coulomb_b, polynomial)
    energy_lj, force_lj = function(r2, c6, c12, *of_ending)
    results = [force + force_lj]
    if energies:
        results += [energy_lj, energy_coulomb]
    return emit(results, [charges[0]], [charges[1]], fuse=exact)


def _coefficients(trace: Trace, combination: str) -> tuple[Number, Number]:
    if combination == "table":
        return trace.leaf("c6", PAIR), trace.leaf("c12", PAIR)
    i, j = ([trace.leaf(name, side) for name in ("first", "second")] for side in (ATOM_I, ATOM_J))
    return COMBINATIONS[combination](*i, *j)


@cache
def pair_header(
    combination: str,
    exact: bool,
    energies: bool,
    polynomial: tuple[float, ...] = (),
    ending: str = "shift",
) -> str:
    """Text of the header; arguments as for `trace_pair`."""
    text = trace_pair(combination, exact, energies, polynomial, ending)
    terms = ("force", "lj", "coulomb") if energies else ("force",)
    return _TEXT.format(
        n_i=len(text.i_values),
        n_j=len(text.j_values),
        terms=", ".join(terms),
        i_body=_kept_body(text.i_values),
        j_body=_kept_body(text.j_values),
        pair_body="\n".join(
            [f"  {line}" for line in text.pair] + [f"  return {{{', '.join(text.results)}}};"]
        ),
    )


def _kept_body(values: tuple[tuple[tuple[str, ...], str], ...]) -> str:
    lines = []
    for k, (statements, expression) in enumerate(values):
        body = " ".join((*statements, f"kept[{k}] = {expression};"))
        lines.append(f"  {{ {body} }}")
    return "\n".join(lines)
