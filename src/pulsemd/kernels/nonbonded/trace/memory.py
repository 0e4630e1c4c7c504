"""Loads, stores, broadcasts and reductions that the hand-written part of a kernel needs around a formula."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from pulsemd.kernels.nonbonded.trace.vector import I32, I64

ALIGNMENT = 4
"""Assumed alignment of vector loads [bytes]: the buffers are 64-byte aligned, other arrays need not be."""


def index(value: int) -> ir.Constant:
    """A 64-bit integer constant."""
    return ir.Constant(I64, value)


def constant_vector(kind: ir.Type, value: int | float, lanes: int) -> ir.Constant:
    """``value`` in every lane."""
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A scalar in every lane."""
    kind = ir.VectorType(value.type, lanes)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def load(builder: ir.IRBuilder, pointer: ir.Value, offset: ir.Value) -> ir.Value:
    """The element at ``pointer[offset]``."""
    return builder.load(builder.gep(pointer, [offset]))


def load_vector(builder: ir.IRBuilder, pointer: ir.Value, offset: ir.Value, lanes: int) -> ir.Value:
    """The ``lanes`` consecutive elements from ``pointer[offset]``."""
    kind = ir.VectorType(pointer.type.pointee, lanes)
    value = builder.load(builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer()))
    value.align = ALIGNMENT
    return value


def store_vector(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, offset: ir.Value) -> None:
    """Store consecutive elements from ``pointer[offset]``."""
    target = builder.bitcast(builder.gep(pointer, [offset]), value.type.as_pointer())
    builder.store(value, target).align = ALIGNMENT


def horizontal_sum(builder: ir.IRBuilder, value: ir.Value, flags: tuple[str, ...] = ()) -> ir.Value:
    """Sum over the lanes; of floats in an order that ``flags`` leave open."""
    kind, element = value.type, value.type.element
    if isinstance(element, ir.IntType):
        function = _reduction(builder, "add", element, [kind])
        return builder.call(function, [value])
    function = _reduction(builder, "fadd", element, [element, kind])
    return builder.call(function, [ir.Constant(element, -0.0), value], fastmath=flags)


def _reduction(builder: ir.IRBuilder, name: str, element: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    kind = arguments[-1]
    suffix = f"v{kind.count}{'i64' if isinstance(element, ir.IntType) else 'f32'}"
    signature = ir.FunctionType(element, arguments)
    return cgutils.get_or_insert_function(builder.module, signature, f"llvm.vector.reduce.{name}.{suffix}")


def any_lane(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """i1: whether any lane of a vector of i1 is true."""
    bits = ir.IntType(mask.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(mask, bits), ir.Constant(bits, 0))


def array_pointer(context, builder: ir.IRBuilder, kind, value: ir.Value) -> ir.Value:
    """Pointer to the first element of a Numba array argument."""
    return context.make_array(kind)(context, builder, value).data
