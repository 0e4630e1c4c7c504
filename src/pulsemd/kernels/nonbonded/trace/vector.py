"""A traced vector over LLVM: arithmetic on it emits vector instructions instead of computing.

A `Vector` is a group of equally shaped LLVM vectors; every operation is emitted for each member in turn, so
the dependency chains of the members are interleaved in program order, which out-of-order cores with small
schedulers need. A group of one member broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from pulsemd.kernels.nonbonded.trace.arithmetic import Arithmetic

F32, F64, I8, I32, I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True)
class Numerics:
    """How floating-point instructions are emitted.

    Parameters
    ----------
    flags : tuple of str
        LLVM fast-math flags. Empty: IEEE operations as written, nothing contracted or reassociated.
    """

    flags: tuple[str, ...]


FAST = Numerics(("reassoc", "nsz", "arcp", "contract", "afn"))
"""Reassociation, fused multiply-add and approximate 1/sqrt; infinities and NaN keep their meaning."""

REPRODUCIBLE = Numerics(())
"""IEEE operations only, 1/sqrt as a correctly rounded square root and a division."""


_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_EXP_SERIES = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
)  # fmt: skip


class Traced:
    """A group of LLVM vectors of one type, with the builder that emits operations on them."""

    __slots__ = ("builder", "numerics", "values")

    def __init__(self, builder: ir.IRBuilder, values: Sequence[ir.Value], numerics: Numerics) -> None:
        self.builder, self.values, self.numerics = builder, list(values), numerics

    @property
    def type(self) -> ir.VectorType:
        """LLVM type of each member."""
        return self.values[0].type

    def like(self, values: Sequence[ir.Value]):
        """A group of the same kind with other members."""
        return type(self)(self.builder, values, self.numerics)

    def member(self, index: int):
        """Group of one member."""
        return self.like([self.values[index]])

    def _zip(self, operation: Callable, *others) -> list[ir.Value]:
        groups = [self.values, *(other.values for other in others)]
        size = max(len(group) for group in groups)
        columns = [group if len(group) == size else group * size for group in groups]
        return [operation(*row) for row in zip(*columns, strict=True)]


class Mask(Traced):
    """A group of vectors of i1."""

    def __and__(self, other: Mask) -> Mask:
        return self.like(self._zip(self.builder.and_, other))

    def __or__(self, other: Mask) -> Mask:
        return self.like(self._zip(self.builder.or_, other))

    def __invert__(self) -> Mask:
        return self.like([self.builder.not_(value) for value in self.values])

    def __bool__(self) -> bool:
        raise TypeError(
            "a comparison of traced numbers is not one truth value, so `if`, `and`, `or`, `min` and np.where cannot "
            "use it; write where(condition, a, b), combine conditions with & and |"
        )

    def select(self, a, b) -> Vector:
        """``a`` where true, else ``b``; one of the two may be a number."""
        known = a if isinstance(a, Vector) else b
        return known.like(self._zip(self.builder.select, known.constant(a), known.constant(b)))


class Vector(Arithmetic, Traced):
    """A group of vectors of floats, with ordinary arithmetic."""

    def constant(self, value) -> Vector:
        """``value`` itself if it is a vector, else the number in every lane."""
        if isinstance(value, Vector):
            return value
        number = float(np.float32(value))
        return self.like([ir.Constant(self.type, [number] * self.type.count)])

    def _emit(self, operation: Callable, x: Vector, y: Vector) -> Vector:
        flags = self.numerics.flags
        return self.like(x._zip(lambda a, b: operation(a, b, flags=flags), y))

    def __add__(self, other) -> Vector:
        return self._emit(self.builder.fadd, self, self.constant(other))

    def __radd__(self, other) -> Vector:
        return self._emit(self.builder.fadd, self.constant(other), self)

    def __sub__(self, other) -> Vector:
        return self._emit(self.builder.fsub, self, self.constant(other))

    def __rsub__(self, other) -> Vector:
        return self._emit(self.builder.fsub, self.constant(other), self)

    def __mul__(self, other) -> Vector:
        return self._emit(self.builder.fmul, self, self.constant(other))

    def __rmul__(self, other) -> Vector:
        return self._emit(self.builder.fmul, self.constant(other), self)

    def __truediv__(self, other) -> Vector:
        return self._emit(self.builder.fdiv, self, self.constant(other))

    def __rtruediv__(self, other) -> Vector:
        return self._emit(self.builder.fdiv, self.constant(other), self)

    def __neg__(self) -> Vector:
        return self.like([self.builder.fneg(value) for value in self.values])

    def sqrt(self) -> Vector:
        """Square root, approximated as the numerics allow."""
        return self.like([self._call("llvm.sqrt", value) for value in self.values])

    def exp(self) -> Vector:
        """Exponential of float32 to 2 units in the last place, by IEEE operations whatever the numerics.

        References
        ----------
        Moshier, Cephes mathematical library, expf.
        """
        x = type(self)(self.builder, self.values, REPRODUCIBLE)
        x = (x > 88.0).select(88.0, x)
        x = (x < -87.0).select(-87.0, x)
        scaled = x * _LOG2_E
        n = x.like([x._call("llvm.rint", value) for value in scaled.values])
        rest = x - n * _LN2_HIGH - n * _LN2_LOW
        series = x.constant(_EXP_SERIES[0])
        for coefficient in _EXP_SERIES[1:]:
            series = series * rest + coefficient
        result = (series * rest * rest + rest + 1.0) * n._power_of_two()
        return type(self)(self.builder, result.values, self.numerics)

    def _power_of_two(self) -> Vector:
        """2^n of whole numbers n between -126 and 127."""
        builder, kind = self.builder, ir.VectorType(I32, self.type.count)
        bias, shift = (ir.Constant(kind, [number] * kind.count) for number in (127, 23))
        bits = [builder.shl(builder.add(builder.fptosi(value, kind), bias), shift) for value in self.values]
        return self.like([builder.bitcast(value, self.type) for value in bits])

    def rsqrt(self) -> Vector:
        """1/sqrt, approximated as the numerics allow."""
        return 1.0 / self.like([self._call("llvm.sqrt", value) for value in self.values])

    def multiply_add(self, factor: Vector, addend: Vector) -> Vector:
        """``self * factor + addend``, fused where the machine fuses at full speed; for `FAST` only."""
        return self.like(self._zip(lambda a, b, c: self._call("llvm.fmuladd", a, b, c), factor, addend))

    def _call(self, name: str, *arguments: ir.Value) -> ir.Value:
        kind = self.type
        suffix = f"v{kind.count}{'f32' if kind.element == F32 else 'f64'}"
        signature = ir.FunctionType(kind, [kind] * len(arguments))
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"{name}.{suffix}")
        return self.builder.call(function, arguments, fastmath=self.numerics.flags)

    def _compare(self, sign: str, other) -> Mask:
        values = self._zip(lambda a, b: self.builder.fcmp_ordered(sign, a, b), self.constant(other))
        return Mask(self.builder, values, self.numerics)

    def __lt__(self, other) -> Mask:
        return self._compare("<", other)

    def __le__(self, other) -> Mask:
        return self._compare("<=", other)

    def __gt__(self, other) -> Mask:
        return self._compare(">", other)

    def __ge__(self, other) -> Mask:
        return self._compare(">=", other)


def group(members: Sequence[Traced]):
    """One group of the members of several."""
    return members[0].like([value for member in members for value in member.values])


def check_traceable(formula: Callable, n_parameters: int) -> None:
    """Trace ``formula(r2, *parameters)`` once and throw the code away; what it raises says what cannot be traced."""
    kind = ir.VectorType(F32, 8)
    function = ir.Function(ir.Module(), ir.FunctionType(kind, [kind] * (n_parameters + 1)), "check")
    builder = ir.IRBuilder(function.append_basic_block())
    r2, *parameters = [Vector(builder, [argument], FAST) for argument in function.args]
    for result in formula(r2, *parameters):
        if not isinstance(result, Vector):
            float(result)
