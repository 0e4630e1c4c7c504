"""What traced numbers of both kinds do alike, from the operations that each kind has."""

from __future__ import annotations

from typing import Any, Self


class Arithmetic:
    """Powers and magnitudes; a class of it has arithmetic, comparisons, ``sqrt`` and ``constant``."""

    __slots__ = ()

    def __abs__(self) -> Self:
        return (self < 0.0).select(-self, self)

    def __pow__(self, exponent: float) -> Self:
        twice = None if isinstance(exponent, Arithmetic) else 2.0 * float(exponent)
        if twice is None or twice != int(twice):
            raise TypeError(f"x ** {exponent}: exponents must be whole or half numbers")
        whole, half = divmod(abs(int(twice)), 2)
        result: Any = self.sqrt() if half else None
        square: Any = self
        while whole:
            if whole & 1:
                result = square if result is None else result * square
            square, whole = square * square if whole > 1 else square, whole >> 1
        result = self.constant(1.0) if result is None else result
        return 1.0 / result if twice < 0 else result

    def __float__(self) -> float:
        raise TypeError(
            "a traced number has no value: float() and the functions of `math` cannot take it; use sqrt, rsqrt, exp"
        )

    __int__ = __float__
