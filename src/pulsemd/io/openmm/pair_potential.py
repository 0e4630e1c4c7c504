"""CustomNonbondedForce: Lennard-Jones of any form as a table of types, another potential as a traced formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.custom import evaluate_powers, parse_energy
from pulsemd.io.openmm.document import Force, columns, section_of
from pulsemd.io.openmm.draft import PairPart, SystemDraft
from pulsemd.io.openmm.expression import Node, parse
from pulsemd.io.openmm.formula import pair_potential, switched
from pulsemd.io.openmm.nonbonded import check_count, switching_distance
from pulsemd.io.openmm.powers import NotPowers, Powers, Table, evaluate
from pulsemd.kernels.nonbonded.potential import PairPotential

Float64 = NDArray[np.float64]

_METHODS = ("NoCutoff", "CutoffNonPeriodic", "CutoffPeriodic")
_LENNARD_JONES = {-12.0, -6.0}


def custom_nonbonded(draft: SystemDraft, force: Force) -> None:
    """What a CustomNonbondedForce adds to the pair potential, and its excluded pairs.

    Raises
    ------
    TopologyError
        For what is not supported, by name.
    """
    _check(force)
    tables = _tables(force)
    tree = parse_energy(force, {name: table.n_arguments for name, table in tables.items()})
    values = force.parameters("Particles", "PerParticleParameters")
    names = force.named("PerParticleParameters")
    check_count(draft, force, len(values))
    draft.excluded.append((force, force.atoms("Exclusions", ("p1", "p2"))))
    cutoff = force.number("cutoff")
    draft.cutoffs.append((force, cutoff))
    switch, corrected = switching_distance(force), force.flag("useLongRangeCorrection")

    def of_types(types: Float64) -> dict[str, Powers]:
        """Values of all names for pairs of types (T, T)."""
        known = {name: Powers({0.0: np.array(value)}) for name, value in force.globals().items()}
        for name, column in zip(names, types.T, strict=True):
            known[name + "1"] = Powers({0.0: column[:, None]})
            known[name + "2"] = Powers({0.0: column[None, :]})
        return {**known, "r": Powers({1.0: np.ones(())})}

    first = np.unique(values, axis=0)
    if _is_lennard_jones(tree, of_types(first), tables):

        def coefficients(types: Float64) -> tuple[Float64, Float64]:
            found = evaluate_powers(force, tree, of_types(types), tables).coefficients
            shape, zero = (len(types), len(types)), np.zeros(())
            c12, c6 = found.get(-12.0, zero), -found.get(-6.0, zero)
            return _symmetric(force, np.broadcast_to(c6, shape)), _symmetric(
                force, np.broadcast_to(c12, shape)
            )

        draft.pair_parts.append(PairPart(force, values, coefficients, switch, corrected))
        return
    with_lj = Node("+", arguments=(tree, parse("$c12/r^12-$c6/r^6")))

    def potential(types: Float64, c6: Float64, c12: Float64, switch: float | None) -> PairPotential:
        names = {**of_types(types), "$c6": Powers({0.0: c6}), "$c12": Powers({0.0: c12})}
        whole = with_lj if c6.any() or c12.any() else tree
        return pair_potential(force, switched(whole, switch, cutoff), names, tables, len(types))

    draft.pair_parts.append(PairPart(force, values, None, switch, corrected, potential))


def _is_lennard_jones(tree: Node, names: Mapping[str, Powers], tables: Mapping[str, Table]) -> bool:
    try:
        return set(evaluate(tree, names, tables).without_zeros().coefficients) <= _LENNARD_JONES
    except (NotPowers, KeyError):
        return False


def _symmetric(force: Force, values: Float64) -> Float64:
    if not np.allclose(values, values.T, rtol=1e-12, atol=0.0):
        raise force.expression_error(
            "changes when the particles are swapped",
            "make it symmetric",
        )
    return 0.5 * (values + values.T)


def _check(force: Force) -> None:
    method = _METHODS[int(force.number("method"))]
    if method != "CutoffPeriodic":
        raise force.error(
            f"the method {method} is not supported", "give the system a box and use CutoffPeriodic"
        )
    for section, what in (("InteractionGroups", "interaction groups"), ("ComputedValues", "computed values")):
        if len(force.rows(section)):
            raise force.error(
                f"{what} are not supported", "write the interaction with parameters of the particles"
            )


@dataclass(frozen=True, eq=False)
class DiscreteTable:
    """A tabulated function of one or two whole numbers; values (n,) or (n, m) float64."""

    force: Force
    name: str
    values: Float64

    @property
    def n_arguments(self) -> int:
        """Arguments of the function."""
        return self.values.ndim

    def __call__(self, *arguments: Float64) -> Float64:
        """Entries of the table.

        Raises
        ------
        TopologyError
            For an entry that it does not have.
        """
        indices = []
        for argument, size in zip(arguments, self.values.shape, strict=True):
            index = np.rint(argument).astype(np.int64)
            bad = index[(index < 0) | (index >= size)]
            if bad.size:
                raise self.force.error(
                    f"{self.name}() is asked for entry {bad.ravel()[0]} of {size}",
                    "correct the parameters of the particles",
                )
            indices.append(index)
        found: Float64 = self.values[tuple(indices)]
        return found


def _tables(force: Force) -> dict[str, DiscreteTable]:
    """Discrete functions, which are tables over types.

    Raises
    ------
    TopologyError
        For a continuous function.
    """
    tables = {}
    for row in force.rows("Functions"):
        name, kind = row.get("name", ""), row.get("type", "")
        if kind not in ("Discrete1DFunction", "Discrete2DFunction"):
            raise force.error(
                f"the tabulated function {name!r} is a {kind}, which is not supported",
                "tables over types are (Discrete1DFunction, Discrete2DFunction); write others as expressions",
            )
        values = columns(section_of(row, "Values"), ("v",))[:, 0]
        if kind == "Discrete2DFunction":
            values = values.reshape(-1, int(row.get("xsize", "0"))).T
        tables[name] = DiscreteTable(force, name, values)
    return tables
