"""Several seeds as one more dimension: the traced update of one seed becomes an update of all of them at once.

Nothing in an agent knows of it. The tensors of the seeds are laid side by side in memory, each seed's own tensors
becoming views of the whole, and every operation of the graph is mapped over the new dimension.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from medley.training.seed import Seed
from medley.training.tracing import PRODUCTS, aten, trace


def stack_trace(seeds: Sequence[Seed], phase: str) -> tuple[fx.GraphModule, list[Tensor]]:
    """As `trace`, for all seeds: every argument of the graph has the seeds as its first dimension."""
    traced = [trace(seed, phase) for seed in seeds]
    module = traced[0][0]
    if any(other.code != module.code for other, _ in traced):
        raise ValueError("the seeds' updates differ in more than their numbers")
    tensors = [stack_in_place(own) for own in zip(*(tensors for _, tensors in traced), strict=True)]
    random = [torch.stack(own) for own in zip(*(seed.draw(phase) for seed in seeds), strict=True)]
    mapped = _Mapped(module, len(seeds))
    with torch.no_grad():
        return make_fx(lambda *inputs: mapped.run(*inputs), tracing_mode="real")(*tensors, *random), tensors


def stack_in_place(tensors: Sequence[Tensor]) -> Tensor:
    """One tensor [seeds, ...] of which the given ones become views; the same again if they already are."""
    first, step = tensors[0], tensors[0].numel()
    if all(t.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() for t in tensors) and all(
        t.storage_offset() == i * step for i, t in enumerate(tensors)
    ):
        return first.detach().as_strided((len(tensors), *first.shape), (step, *first.stride()), 0)
    whole = torch.stack([t.detach() for t in tensors])
    for tensor, own in zip(tensors, whole, strict=True):
        tensor.data = own
    return whole


class _Mapped(fx.Interpreter):
    """Runs a graph of one seed on stacked tensors."""

    def __init__(self, module: fx.GraphModule, seeds: int) -> None:
        super().__init__(module)
        self.seeds = seeds

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        rule = _RULES.get(target)
        if rule is not None:
            return rule(*args, **kwargs)
        if target is aten.view.default:  # convolutions of several seeds lie otherwise in memory than those of one
            target = torch.reshape
        flat: list[Tensor] = []

        def take(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            flat.append(x)
            return _Hole(len(flat) - 1)

        holes = fx.node.map_aggregate((args, kwargs), take)
        if not flat:  # a constant, the same for every seed
            constant: Tensor = target(*args, **kwargs)
            return constant.expand(self.seeds, *constant.shape)

        asked: list[bool] = []  # of several results, which there are: a backward pass leaves out what nobody asked for

        def once(*inputs: Tensor) -> Any:
            own_args, own_kwargs = fx.node.map_aggregate(holes, lambda x: inputs[x.i] if isinstance(x, _Hole) else x)
            result = target(*own_args, **own_kwargs)
            if not isinstance(result, tuple):
                return result
            asked[:] = [x is not None for x in result]
            return tuple(x for x in result if x is not None)

        results = torch.vmap(once)(*flat)
        if all(asked):
            return results
        there = iter(results)
        return tuple(next(there) if is_there else None for is_there in asked)


class _Hole:
    def __init__(self, i: int) -> None:
        self.i = i


def _elementwise(op: Any) -> Callable[..., Tensor]:
    """PyTorch has no mapping for some operations; on tensors of equal shape they need none."""

    def whole(*args: Any, **kwargs: Any) -> Tensor:
        shapes = {x.shape for x in args if isinstance(x, Tensor)}
        if len(shapes) > 1:
            raise ValueError(f"{op} on tensors of different shapes cannot be stacked: spell it out")
        result: Tensor = op(*args, **kwargs)
        return result

    return whole


def _product(op: Any) -> Callable[..., Tensor]:
    """Matrix products of all seeds: one batched product on a GPU, one after another on a CPU.

    A CPU gains nothing by batching, and its libraries round a product by how many there are and by where in memory
    they lie.
    """

    def products(*inputs: Tensor) -> Tensor:
        if not inputs[0].is_cuda:
            return torch.stack([op(*(x.clone() for x in own)) for own in zip(*inputs, strict=True)])
        left, right = (x.flatten(0, -3) for x in inputs[-2:])
        if len(inputs) == 2:
            out = torch.bmm(left, right)
        else:
            bias = inputs[0] if inputs[0].ndim == inputs[1].ndim else inputs[0].unsqueeze(-2)  # addmm takes a vector
            out = torch.bmm(left, right) + bias.flatten(0, -3)
        return out.view(*inputs[-1].shape[:-2], *out.shape[1:])

    return products


def _one_by_one(op: Any) -> Callable[..., Any]:
    """Seed after seed: for operations that are large enough by themselves, or that mapping does not know."""

    def each(*args: Any, **kwargs: Any) -> Any:
        seeds = next(len(x) for x in args if isinstance(x, Tensor))
        results = [op(*(x[i] if isinstance(x, Tensor) else x for x in args), **kwargs) for i in range(seeds)]
        return tuple(None if own[0] is None else torch.stack(own) for own in zip(*results, strict=True))

    return each


_RULES: dict[Any, Callable[..., Any]] = {
    operator.getitem: operator.getitem,  # of several results
    aten.convolution_backward.default: _one_by_one(aten.convolution_backward.default),
    **{op: _elementwise(op) for op in (aten.lerp_.Scalar, aten.addcmul_.default)},
    **{op: _product(op) for op in PRODUCTS},
}
