"""What compiled code needs beyond Numba: memory behind an address, calls through one, atomics; and a cache on disk.

Tensors and library functions are handed over as plain integers, at run time: what is compiled then depends on no
network's shape and on no machine's addresses, and is kept between runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic as numba_intrinsic

_config: Any = numba.config
_HERE = Path(__file__).resolve().parent
_KEPT = 4  # versions of compiled code
_INT64, _INT32 = ir.IntType(64), ir.IntType(32)

ZERO, ONE, TWO, HALF = np.float32(0.0), np.float32(1.0), np.float32(2.0), np.float32(0.5)
FLOAT = 4  # bytes


# ---- compiling


@cache
def _code_folder() -> str | None:
    """A folder for this version of the source. Numba looks only at the file a function stands in, so a change of what
    it calls elsewhere would go unnoticed. None if nothing can be written."""
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(_HERE.glob("*.py")):
        digest.update(file.read_bytes())
    if _config.CACHE_DIR:
        root = Path(_config.CACHE_DIR)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "medley"
    folder = root / f"agents-code-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    versions = sorted(root.glob("agents-code-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for outdated in [path for path in versions if path != folder][_KEPT - 1 :]:
        shutil.rmtree(outdated, ignore_errors=True)
    return str(folder)


def _compile(function: Any, signature: Any = None, **options: Any) -> Any:
    before, folder = _config.CACHE_DIR, _code_folder()
    _config.CACHE_DIR = folder or before
    try:
        made = numba.njit(signature, error_model="numpy", cache=folder is not None, nogil=True, **options)
        return made(function)
    finally:
        _config.CACHE_DIR = before


def compiled(function: Any) -> Any:
    """Compiled on first use, without the interpreter lock; IEEE arithmetic in the order written."""
    return _compile(function)


def vectorised(function: Any) -> Any:
    """The same, where sums may be taken in any order and a*b + c in one step. NaN and infinity stay what they are."""
    return _compile(function, fastmath={"reassoc", "contract", "nsz", "arcp"})


def c_function(function: Any, *arguments: Any) -> int:
    """The address of `function`, compiled for C callers: `void f(arguments...)`; a record is passed by its address."""
    signature = types.void(*arguments)
    result: Any = _compile(function, signature).overloads[signature.args]
    address: int = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
    return address


def intrinsic(define: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator; what compiled code calls has one argument fewer than what is defined here."""
    made: Callable[..., Any] = numba_intrinsic(define)
    return made


# ---- memory


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def void_pointer(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _pointer(builder, args[0], ir.IntType(8))

    return types.voidptr(types.int64), codegen


@compiled
def floats(address: int, count: int) -> Any:
    """`count` numbers at `address`, as an array."""
    return carray(void_pointer(address), (count,), np.float32)


@compiled
def doubles(address: int, count: int) -> Any:
    return carray(void_pointer(address), (count,), np.float64)


@compiled
def longs(address: int, count: int) -> Any:
    return carray(void_pointer(address), (count,), np.int64)


@compiled
def flags(address: int, count: int) -> Any:
    return carray(void_pointer(address), (count,), np.uint8)


# ---- threads


@intrinsic
def fetch_add(typingctx: Any, address: Any, amount: Any) -> Any:
    """Add to the shared integer at `address`; returns what it held before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0], _INT64), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


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


# ---- calls


def _call(builder: Any, args: Any) -> Any:
    """Call the C function `int f(int64...)` (integers and pointers are the same to the ABI)."""
    kind = ir.FunctionType(_INT32, [_INT64] * (len(args) - 1))
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
def call3(typingctx: Any, function: Any, a: Any, b: Any, c: Any) -> Any:
    """The same with three."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen
