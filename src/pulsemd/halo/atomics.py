"""Atomic words, pauses and a clock for Numba functions, emitted as LLVM instructions.

A plain NumPy store gives no ordering between the rows of a halo and the word that announces them. These intrinsics do:
``store_release`` makes every earlier store of this thread visible to whoever reads the word by ``load_acquire``,
between threads and between processes that map the same memory.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False
# mypy: disallow-incomplete-defs=False

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_CLOCK_MONOTONIC = 1
_PAUSE = {"x86_64": ("llvm.x86.sse2.pause", None), "aarch64": ("llvm.aarch64.hint", 1)}.get(
    platform.machine()
)


def _word_pointer(context, builder, array_type, array, index_type, index):
    """Address of word ``index`` of a contiguous int64 array."""
    struct = context.make_array(array_type)(context, builder, array)
    return builder.gep(struct.data, [context.cast(builder, index, index_type, types.intp)])


@intrinsic
def load_acquire(typing_context, words, index):
    """Word ``index`` of the int64 array ``words``; later reads of this thread see what its writer wrote before it."""

    def generate(context, builder, signature, arguments):
        pointer = _word_pointer(
            context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1]
        )
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(words, index), generate


@intrinsic
def store_release(typing_context, words, index, value):
    """Set word ``index`` of the int64 array ``words`` after every earlier write of this thread."""

    def generate(context, builder, signature, arguments):
        pointer = _word_pointer(
            context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1]
        )
        word = context.cast(builder, arguments[2], signature.args[2], types.int64)
        builder.store_atomic(word, pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(words, index, value), generate


@intrinsic
def pause(typing_context):
    """Tell the core that this is a spin loop (``pause`` on x86-64, ``yield`` on AArch64, nothing elsewhere)."""

    def generate(context, builder, signature, arguments):
        if _PAUSE is not None:
            name, hint = _PAUSE
            operands = [] if hint is None else [ir.IntType(32)(hint)]
            kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def monotonic(typing_context):
    """Seconds of CLOCK_MONOTONIC, as float64."""

    def generate(context, builder, signature, arguments):
        time = cgutils.alloca_once(builder, ir.ArrayType(_WORD, 2))
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), time.type])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(function, [ir.IntType(32)(_CLOCK_MONOTONIC), time])
        seconds, nanoseconds = (
            builder.sitofp(builder.extract_value(builder.load(time), part), ir.DoubleType())
            for part in (0, 1)
        )
        return builder.fadd(seconds, builder.fmul(nanoseconds, ir.DoubleType()(1e-9)))

    return types.float64(), generate


sched_yield = types.ExternalFunction("sched_yield", types.int32())
usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
