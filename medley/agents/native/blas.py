"""The matrix product: sgemm of the library that PyTorch (MKL) or NumPy and SciPy (OpenBLAS) bring along.

It is called by its Fortran name, with every argument by address. Integers are stored in 64 bits, which on a
little-endian machine serves libraries with 32-bit integers as well. Each thread runs it by itself, on one core.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from medley.agents.native.machine import compiled, floats
from medley.native.intrinsics import intrinsic

NARROW = 16  # columns; MKL takes four times as long for fewer, unless asked for the transpose
_INT64, _FLOAT = ir.IntType(64), ir.FloatType()


@dataclass(frozen=True)
class Blas:
    name: str
    sgemm: int  # address
    set_threads: int  # address of `int set(int)`: threads of the calling thread's products; returns what it was


@cache
def find_blas() -> Blas | None:
    """The first library that has what we need; None if there is none."""
    if sys.byteorder != "little" or sys.platform == "win32":
        return None
    for name, path, *symbols in _candidates():
        try:
            library = ctypes.CDLL(str(path))
            sgemm, set_threads = (ctypes.cast(getattr(library, s), ctypes.c_void_p).value or 0 for s in symbols)
        except (OSError, AttributeError):
            continue
        return Blas(name, sgemm, set_threads)
    return None


def _candidates() -> Iterator[tuple[str, Path, str, str]]:
    # `mkl_set_num_threads_local` in lower case is Fortran's and takes an address; this one is C's.
    for path in _beside("torch", "torch/lib", "*torch_cpu*"):
        yield "MKL", path, "sgemm_", "MKL_Set_Num_Threads_Local"
    for package in ("numpy", "scipy"):
        for path in _beside(package, f"{package}.libs", "*openblas*"):
            yield "OpenBLAS", path, "scipy_sgemm_64_", "openblas_set_num_threads_local"
            yield "OpenBLAS", path, "scipy_sgemm_", "openblas_set_num_threads_local"


def _beside(package: str, folder: str, pattern: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return []
    return sorted((Path(spec.origin).parent.parent / folder).glob(pattern))


@intrinsic
def _sgemm(
    typingctx: Any,
    function: Any,
    transpose_a: Any,
    transpose_b: Any,
    m: Any,
    n: Any,
    k: Any,
    a: Any,
    lda: Any,
    b: Any,
    ldb: Any,
    c: Any,
    ldc: Any,
) -> Any:
    """Fortran's C = op(A) op(B), columns first."""

    allocate: Any = cgutils.alloca_once

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        f, ta, tb, m, n, k, a, lda, b, ldb, c, ldc = args

        def place(value: Any) -> Any:
            at = allocate(builder, value.type)
            builder.store(value, at)
            return builder.ptrtoint(at, _INT64)

        def letter(flag: Any) -> Any:
            is_set = builder.icmp_unsigned("!=", flag, ir.Constant(flag.type, 0))
            return builder.select(is_set, ir.Constant(_INT64, ord("T")), ir.Constant(_INT64, ord("N")))

        one, zero = ir.Constant(_FLOAT, 1.0), ir.Constant(_FLOAT, 0.0)
        values = [place(letter(ta)), place(letter(tb)), place(m), place(n), place(k), place(one)]
        values += [a, place(lda), b, place(ldb), place(zero), c, place(ldc)]
        lengths = [ir.Constant(_INT64, 1)] * 2  # of the letters, as some Fortran compilers pass them
        kind = ir.FunctionType(ir.VoidType(), [_INT64] * (len(values) + 2))
        builder.call(builder.inttoptr(f, kind.as_pointer()), values + lengths)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 12), codegen


@compiled
def product(
    sgemm: int,
    transpose_a: int,
    transpose_b: int,
    m: int,
    n: int,
    k: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    c: int,
    ldc: int,
    scratch: int,
) -> None:
    """C[m, n] = op(A)[m, k] op(B)[k, n], rows first; lda is the distance between rows of A as it lies in memory.
    `scratch` has room for a C with fewer than NARROW columns."""
    if m <= 0:
        return
    if n >= NARROW or n >= m:
        _sgemm(sgemm, transpose_b, transpose_a, n, m, k, b, ldb, a, lda, c, ldc)
        return
    _sgemm(sgemm, 1 - transpose_a, 1 - transpose_b, m, n, k, a, lda, b, ldb, scratch, m)
    for i in range(m):
        row = floats(c + 4 * i * ldc, n)
        for j in range(n):
            row[j] = floats(scratch + 4 * j * m, m)[i]
