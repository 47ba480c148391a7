"""The policy that acts while an agent learns: the agent's own, or a copy that stays as it is until it is refreshed.

Observations [tasks, rows, ...], noise and actions [tasks, rows, dim] are CPU tensors, wherever the policy runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from medley.agents.api import Agent


class Act(Protocol):
    def __call__(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """Actions; standard normal noise explores, None does not."""
        ...


class Acting(Act, Protocol):
    def refresh(self) -> None:
        """Act as the agent would now."""
        ...


def acts_on_gpu(agent: Agent, rows: int, steps: int, device: torch.device) -> bool:
    """Where a copy acts quicker, if it is refreshed every `steps` steps. Measured; the table is in docs/speed.md.

    A rule and not a stopwatch, since the place is part of a run's exact arithmetic.
    """
    if device.type != "cuda":
        return False
    if agent.sees_pictures:
        return True  # convolutions: a core would take milliseconds
    weights = sum(t.numel() for t in agent.policy_tensors())
    on_gpu = 110 + 40 / steps  # microseconds
    on_cpu = 20 + 1.7e-5 * rows * weights + (250 + 5e-4 * weights) / steps
    return on_gpu < on_cpu


class OwnPolicy:
    """The agent itself: always up to date, and in the way of updates."""

    def __init__(self, agent: Agent, device: torch.device, act: Act | None = None) -> None:
        self._act, self._device = act or agent.act, device

    def refresh(self) -> None:
        pass

    def __call__(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        noise = None if noise is None else noise.to(self._device)
        return self._act(obs.to(self._device), noise).cpu()


def quickest(agent: Agent) -> Act:
    """How an agent on the CPU acts: by compiled code where there is some."""
    native = agent.native(threads=1)
    return agent.act if isinstance(native, str) else native.act


class Copy:
    """A policy that stays as it is until it is refreshed."""

    def weights(self) -> list[Tensor]:
        """As they were at the last refresh."""
        raise NotImplementedError

    def put(self, weights: list[Tensor]) -> None:
        """Act by these from now on, until the next refresh."""
        raise NotImplementedError


class CopyOnCPU(Copy):
    """A copy on the CPU of an agent anywhere, by compiled code where there is some."""

    def __init__(self, agent: Agent, copy: Agent, act: Act | None = None) -> None:
        self._act = act or quickest(copy)
        self._agent, self._to = agent, copy.policy_tensors()
        self._on_gpu = any(tensor.is_cuda for tensor in agent.policy_tensors())
        if self._on_gpu:
            self._between = [torch.empty_like(t, pin_memory=True) for t in self._to]
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._waiting = False
        self.refresh()

    def refresh(self) -> None:
        with torch.no_grad():
            if not self._on_gpu:
                torch._foreach_copy_(self._to, self._agent.policy_tensors())
                return
            for to, source in zip(self._between, self._agent.policy_tensors(), strict=True):
                to.copy_(source, non_blocking=True)
            self._copied.record()
            self._waiting = True

    def weights(self) -> list[Tensor]:
        if self._waiting:
            self._copied.synchronize()
            with torch.no_grad():
                torch._foreach_copy_(self._to, self._between)
            self._waiting = False
        return self._to

    def put(self, weights: list[Tensor]) -> None:
        with torch.no_grad():
            torch._foreach_copy_(self.weights(), weights)

    def __call__(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        self.weights()
        return self._act(obs, noise)


@dataclass
class _Captured:
    graph: Any
    obs: Tensor
    noise: Tensor | None
    actions: Tensor


class CopyOnGPU(Copy):
    """A copy on the GPU: transfers and network as one captured graph, on a stream that goes before the updates'."""

    def __init__(self, agent: Agent, copy: Agent, act: Act | None = None) -> None:
        self._agent, self._act, self._to = agent, act or copy.act, copy.policy_tensors()
        self._stream: Any = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
        self._ready, self._done = torch.cuda.Event(), torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._captured: dict[tuple[torch.Size, bool], _Captured] = {}
        self.refresh()

    def refresh(self) -> None:
        """Waits for the updates launched before it, not for those after."""
        self.put(self._agent.policy_tensors())

    def weights(self) -> list[Tensor]:
        return self._to

    def put(self, weights: list[Tensor]) -> None:
        with torch.no_grad():
            torch._foreach_copy_(self._to, weights)
        self._ready.record()
        self._stream.wait_event(self._ready)

    def __call__(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        key = obs.shape, noise is None
        if key not in self._captured:
            self._captured[key] = self._capture(obs, noise)
        c = self._captured[key]
        c.obs.copy_(obs)
        if c.noise is not None and noise is not None:
            c.noise.copy_(noise)
        with torch.cuda.stream(self._stream):
            c.graph.replay()
            self._done.record()
        self._done.synchronize()
        return c.actions.clone()

    def _capture(self, obs: Tensor, noise: Tensor | None) -> _Captured:
        host_obs = torch.empty(obs.shape, dtype=obs.dtype, pin_memory=True).copy_(obs)
        host_noise = None if noise is None else torch.empty(noise.shape, pin_memory=True).copy_(noise)

        def run() -> Tensor:
            on_gpu = None if host_noise is None else host_noise.to("cuda", non_blocking=True)
            return self._act(host_obs.to("cuda", non_blocking=True), on_gpu)

        with torch.cuda.stream(self._stream):
            host_actions = torch.empty(run().shape, pin_memory=True)
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            host_actions.copy_(run(), non_blocking=True)
        return _Captured(graph, host_obs, host_noise, host_actions)
