"""Decimal numbers in columns of text, thousands of rows at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes2D = NDArray[np.uint8]
SPACE, MINUS, DOT, ZERO = (ord(c) for c in " -.0")


def decode(columns: Bytes2D, dot: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers of the form ``   -12.345`` with the decimal point in the same column of every row.

    Parameters
    ----------
    columns : (n, width) uint8
        Text of one field; at most 15 digits.
    dot : int
        Column of the decimal point.

    Returns
    -------
    values : (n,) float64
        The nearest double: an exact integer divided by an exact power of ten.
    valid : (n,) bool
        False where the text is anything else; the value is meaningless there.
    """
    n, width = columns.shape
    mantissa = np.zeros(n, np.int64)
    valid = columns[:, dot] == DOT
    negative = np.zeros(n, np.bool_)
    started = np.zeros(n, np.bool_)  # a sign or a digit was seen
    for column in range(width):
        if column == dot:
            continue
        text = columns[:, column]
        digit = text - np.uint8(ZERO)
        is_digit = digit < 10
        if column < dot:
            is_minus = (text == MINUS) & ~started
            valid &= is_digit | is_minus | ((text == SPACE) & ~started)
            negative |= is_minus
            started |= is_digit | is_minus
        else:
            valid &= is_digit
        mantissa *= 10
        mantissa += np.where(is_digit, digit, 0)
    valid &= dot < width - 1
    values = mantissa / 10.0 ** (width - dot - 1)
    return np.where(negative, -values, values), valid


def encode(values: NDArray[np.float64], width: int, decimals: int) -> tuple[Bytes2D, NDArray[np.bool_]]:
    """Write numbers as ``%{width}.{decimals}f`` does.

    Returns
    -------
    columns : (n, width) uint8
    fits : (n,) bool
        False where a number is not finite or needs more than ``width`` characters.
    """
    scaled = np.rint(np.abs(values) * 10.0**decimals)
    fits = scaled < 10.0 ** (width - 1)
    rest = np.where(fits, scaled, 0.0).astype(np.int64)
    negative = np.flatnonzero((values < 0) & (rest > 0))
    point = width - decimals - 1
    first_digit = np.full(len(values), point - 1)
    columns = np.full((len(values), width), SPACE, np.uint8)
    columns[:, point] = DOT
    for column in range(width - 1, -1, -1):
        if column == point:
            continue
        digit = (rest % 10 + ZERO).astype(np.uint8)
        columns[:, column] = np.where((rest > 0) | (column >= point - 1), digit, SPACE)
        first_digit[(rest > 0) & (column < point)] = column
        rest //= 10
    fits[negative] &= first_digit[negative] > 0
    columns[negative, first_digit[negative] - 1] = MINUS
    return columns, fits
