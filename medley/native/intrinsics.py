"""What compiled code needs beyond Numba: memory behind an address, calls through one, atomics.

Memory and functions of other libraries are handed over as plain integers, at run time: what is compiled then depends on
no machine's addresses, and is kept between runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

_INT64 = ir.IntType(64)


def intrinsic(define: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator; what compiled code calls has one argument fewer than what is defined here."""
    made: Callable[..., Any] = numba_intrinsic(define)
    return made


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def load_double(typingctx: Any, address: Any) -> Any:
    """The float64 at `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], ir.DoubleType()))

    return types.float64(types.int64), codegen


@intrinsic
def store_double(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a float64 to `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _pointer(builder, args[0], ir.DoubleType()))
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), codegen


@intrinsic
def load_int32(typingctx: Any, address: Any) -> Any:
    """The C int at `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sext(builder.load(_pointer(builder, args[0], ir.IntType(32))), _INT64)

    return types.int64(types.int64), codegen


@intrinsic
def load_int64(typingctx: Any, address: Any) -> Any:
    """The 64-bit integer (or pointer) at `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], _INT64))

    return types.int64(types.int64), codegen


def _call(builder: Any, args: Any) -> Any:
    """Call the C function `int f(int64...)` (integers and pointers are the same to the ABI)."""
    kind = ir.FunctionType(ir.IntType(32), [_INT64] * (len(args) - 1))
    result = builder.call(builder.inttoptr(args[0], kind.as_pointer()), list(args[1:]))
    return builder.sext(result, _INT64)


@intrinsic
def call0(typingctx: Any, function: Any) -> Any:
    """Call the C function at address `function`; what comes back is its C int, if it returns one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(types.int64), codegen


@intrinsic
def call1(typingctx: Any, function: Any, a: Any) -> Any:
    """The same with one integer or pointer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def call2(typingctx: Any, function: Any, a: Any, b: Any) -> Any:
    """The same with two arguments."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def call3(typingctx: Any, function: Any, a: Any, b: Any, c: Any) -> Any:
    """The same with three."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def call4(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The same with four arguments."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(types.int64, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def fetch_add(typingctx: Any, address: Any, amount: Any) -> Any:
    """Add to the shared integer at `address`; returns what it held before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0], _INT64), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def record_address(typingctx: Any, record: Any) -> Any:
    """Where a NumPy record lies."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], _INT64)

    return types.int64(record), codegen


@intrinsic
def array_address(typingctx: Any, array: Any) -> Any:
    """Where an array's first element lies."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        proxy: Any = cgutils.create_struct_proxy
        return builder.ptrtoint(proxy(signature.args[0])(context, builder, args[0]).data, _INT64)

    return types.int64(array), codegen


@intrinsic
def void_pointer(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _pointer(builder, args[0], ir.IntType(8))

    return types.voidptr(types.int64), codegen


@intrinsic
def atomic_load(typingctx: Any, address: Any) -> Any:
    """The shared integer at `address`, and with it all that was written before it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_pointer(builder, args[0], _INT64), "seq_cst", 8)

    return types.int64(types.int64), codegen


@intrinsic
def atomic_store(typingctx: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _pointer(builder, args[0], _INT64), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen
