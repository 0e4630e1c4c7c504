"""Parameters of atoms and pairs in the form the kernels read."""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.kernels.nonbonded.potential import PotentialTable
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.nonbonded.spec import BLOCK, LANES, SWITCH_CONSTANTS
from pulsemd.kernels.search.clusters import aligned
from pulsemd.kernels.search.search import PairList, lattice_scale


def kernel_combination(table: LennardJonesTable) -> str:
    """Rule the kernel applies: the table's, or the cheaper geometric one where both give the same.

    Lorentz-Berthelot with one sigma for all types that interact is geometric, as for water.
    """
    if table.combination == "lorentz-berthelot":
        sigma = table.sigma[table.epsilon != 0.0]
        if sigma.size == 0 or (sigma == sigma[0]).all():
            return "geometric"
    return table.combination


def constant_vector(
    constants: PairConstants, box: np.ndarray, force_limit: float, minimum2: float
) -> np.ndarray:
    """The kernel's float32 constants, in the order of `CONSTANTS`, then the box over 2^32."""
    scalars = (
        constants.cutoff**2,
        *constants.coulomb_arguments,
        constants.shift6,
        constants.shift12,
        *(getattr(constants, name) for name in SWITCH_CONSTANTS),
        minimum2,
        force_limit**2,
    )
    return np.concatenate((np.array(scalars, np.float32), lattice_scale(box)))


class AtomParameters:
    """Per-type parameters of the chosen combination rule, and the table of pairs of types, for Lennard-Jones.

    Parameters
    ----------
    table : LennardJonesTable
    constants : PairConstants
    combination : {'geometric', 'lorentz-berthelot', 'table'}

    Attributes
    ----------
    has_lj : (T,) bool
        The type interacts with some type.
    table : (T + 1, T + 1, 2) float32, flat
        c6 and c12; the last type, of empty places, interacts with nothing.
    """

    def __init__(self, table: LennardJonesTable, constants: PairConstants, combination: str) -> None:
        self.combination = combination
        self.n_types = len(table.c6) + 1
        self.has_lj = (table.c6 != 0.0).any(axis=1) | (table.c12 != 0.0).any(axis=1)
        self.charge_scale = np.sqrt(constants.coulomb_factor)
        coefficients = np.zeros((self.n_types, self.n_types, 2), np.float32)
        coefficients[:-1, :-1, 0], coefficients[:-1, :-1, 1] = table.c6, table.c12
        self.table = coefficients.ravel()
        own = np.zeros((self.n_types, 2))
        if combination == "geometric":
            own[:-1] = np.sqrt(np.stack((np.diag(table.c6), np.diag(table.c12)), axis=1))
        elif combination == "lorentz-berthelot":
            own[:-1] = np.stack((0.5 * table.sigma, 2.0 * np.sqrt(table.epsilon)), axis=1)
        self.own = own.astype(np.float32)

    @classmethod
    def of_potential(cls, potential: PotentialTable, constants: PairConstants) -> AtomParameters:
        """The same for a user's pair potential."""
        own, values = potential.own, potential.values
        result = cls.__new__(cls)
        result.combination = potential.combination
        result.has_lj = potential.interacting(constants.cutoff)
        result.n_types = len(own) + 1
        result.charge_scale = np.sqrt(constants.coulomb_factor)
        table = np.zeros((result.n_types, result.n_types, len(values)), np.float32)
        table[:-1, :-1] = values.transpose(1, 2, 0)
        result.table = table.ravel() if table.size else np.zeros(1, np.float32)
        result.own = np.concatenate((own, np.zeros((1, 2)))).astype(np.float32)
        return result

    @classmethod
    def in_table(cls, potential: PotentialTable, constants: PairConstants, n_values: int) -> AtomParameters:
        """The same for kernels that have every pair of types in a table: 1 for pairs that exist, then the arguments.

        Parameters
        ----------
        n_values : int
            Numbers of a pair in the table, at least those.
        """
        result = cls.of_potential(potential, constants)
        result.combination = "table"
        table = np.zeros((result.n_types, result.n_types, n_values), np.float32)
        table[:-1, :-1, 0] = 1.0
        table[:-1, :-1, 1 : 1 + len(potential.values)] = potential.values.transpose(1, 2, 0)
        result.table = table.ravel()
        return result

    def blocks(self, pairs: PairList, type_index: np.ndarray, charge: np.ndarray):
        """Parameters (n_blocks * 24,) float32 and types (n_blocks * 8,) int32 of all places."""
        n_blocks = len(pairs.rows) // LANES
        parameters, types = aligned(n_blocks * BLOCK, np.float32), np.empty(len(pairs.rows), np.int32)
        own, scale = self.own, self.charge_scale
        _fill_blocks(
            pairs.rows, pairs.source, type_index, charge, scale, own, self.n_types - 1, parameters, types
        )
        return parameters, types


@njit(cache=True, nogil=True)
def _fill_blocks(rows, source, type_index, charge, charge_scale, own, empty_type, parameters, types):
    """Parameters and types of all places (OUTPUT); those of the empty type where there is no row."""
    for place in range(len(rows)):
        row, at = source[place], place // LANES * BLOCK + place % LANES
        real = rows[place] >= 0
        kind = type_index[row] if real else empty_type
        types[place] = kind
        parameters[at] = charge[row] * charge_scale if real else 0.0
        parameters[at + LANES], parameters[at + 2 * LANES] = own[kind, 0], own[kind, 1]
