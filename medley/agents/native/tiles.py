"""Matrix products C = A B in tiles of C that stay in the registers of a CPU with 512-bit vectors.

A tile is up to 8 rows by 2 vectors of 16 columns: 16 vectors of sums are more than a core needs to keep its multipliers
busy, and few enough that the addresses of the rows fit into registers too. A is read number by number, B and C by
vectors. What follows a product (bias, ReLU, ...) is done to the sums before they are written, so that it needs no pass
over memory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from medley.agents.native.machine import c_function
from medley.agents.native.vectors import LANES, VECTOR, Vectors
from medley.native.intrinsics import intrinsic

ROWS, WIDTH = 8, 2 * LANES
# What is done to the sums.
BIAS, BIAS_AND_RELU, KEEP_ACTIVE, SQUARES = range(4)


class Panel(NamedTuple):
    """Up to two vectors of columns of C. A, B and C are addresses, distances are in bytes."""

    rows: int
    columns: int  # that are left, from here on
    k: int  # numbers in a row of A
    a: int
    a_row: int  # from a row of A to the next
    a_next: int  # and from a number to the next in its row
    b: int
    b_row: int
    c: int
    c_row: int
    then: int  # what is done to the sums
    extra: int  # the bias, or the activations that belong to the deltas in C: rows as far apart as those of C
    order: int  # which of these activations: a number for each row of C


_INT64, _FLOAT = ir.IntType(64), ir.FloatType()


@dataclass(frozen=True)
class _Tile:
    """One size of tile; makes the code of it."""

    v: Vectors
    rows: int
    masks: list[Any]  # of the columns, one for each vector

    def sums(self, a: Any, panel: dict[str, Any]) -> list[list[Any]]:
        """The loop over k: vectors of sums, for each row."""
        v, builder = self.v, self.v.builder
        starts = [builder.add(a, builder.mul(panel["a_row"], v.number(r))) for r in range(self.rows)]
        before, none = builder.block, v.number(0)
        loop, after = builder.append_basic_block("product"), builder.append_basic_block("sums")
        builder.cbranch(builder.icmp_signed(">", panel["k"], none), loop, after)
        builder.position_at_end(loop)
        left, offset, b = (builder.phi(_INT64) for _ in range(3))
        sums = [[builder.phi(VECTOR) for _ in self.masks] for _ in starts]
        columns = [v.load(b, mask, i) for i, mask in enumerate(self.masks)]
        results = []
        for start, row in zip(starts, sums, strict=True):
            factor = v.broadcast(builder.add(start, offset))
            results.append([v.multiply_add(factor, *pair) for pair in zip(columns, row, strict=True)])
        steps = [(left, panel["k"], v.number(-1)), (offset, none, panel["a_next"]), (b, panel["b"], panel["b_row"])]
        for phi, start, step in steps:
            phi.add_incoming(start, before)
            phi.add_incoming(builder.add(phi, step), loop)
        builder.cbranch(builder.icmp_signed(">", left, v.number(1)), loop, after)
        builder.position_at_end(after)
        for row, result in zip(sums, results, strict=True):
            for i, value in enumerate(result):
                end = builder.phi(VECTOR)
                for phi in (row[i], end):
                    phi.add_incoming(v.zero, before)
                    phi.add_incoming(value, loop)
                row[i] = end
        return sums

    def finish(self, then: int, sums: list[list[Any]], c: Any, order: Any, panel: dict[str, Any]) -> Any:
        """Do what follows and write C; returns the sum of squares."""
        v, builder, total = self.v, self.v.builder, self.v.zero
        if then in (BIAS, BIAS_AND_RELU):
            biases = [v.load(panel["extra"], mask, i) for i, mask in enumerate(self.masks)]
        for r, row in enumerate(sums):
            if then == KEEP_ACTIVE:
                place = builder.inttoptr(builder.add(order, v.number(8 * r)), _INT64.as_pointer())
                active = builder.add(panel["extra"], builder.mul(builder.load(place), panel["c_row"]))
            to = builder.add(c, builder.mul(panel["c_row"], v.number(r)))
            for i, (value, mask) in enumerate(zip(row, self.masks, strict=True)):
                if then in (BIAS, BIAS_AND_RELU):
                    value = builder.fadd(value, biases[i])
                if then == BIAS_AND_RELU:  # NaN stays NaN
                    value = builder.select(builder.fcmp_ordered("<=", value, v.zero), v.zero, value)
                if then == KEEP_ACTIVE:
                    is_active = builder.fcmp_ordered(">", v.load(active, mask, i), v.zero)
                    value = builder.select(is_active, value, v.zero)
                if then == SQUARES:
                    total = v.multiply_add(value, value, total)
                v.store(value, to, mask, i)
        return v.sum(total) if then == SQUARES else ir.Constant(_FLOAT, 0.0)


@intrinsic
def _tile(typingctx: Any, rows: Any, a: Any, c: Any, order: Any, panel: Any) -> Any:
    """`rows` rows of C, at most ROWS, and what is to be done to them. `a` and `c` are where they begin; `order` names
    the rows of the activations that belong to them. Returns their sum of squares, if asked for."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, a, c, order, packed = args
        unpack: Any = cgutils.unpack_tuple
        fields = dict(zip(Panel._fields, unpack(builder, packed), strict=True))
        v = Vectors(builder)
        masks = [v.first(builder.sub(fields["columns"], v.number(LANES * i))) for i in range(2)]
        end = builder.append_basic_block("end")
        with builder.goto_block(end):
            result = builder.phi(_FLOAT)

        two = builder.zext(builder.icmp_signed(">", fields["columns"], v.number(LANES)), _INT64)
        sizes = builder.switch(builder.add(builder.mul(rows, v.number(2)), two), end)
        result.add_incoming(ir.Constant(_FLOAT, 0.0), builder.block)
        for size in range(2, 2 * ROWS + 2):
            block = builder.append_basic_block("tile")
            sizes.add_case(v.number(size), block)
            builder.position_at_end(block)
            one = _Tile(v, size // 2, masks[: 1 + size % 2])
            sums = one.sums(a, fields)
            kinds = builder.switch(fields["then"], end)
            result.add_incoming(ir.Constant(_FLOAT, 0.0), builder.block)
            for then in (BIAS, BIAS_AND_RELU, KEEP_ACTIVE, SQUARES):
                block = builder.append_basic_block("then")
                kinds.add_case(v.number(then), block)
                builder.position_at_end(block)
                result.add_incoming(one.finish(then, sums, c, order, fields), builder.block)
                builder.branch(end)
        builder.position_at_end(end)
        return result

    return types.float32(*[types.int64] * 4, panel), codegen


def _panel(
    rows: int,
    columns: int,
    k: int,
    a: int,
    a_row: int,
    a_next: int,
    b: int,
    b_row: int,
    c: int,
    c_row: int,
    then: int,
    extra: int,
    order: int,
) -> float:
    """All tiles of a panel, given by its fields."""
    panel = Panel(rows, columns, k, a, a_row, a_next, b, b_row, c, c_row, then, extra, order)
    squares = 0.0
    for i in range(0, rows, ROWS):
        squares += _tile(min(ROWS, rows - i), a + i * a_row, c + i * c_row, order + 8 * i, panel)
    return squares


@cache
def tiles() -> int:
    """The address of what `multiply` calls. By address, because Numba would compile it again for each caller, and it is
    long."""
    return c_function(_panel, *[types.int64] * len(Panel._fields), result=types.float64)


@intrinsic
def multiply(typingctx: Any, tiles: Any, panel: Any) -> Any:
    """Work on one panel; returns the sum of squares, if asked for."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        unpack: Any = cgutils.unpack_tuple
        fields = unpack(builder, args[1])
        kind = ir.FunctionType(ir.DoubleType(), [_INT64] * len(fields))
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), fields)

    return types.float64(types.int64, panel), codegen
