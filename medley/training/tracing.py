"""An agent's update as a graph of tensor operations: sampling, backward passes, optimisers and metrics included.

The agent's own `update` is traced once per phase. What it reads and changes (parameters, moments, replay) becomes
the graph's arguments, so that the same graph can run on other tensors: those of several seeds, for instance.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from medley.training.seed import Seed

aten: Any = torch.ops.aten
PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default}


def trace(seed: Seed, phase: str) -> tuple[fx.GraphModule, list[Tensor]]:
    """A graph of (tensors..., random numbers...), and the tensors it read and changed while it was traced."""

    def update(*random: Tensor) -> None:
        seed.update(phase, random)

    graph = make_fx(update, tracing_mode="real")(*seed.draw(phase))
    return graph, _lift(graph)


def _lift(module: fx.GraphModule) -> list[Tensor]:
    """Turn the constants of a graph into its first arguments."""
    graph: fx.Graph = module.graph
    found: dict[Any, fx.Node] = {}
    first = next(iter(graph.nodes))
    for node in list(graph.nodes):
        if node.op == "get_attr":
            if node.target not in found:
                with graph.inserting_before(first):
                    found[node.target] = graph.placeholder(f"tensor{len(found)}")
            node.replace_all_uses_with(found[node.target])
            graph.erase_node(node)
        elif changes_first(node) and node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[0])  # its result is that same tensor
    graph.set_codegen(fx.graph.CodeGen())  # plain arguments, one after another
    module.recompile()
    return [getattr(module, name) for name in found]


def changes_first(node: fx.Node) -> bool:
    """Whether it is an operation in place, on its first argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name.endswith("_")


def is_view(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.returns) and schema.returns[0].alias_info is not None


LONG, SHORT = 1024, 256  # a sum over so many rows is divided into parts of at least so many
TILE, PROCESSORS = 64, 132  # of a product that a GPU's processor works on at a time, and how many there may be


def divide_long_products(module: fx.GraphModule) -> None:
    """A product that sums over many rows, one after another, leaves most of a GPU idle: do parts side by side.

    Gradients of weights sum over the batch; inner products of whole gradients over all weights.
    """
    graph: fx.Graph = module.graph
    for node in list(graph.nodes):
        if node.target not in (aten.mm.default, aten.bmm.default, aten.addmm.default):
            continue
        *bias, a, b = node.args
        left, right = a.meta["val"], b.meta["val"]
        tiles = math.prod(left.shape[:-2]) * -(-left.shape[-2] // TILE) * -(-right.shape[-1] // TILE)
        parts = _parts(left.shape[-1], tiles)
        if parts == 1:
            continue
        with graph.inserting_before(node):
            product = graph.call_function(_product_in_parts, (a, b, parts))
            node.replace_all_uses_with(graph.call_function(aten.add.Tensor, (product, *bias)) if bias else product)
        graph.erase_node(node)
    module.recompile()


def _parts(rows: int, tiles: int) -> int:
    """Into how many parts a sum over `rows` is divided, when the result has so many tiles."""
    parts = 4
    if rows < LONG or rows % parts or rows // parts < SHORT or tiles > PROCESSORS:
        return 1
    while rows % (2 * parts) == 0 and rows // (2 * parts) >= SHORT and tiles * parts < PROCESSORS:
        parts *= 2
    return parts


def _product_in_parts(left: Tensor, right: Tensor, parts: int) -> Tensor:
    members = left.shape[:-2]
    left, right = left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:])
    m, inner, n = left.shape[1], left.shape[2] // parts, right.shape[2]
    a = left.view(-1, m, parts, inner).transpose(1, 2).reshape(-1, m, inner)
    b = right.reshape(-1, inner, n)
    return torch.bmm(a, b).view(-1, parts, m, n).sum(1).view(*members, m, n)
