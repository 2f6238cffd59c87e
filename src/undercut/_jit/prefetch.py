"""Ask the processor for memory before it is needed: loops in random order wait for memory more than they compute."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def prefetch(typing_context, array, index):
    """Fetch ``array[index]`` into the cache; has no effect on any value."""

    def generate(context, builder, signature, arguments):
        kind, (data, at) = signature.args[0], arguments
        view = context.make_array(kind)(context, builder, data)
        place = cgutils.get_item_pointer(context, builder, kind, view, [at], wraparound=False)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0"
        )
        builder.call(function, [builder.bitcast(place, byte), word(0), word(3), word(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate
