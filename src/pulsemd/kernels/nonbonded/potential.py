"""A user's pair potential with its parameters, and what it is for the atom types of a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pulsemd.base.errors import InputError
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.nonbonded.trace.vector import check_traceable
from pulsemd.kernels.nonbonded.user_formula import UserFormula, capture

SLOTS = 2
"""Numbers that the kernel keeps of each atom beside its charge."""

_POINTS = 200
_NEAREST = 0.25  # of the cut-off: where the check of the derivative begins
_STEP = 1e-5  # of the distance
_TOLERANCE = 1e-4
_AT_ONCE = 1024  # pairs of types
_KINKS = 0.02  # share of points at which a piecewise potential may disagree


class PairPotential:
    """A pair potential in Python that takes the place of Lennard-Jones.

    Parameters
    ----------
    function : ``f(r2, ...) -> (energy, force_over_r)``
        r2 in nm^2, energy in kJ/mol, force_over_r = -(dV/dr)/r in kJ/mol/nm^2; ordinary arithmetic,
        `where` for conditions, `sqrt`, `rsqrt`, `exp`. It is traced into vector code. A `UserFormula` is its text.
    parameters : mapping of name to value, optional
        Of the function's arguments after r2: a number; a mapping of pairs of atom types to numbers; or a
        (T, T) array in the order of the atom types. For arguments ``a_i`` and ``a_j``, ``a`` is a mapping of
        atom types to numbers. Arguments that are absent and called c6, c12, sigma or epsilon (also with _i, _j)
        come from the force field.

    Raises
    ------
    InputError
        If the function cannot be traced; names the operation.

    Examples
    --------
    >>> def my_lj(r2, c6, c12):
    ...     inverse6 = 1.0 / (r2 * r2 * r2)
    ...     energy = (c12 * inverse6 - c6) * inverse6
    ...     return energy, (12.0 * c12 * inverse6 - 6.0 * c6) * inverse6 / r2
    """

    def __init__(self, function: Any, parameters: Mapping[str, Any] | None = None) -> None:
        self.formula: UserFormula = function if isinstance(function, UserFormula) else capture(function)
        self.parameters = dict(parameters or {})
        known = set(self.formula.arguments)
        known |= {name[:-2] for name in known if name.endswith(("_i", "_j"))}
        for name in self.parameters:
            if name not in known:
                raise InputError(
                    f"pair potential {self.formula.name} has no parameter {name!r}; it has "
                    f"{', '.join(self.formula.arguments) or 'none'}"
                )
        check_traceable(self.formula, len(self.formula.arguments))

    def resolve(self, table: LennardJonesTable) -> PotentialTable:
        """Values of the arguments for all pairs of atom types.

        Raises
        ------
        InputError
            If a parameter or a pair of types is missing.
        """
        arguments, n = self.formula.arguments, len(table.type_names)
        values = np.zeros((len(arguments), n, n))
        for k, name in enumerate(arguments):
            values[k] = self._value(name, table)
        own, sides = _roots(values), _sides(arguments)
        if own is not None:
            return PotentialTable(self.formula, values, "geometric", own)
        if arguments == ("c6", "c12") and not self.parameters and table.combination == "lorentz-berthelot":
            own = np.stack((0.5 * table.sigma, 2.0 * np.sqrt(table.epsilon)), axis=1)
            return PotentialTable(self.formula, values, "lorentz-berthelot", own)
        own = np.zeros((n, SLOTS))
        for name, value in zip(arguments, values, strict=True) if sides else ():
            if name.endswith("_i"):
                own[:, sides.index(name[:-2])] = value[:, 0]
        return PotentialTable(self.formula, values, "types" if sides else "table", own)

    def resolve_checked(
        self, table: LennardJonesTable, constants: PairConstants, exact: bool
    ) -> PotentialTable:
        """`resolve` and `PotentialTable.check`; InputError for a switched Lennard-Jones, too."""
        if constants.ending != "shift":
            raise InputError(
                f"vdw-modifier = {constants.ending} switches Lennard-Jones; write the switch into the pair potential "
                "and use potential-shift or none"
            )
        resolved = self.resolve(table)
        resolved.check(table.type_names, constants.cutoff, exact)
        return resolved

    def _value(self, name: str, table: LennardJonesTable) -> np.ndarray:
        """(T, T) values of one argument."""
        n, side, base = len(table.type_names), None, name
        if name.endswith(("_i", "_j")) and name not in self.parameters:
            side, base = name[-1], name[:-2]
        given = self.parameters.get(base)
        if given is None:
            value = _from_force_field(base, side, table)
            if value is None:
                raise InputError(
                    f"pair potential {self.formula.name}: parameter {base!r} is missing; give it in `parameters`"
                )
        elif side is not None:
            value = self._per_type(base, given, table)
        elif isinstance(given, Mapping):
            value = self._per_pair(base, given, table)
        else:
            value = np.asarray(given, np.float64)
            if value.shape not in ((), (n, n)) or not np.array_equal(value, value.T):
                raise InputError(
                    f"pair potential {self.formula.name}: {name} must be a number, a mapping, or a symmetric array of "
                    f"shape ({n}, {n}) for the atom types {', '.join(table.type_names)}"
                )
        if side is not None:
            value = value[:, None] if side == "i" else value[None, :]
        return np.broadcast_to(value, (n, n))

    def _per_type(self, base: str, given: Any, table: LennardJonesTable) -> np.ndarray:
        if not isinstance(given, Mapping):
            return np.broadcast_to(np.asarray(given, np.float64), (len(table.type_names),))
        self._require(base, set(table.type_names) - set(given), set(given) - set(table.type_names))
        return np.array([float(given[name]) for name in table.type_names])

    def _per_pair(self, base: str, given: Mapping, table: LennardJonesTable) -> np.ndarray:
        names = table.type_names
        found = np.full((len(names), len(names)), np.nan)
        unknown = set()
        for pair, number in given.items():
            if not (isinstance(pair, tuple) and len(pair) == 2 and set(pair) <= set(names)):
                unknown.add(str(pair))
                continue
            a, b = names.index(pair[0]), names.index(pair[1])
            found[a, b] = found[b, a] = float(number)
        missing = {
            f"{names[a]}-{names[b]}" for a, b in zip(*np.nonzero(np.triu(np.isnan(found))), strict=True)
        }
        self._require(base, missing, unknown)
        return found

    def _require(self, base: str, missing: set[str], unknown: set[str]) -> None:
        for problem, names in (("nothing for", missing), ("unknown", unknown)):
            if names:
                raise InputError(
                    f"pair potential {self.formula.name}: parameter {base!r}: {problem} {', '.join(sorted(names)[:6])}"
                )


@dataclass(frozen=True, eq=False)
class PotentialTable:
    """A pair potential for the atom types of a system.

    Parameters
    ----------
    formula : UserFormula
    values : (P, T, T) float64
        Arguments of the function for every pair of types.
    combination : str
        How the kernel comes to them, see `KernelSpec`.
    own : (T, 2) float64
        What it keeps of each atom for that.
    """

    formula: UserFormula
    values: np.ndarray
    combination: Literal["geometric", "lorentz-berthelot", "table", "types"]
    own: np.ndarray

    def interacting(self, cutoff: float) -> np.ndarray:
        """(T,) bool: the type acts on some type.

        It does not if its own arguments are zero and the function is zero with every type.
        """
        r = np.linspace(_NEAREST * cutoff, cutoff, _POINTS)
        own = np.diagonal(self.values, axis1=1, axis2=2)
        result = np.ones(own.shape[1], bool)
        for i in np.flatnonzero((own == 0.0).all(axis=0)) if len(own) else ():
            result[i] = any(
                np.any(part)
                for j in range(len(result))
                for part in self.formula(r * r, *self.values[:, i, j])
            )
        return result

    def distinct(self) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Pairs of types with all different arguments, and which of them each pair (T, T) is like."""
        n = self.values.shape[1]
        if len(self.values) == 0:
            return [(0, 0)], np.zeros((n, n), np.int64)
        columns = self.values.reshape(len(self.values), -1)
        _, first, like = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        return [(int(k) // n, int(k) % n) for k in first], like.reshape(n, n)

    def energies(self, i: np.ndarray, j: np.ndarray, r: np.ndarray) -> np.ndarray:
        """(pairs, distances) kJ/mol: energies of pairs of types (pairs,) at distances [nm]."""
        return self._at(i, j, r * r)[0]

    def _at(self, i: np.ndarray, j: np.ndarray, r2: np.ndarray) -> tuple[np.ndarray, ...]:
        """Energies and forces over r (pairs, distances), in the kind of numbers of r2."""
        arguments = self.values[:, i, j].astype(r2.dtype)[:, :, None]
        return tuple(np.broadcast_to(found, (len(i), len(r2))) for found in self.formula(r2, *arguments))

    def check(self, type_names: tuple[str, ...], cutoff: float, exact: bool) -> None:
        """Require finite values that are the same both ways, and a force that is the derivative of the energy.

        Parameters
        ----------
        type_names : tuple of str
        cutoff : float, nm
        exact : bool
            The same both ways to the last bit of float32, for reproducible mode.

        Raises
        ------
        InputError
            Naming two types and a distance.
        """
        r = np.linspace(_NEAREST * cutoff, cutoff * (1.0 - 1e-3), _POINTS)
        pairs = np.array(self.distinct()[0])
        for begin in range(0, len(pairs), _AT_ONCE):
            i, j = pairs[begin : begin + _AT_ONCE].T
            where = [f"types {type_names[a]} and {type_names[b]}" for a, b in zip(i, j, strict=True)]
            self._check_pairs(where, i, j, r)
            self._check_symmetry(where, i, j, r, exact)

    def _check_symmetry(
        self, where: list[str], i: np.ndarray, j: np.ndarray, r: np.ndarray, exact: bool
    ) -> None:
        r2 = (r * r).astype(np.float32 if exact else np.float64)
        with np.errstate(all="ignore"):
            one, other = self._at(i, j, r2), self._at(j, i, r2)
        for first, second in zip(one, other, strict=True):
            same = np.isclose(first, second, rtol=0.0 if exact else 1e-6, atol=0.0).all(1)
            for k in np.flatnonzero(~same)[:1]:
                raise InputError(
                    f"pair potential {self.formula.name} differs when {where[k]} are swapped; make it symmetric in _i "
                    f"and _j{' to the last bit, as in (a_i + a_j) or (a_i * a_j)' if exact else ''}"
                )

    def _check_pairs(self, where: list[str], i: np.ndarray, j: np.ndarray, r: np.ndarray) -> None:
        name, h = self.formula.name, _STEP * r
        with np.errstate(all="ignore"):
            energy, force = self._at(i, j, r * r)
            numeric = (self.energies(i, j, r - h) - self.energies(i, j, r + h)) / (2.0 * h * r)
        good = np.isfinite(energy) & np.isfinite(force)
        for k in np.flatnonzero(~good.all(1))[:1]:
            raise InputError(
                f"pair potential {name} is not finite at r = {r[~good[k]][0]:.4f} nm for {where[k]}"
            )
        scale = np.abs(force) + np.abs(energy) / r**2
        wrong = np.abs(numeric - force) > _TOLERANCE * scale + 1e-12
        for k in np.flatnonzero(wrong.mean(1) > _KINKS)[:1]:
            m = int(np.argmax(wrong[k]))
            raise InputError(
                f"pair potential {name}: at r = {r[m]:.4f} nm, {where[k]}, force_over_r is {force[k, m]:.6g} but "
                f"-(dV/dr)/r is {numeric[k, m]:.6g} kJ/mol/nm^2; return the force divided by r"
            )


def _from_force_field(base: str, side: str | None, table: LennardJonesTable) -> np.ndarray | None:
    if side is not None:
        return {"sigma": table.sigma, "epsilon": table.epsilon}.get(base)
    if base in ("c6", "c12"):
        return getattr(table, base)
    both = (table.c6 != 0.0) & (table.c12 != 0.0)
    c6, c12 = np.where(both, table.c6, 1.0), np.where(both, table.c12, 1.0)
    values = {"sigma": (c12 / c6) ** (1.0 / 6.0), "epsilon": c6 * c6 / (4.0 * c12)}
    return np.where(both, values[base], 0.0) if base in values else None


def _sides(arguments: tuple[str, ...]) -> list[str] | None:
    """Names of the per-type arguments if all are and fit into the slots, else None."""
    bases = list(dict.fromkeys(name[:-2] for name in arguments))
    if not arguments or len(bases) > SLOTS or not all(name.endswith(("_i", "_j")) for name in arguments):
        return None
    return bases if all(f"{base}_i" in arguments for base in bases) else None


def _roots(values: np.ndarray) -> np.ndarray | None:
    """Numbers of each type whose products are the values of its pairs, (T, 2), or None."""
    if not 0 < len(values) <= SLOTS:
        return None
    roots = np.zeros((values.shape[1], SLOTS))
    for k, value in enumerate(values):
        own = np.diag(value)
        if (own < 0.0).any():
            return None
        roots[:, k] = np.sqrt(own)
        if not np.allclose(np.outer(roots[:, k], roots[:, k]), value, rtol=1e-6, atol=0.0):
            return None
    return roots
