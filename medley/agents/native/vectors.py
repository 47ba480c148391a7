"""Vectors of 16 numbers for intrinsics, and the machines that have them in one register."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

from medley.agents.native.machine import FLOAT

LANES = 16
_INT32, _INT64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR = ir.VectorType(_FLOAT, LANES)


@cache
def has_wide_vectors() -> bool:
    """Whether this machine has what the tiles are made for. Elsewhere they would work, slowly."""
    return bool(llvm.get_host_cpu_features().get("avx512f"))


class Vectors:
    """Vectors of numbers, in the code that `builder` writes."""

    zero = ir.Constant(VECTOR, [0.0] * LANES)

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, value: int) -> Any:
        return ir.Constant(_INT64, value)

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        insert: Any = cgutils.get_or_insert_function
        kind = ir.FunctionType(result, [value.type for value in arguments])
        return self.builder.call(insert(self.builder.module, kind, f"llvm.{name}.v{LANES}f32"), arguments)

    def _splat(self, value: Any) -> Any:
        kind = ir.VectorType(value.type, LANES)
        nothing, first = ir.Constant(kind, ir.Undefined), ir.Constant(_INT32, 0)
        return self.shuffle(self.builder.insert_element(nothing, value, first), nothing, [0] * LANES)

    def shuffle(self, a: Any, b: Any, lanes: list[int]) -> Any:
        """Lanes of `a` (from 0) and `b` (from LANES), as listed."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, LANES), lanes))

    def first(self, count: Any) -> Any:
        """A mask for the first `count` lanes; by way of an integer, which costs less than a comparison of lanes."""
        builder = self.builder
        count = builder.select(builder.icmp_signed("<", count, self.number(LANES)), count, self.number(LANES))
        count = builder.select(builder.icmp_signed(">", count, self.number(0)), count, self.number(0))
        bits = builder.sub(builder.shl(self.number(1), count), self.number(1))
        return builder.bitcast(builder.trunc(bits, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))

    def _place(self, address: Any, vector: int) -> list[Any]:
        address = self.builder.add(address, self.number(FLOAT * LANES * vector))
        return [self.builder.inttoptr(address, VECTOR.as_pointer()), ir.Constant(_INT32, FLOAT)]  # alignment

    def load(self, address: Any, mask: Any, vector: int) -> Any:
        """The n-th vector from `address` on. Other lanes are zero, and their memory is not touched."""
        return self._call("masked.load", VECTOR, *self._place(address, vector), mask, self.zero)

    def store(self, value: Any, address: Any, mask: Any, vector: int) -> None:
        self._call("masked.store", ir.VoidType(), value, *self._place(address, vector), mask)

    def broadcast(self, address: Any) -> Any:
        """The number at `address` in every lane."""
        return self._splat(self.builder.load(self.builder.inttoptr(address, _FLOAT.as_pointer())))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self._call("fma", VECTOR, a, b, c)

    def sum(self, value: Any) -> Any:
        """Of all lanes, by halves."""
        width = LANES // 2
        while width:
            turned = self.shuffle(value, value, [(i + width) % LANES for i in range(LANES)])
            value = self.builder.fadd(value, turned)
            width //= 2
        return self.builder.extract_element(value, ir.Constant(_INT32, 0))
