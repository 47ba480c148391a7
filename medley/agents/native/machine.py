"""How the update is compiled, and memory behind an address as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from medley.native.compiling import Compiler
from medley.native.intrinsics import void_pointer

_compiler = Compiler(Path(__file__).parent)
c_function = _compiler.c_function

ZERO, ONE, TWO, HALF = np.float32(0.0), np.float32(1.0), np.float32(2.0), np.float32(0.5)
FLOAT = 4  # bytes


def compiled(function: Any) -> Any:
    """Compiled on first use; IEEE arithmetic in the order written."""
    return _compiler(function)


def vectorised(function: Any) -> Any:
    """The same, where sums may be taken in any order and a*b + c in one step. NaN and infinity stay what they are."""
    return _compiler(function, fastmath={"reassoc", "contract", "nsz", "arcp"})


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
