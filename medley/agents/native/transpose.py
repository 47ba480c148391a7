"""Matrices the other way round."""

from __future__ import annotations

from typing import Any

from numba import types

from medley.agents.native.machine import FLOAT, compiled, floats
from medley.agents.native.vectors import LANES, Vectors
from medley.native.intrinsics import intrinsic


@intrinsic
def _square(typingctx: Any, source: Any, source_row: Any, target: Any, target_row: Any) -> Any:
    """LANES x LANES numbers; distances in bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_row, target, target_row = args
        v, half = Vectors(builder), LANES // 2
        every = v.first(v.number(LANES))
        rows = [v.load(builder.add(source, builder.mul(source_row, v.number(r))), every, 0) for r in range(LANES)]
        # Interleaving the first half of the rows with the second moves one bit of a number's row into its column.
        low, high = ([i // 2 + start + i % 2 * LANES for i in range(LANES)] for start in (0, half))
        for _ in range(half.bit_length()):
            pairs = [(rows[i], rows[i + half]) for i in range(half)]
            rows = [v.shuffle(*pair, lanes) for pair in pairs for lanes in (low, high)]
        for r, row in enumerate(rows):
            v.store(row, builder.add(target, builder.mul(target_row, v.number(r))), every, 0)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@compiled
def transpose(source: int, rows: int, width: int, pitch: int, target: int) -> None:
    """[rows, width] into the first columns of [width, pitch]."""
    for j in range(0, width, LANES):
        for i in range(0, rows, LANES):
            a, b = source + FLOAT * (i * width + j), target + FLOAT * (j * pitch + i)
            if rows - i >= LANES and width - j >= LANES:
                _square(a, FLOAT * width, b, FLOAT * pitch)
                continue
            for r in range(min(LANES, rows - i)):
                x = floats(a + FLOAT * r * width, width - j)
                for k in range(min(LANES, width - j)):
                    floats(b + FLOAT * (k * pitch + r), 1)[0] = x[k]
