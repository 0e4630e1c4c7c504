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
from pulsemd.kernels.nonbonded.user_formula import UserFormula

HEADER = "pair_formula.cuh"
"""Name under which the kernels include it."""

_TEXT = """\
constexpr int I_VALUES = {n_i};
constexpr int J_VALUES = {n_j};
constexpr int PAIR_VALUES = {n_pair};

struct PairTerms {{
  float {terms};
}};

DEVICE void keep_of_i(float charge, float first, float second, const PairConstants& k, float (&kept)[I_VALUES]) {{
{i_body}
}}

DEVICE void keep_of_j(float charge, float first, float second, const PairConstants& k, float (&kept)[J_VALUES]) {{
{j_body}
}}

DEVICE PairTerms pair_terms(float r2, const float (&i)[I_VALUES], const float (&j)[J_VALUES],
                            const float (&pair)[PAIR_VALUES], const PairConstants& k) {{
{pair_body}
}}
"""


def trace_pair(
    combination: str,
    exact: bool,
    energies: bool,
    polynomial: tuple[float, ...] = (),
    ending: str = "shift",
    user: UserFormula | None = None,
    shifted: bool = False,
) -> DeviceText:
    """Trace Coulomb and Lennard-Jones, or what is in its place, for one combination rule.

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
    user : UserFormula, optional
        In place of Lennard-Jones; it is written as it stands, with its arguments from the table of pairs of types.
    shifted : bool
        Its energy is shifted to zero at the cut-off.
    """
    trace = Trace(reassociate=user is None, symmetric=exact)
    r2 = trace.leaf("r2", PAIR)
    coulomb_a, coulomb_b = (trace.leaf(f"k.{name}", UNIFORM) for name in ("coulomb_a", "coulomb_b"))
    charges = [trace.leaf("charge", side) for side in (ATOM_I, ATOM_J)]
    qq = charges[0] * charges[1]
    energy_coulomb, force = electrostatics(r2, qq, coulomb_a, coulomb_b, polynomial)
    if user is None:
        function, names = LENNARD_JONES[ending]
        of_ending = (trace.leaf(f"k.{name}", UNIFORM) for name in names)
        energy_lj, force_lj = function(r2, *_coefficients(trace, combination), *of_ending)
    else:
        energy_lj, force_lj = _van_der_waals(trace, r2, user, shifted)
    results = [force + force_lj]
    if energies:
        results += [energy_lj, energy_coulomb]
    return emit(results, [charges[0]], [charges[1]], fuse=exact and user is None)


def pair_values(user: UserFormula | None) -> int:
    """Numbers of a pair of types in the table: c6 and c12, or 1 and the arguments, made even."""
    return 2 if user is None else 2 * (len(user.arguments) // 2 + 1)


def _van_der_waals(trace: Trace, r2: Number, user: UserFormula, shifted: bool) -> tuple[Number, Number]:
    """Energy and force over r of a user's formula, 0 where the first number of the table is: at empty places."""
    exists, *arguments = (trace.leaf(f"pair[{k}]", PAIR) for k in range(1 + len(user.arguments)))
    energy, force = user(r2, *arguments)
    if shifted:
        energy = energy - user(trace.leaf("k.cutoff2", UNIFORM), *arguments)[0]
    return (exists > 0.0).select(energy, 0.0), (exists > 0.0).select(force, 0.0)


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
    user: UserFormula | None = None,
    shifted: bool = False,
) -> str:
    """Text of the header; arguments as for `trace_pair`."""
    text = trace_pair(combination, exact, energies, polynomial, ending, user, shifted)
    named = ["const float c6 = pair[0], c12 = pair[1];"] if combination == "table" and user is None else []
    terms = ("force", "lj", "coulomb") if energies else ("force",)
    return _TEXT.format(
        n_i=len(text.i_values),
        n_j=len(text.j_values),
        n_pair=pair_values(user),
        terms=", ".join(terms),
        i_body=_kept_body(text.i_values),
        j_body=_kept_body(text.j_values),
        pair_body="\n".join(
            [f"  {line}" for line in (*named, *text.pair)] + [f"  return {{{', '.join(text.results)}}};"]
        ),
    )


def _kept_body(values: tuple[tuple[tuple[str, ...], str], ...]) -> str:
    lines = []
    for k, (statements, expression) in enumerate(values):
        body = " ".join((*statements, f"kept[{k}] = {expression};"))
        lines.append(f"  {{ {body} }}")
    return "\n".join(lines)
