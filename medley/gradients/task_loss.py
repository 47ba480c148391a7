"""The losses of all tasks as one function, which can also be taken for every task alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

Gradients = dict[Tensor, Tensor]  # by parameter
Extras = dict[str, Tensor]  # what a loss wants to tell, [T, ...]
Function = Callable[..., tuple[Tensor, Extras]]


class PerTask(NamedTuple):
    """Gradients of every task's own loss: those of what tasks share [T, ...], and the rest as they are in `Mean`."""

    shared: list[Tensor]
    own: list[Tensor]
    losses: Tensor
    extras: Extras


class TaskLoss(nn.Module):
    """`function(*inputs) -> (losses[T], extras)`, where inputs are [T, ...] and all networks it uses are `networks`.

    `trained` names the networks whose parameters this loss trains, the main one first; the others only take part.
    Everything per task that the function uses must be an input or a `per_task` tensor of a network, so that it can be
    cut down to one task.
    """

    def __init__(self, function: Function, networks: dict[str, nn.Module], trained: Sequence[str]) -> None:
        super().__init__()
        self.networks = nn.ModuleDict(networks)
        self.function, self.main = function, trained[0]
        per_task = {f"networks.{key}.{name}" for key, net in networks.items() for name in _per_task(net)}
        tensors = dict(self.named_parameters(remove_duplicate=False)) | dict(self.named_buffers())
        self.shared: dict[str, Tensor] = {}
        self.own: dict[str, Tensor] = {}
        self._fixed: list[str] = []  # per task, but not trained by this loss
        seen: set[int] = set()
        for name, tensor in tensors.items():
            is_trained = name.split(".")[1] in trained and tensor.requires_grad and id(tensor) not in seen
            if is_trained:
                seen.add(id(tensor))
                (self.own if name in per_task else self.shared)[name] = tensor
            elif name in per_task:
                self._fixed.append(name)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Extras]:
        return self.function(*inputs)

    @property
    def parameters_trained(self) -> list[Tensor]:
        return [*self.shared.values(), *self.own.values()]

    @property
    def fixed(self) -> dict[str, Tensor]:
        """By name when asked for: `module.to(...)` puts new buffers in place of old ones."""
        buffers = dict(self.named_buffers())
        return {name: buffers[name] if name in buffers else self.get_parameter(name) for name in self._fixed}

    def last_shared(self) -> str | None:
        """The last weights in the network this loss is about that tasks share, if there are any."""
        own = f"networks.{self.main}."
        matrices = [name for name, p in self.shared.items() if name.startswith(own) and p.ndim > 1 and p.shape[-2] > 1]
        return matrices[-1] if matrices else None

    def plain(
        self, inputs: Sequence[Tensor], weigh: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Gradients, Tensor, Extras]:
        """Gradients of the mean over tasks: one backward pass. With `weigh` (losses -> weights [T]) what tasks share
        gets those of sum_i weights_i loss_i."""
        losses, extras = self(*inputs)
        parameters = self.parameters_trained
        if weigh is None:
            gradients = torch.autograd.grad(losses.mean(), parameters)
        else:
            total = (weigh(losses.detach()) * losses).sum()
            shared = torch.autograd.grad(total, list(self.shared.values()), retain_graph=True) if self.shared else ()
            own = torch.autograd.grad(losses.mean(), list(self.own.values())) if self.own else ()
            gradients = (*shared, *own)
        return dict(zip(parameters, gradients, strict=True)), losses.detach(), extras

    def per_task(self, inputs: Sequence[Tensor], only: Sequence[str] | None = None) -> PerTask:
        """The gradient of every task's loss in one vectorised pass: rows of a task meet its own copy of the weights.

        `only` names the shared parameters wanted; per-task parameters are left out then.
        """
        tasks = inputs[0].shape[0]
        wanted = list(self.shared) if only is None else list(only)
        shared = {name: self.shared[name] for name in wanted}
        rest = {name: tensor.detach() for name, tensor in self.shared.items() if name not in shared}
        own = self.own if only is None else {}
        fixed = self.fixed if only is None else self.fixed | self.own

        def loss(shared: Any, own: Any, fixed: Any, one: Any) -> tuple[Tensor, tuple[Tensor, Extras]]:
            given = rest | shared | {name: tensor.unsqueeze(1) for name, tensor in (own | fixed).items()}
            inputs = [tensor.unsqueeze(0) for tensor in one]
            losses, extras = functional_call(self, given, tuple(inputs), tie_weights=False)
            return losses[0], (losses[0], {name: value[0] for name, value in extras.items()})

        gradients: Any = grad_and_value(loss, argnums=(0, 1), has_aux=True)
        leading = (None, 1, 1, 0)
        values = tuple({n: t.detach() for n, t in group.items()} for group in (shared, own, fixed))
        with torch.no_grad():  # nobody asks for gradients of these gradients
            (of_shared, of_own), (_, (losses, extras)) = vmap(gradients, in_dims=leading)(*values, list(inputs))
        return PerTask(
            [of_shared[name] for name in wanted],
            [of_own[name].movedim(0, 1) / tasks for name in own],
            losses,
            extras,
        )


def _per_task(network: nn.Module) -> list[str]:
    names: list[str] = network.per_task()  # type: ignore[operator]
    return names
