"""Rows that differ, of tables with millions of rows of few kinds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distinct_rows(columns: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The different rows of a table given by its columns, and which of them each row is.

    One kind after the other is taken out, which for the few kinds of millions of atoms is much faster than to sort.

    Parameters
    ----------
    columns : k arrays (n,)

    Returns
    -------
    rows, kind : (m, k) float64 in lexicographic order, and (n,) int64
    """
    table = np.array(columns, np.float64)
    left, kind = np.arange(table.shape[1]), np.empty(table.shape[1], np.int64)
    found: list[NDArray[np.float64]] = []
    while len(left):
        row = table[:, left[0]]
        same = np.ones(len(left), bool)
        for column, value in zip(table, row, strict=True):
            same &= (column if len(left) == len(column) else column[left]) == value
        kind[left[same]] = len(found)
        found.append(row)
        left = left[~same]
    rows = np.array(found).reshape(-1, len(table))
    order = np.lexsort(rows.T[::-1])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return rows[order], place[kind]
