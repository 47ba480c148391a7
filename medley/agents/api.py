"""What an agent is to medley, and which kinds exist."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.config.options import opt
from medley.errors import ConfigError, closest

if TYPE_CHECKING:
    from medley.replay.base import ReplayBase, Step

Metrics = dict[str, Tensor]


@dataclass
class Batch:
    """Transitions ordered by task: [tasks, per_task, ...]. `discount` is 0 after a true end, gamma^n otherwise."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Spaces:
    """What the environment looks like to an agent."""

    tasks: tuple[str, ...]
    obs_dim: int
    action_dim: int
    action_mask: npt.NDArray[np.bool_] = field(repr=False)
    horizon: int = 500  # steps of the longest episode
    slots: int = 1  # per task
    # Where observations are pictures (uint8, channels first): channels of the whole stack, height, width; obs_dim is 0.
    image: tuple[int, int, int] | None = None
    max_reward: float | None = None  # the largest there can be, where it is known


@dataclass
class AgentConfig:
    """Options every agent has. An agent's own options extend this class, beside the agent."""

    name: str = opt("", "name of the agent, part of the run folder")
    builder: str = opt("", "which algorithm this is (see `medley list agents`)")
    missing: str | None = opt(None, "set on names that this version does not have yet: what they need")
    discount: float = opt(0.99, "gamma, the discount per step")
    n_step: int = opt(1, "rewards summed before bootstrapping")
    reward_scale: float = opt(1.0, "every reward is multiplied by this before learning")
    reward_normalization: str = opt(
        "none",
        "rewards of every task are divided by: none | ema_std (a running deviation) | return_range (BRC: the range of "
        "returns) | return_std (FlashSAC: the deviation of returns) | ars (their mean size in replay, with resets)",
    )
    v_max: float = opt(
        10.0, "return_range and return_std bring returns to within this; bins of a categorical critic too"
    )
    reset_every: int | None = opt(
        None,
        "steps after which networks and optimisers start afresh, replay stays; never in the last fifth of the run; "
        "0: never; null: never, with ars every fifth of the run",
    )
    batch_size: int | None = opt(
        None,
        "transitions per update where replay_buffer.batch_size is null, in equal shares of tasks as near as they come; "
        "null: 128 per task",
    )
    replay_per_task: int = opt(100_000, "transitions kept per task where replay_buffer.capacity is null")
    updates_per_step: float = opt(1, "updates per step of a task where experiment.updates is null")
    collect_steps: int = opt(1, "steps of every slot per chunk where experiment.collect_steps is null")
    burst: bool = opt(False, "when learning begins, as many updates at once as there were random steps of a task")
    noise_hold: int = opt(1, "exploration noise stays the same for n steps, n drawn with chances of 1 / n^2 up to this")


class NativeUpdate(Protocol):
    """An agent's update as compiled code: the same numbers up to rounding, in the same tensors."""

    metrics: Tensor  # of the last update, all in one piece

    def named(self, metrics: Tensor) -> Metrics:
        """Such a piece by names."""
        ...

    def update(self, batch: Batch, phase: str) -> Metrics:
        """One update; the metrics are overwritten by the next."""
        ...

    def update_from(self, replay: ReplayBase, reward_factor: Tensor, per_task: int, phase: str) -> Metrics:
        """The same on `replay.sample(per_task)`, with rewards times `reward_factor` [tasks, 1]."""
        ...

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """As the agent's own."""
        ...

    def close(self) -> None:
        """End its threads."""
        ...


class Agent(ABC):
    """Networks, losses and optimisers. Knows nothing of files, logs or environments.

    `update` never reads a value back from the device and never branches on one; what must branch is a phase, a name
    that `phase(n)` gives for the n-th update. All tensors stay where they are for the agent's whole life.
    """

    sees_pictures = False  # whether observations are pictures
    has_intentions = False  # whether its tasks are what may be wanted in one and the same world
    uses_experts = False  # whether it learns from examples or demonstrations

    def knows_unseen(self) -> bool:
        """Whether it can act in tasks that it was not trained on."""
        return False

    @abstractmethod
    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """Actions [tasks, rows, dim] for obs [tasks, rows, dim]; standard normal noise explores, None does not."""

    def act_unseen(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """The same in tasks that were not trained, however many `obs` has."""
        raise ConfigError(f"{type(self).__name__} cannot act in tasks that it was not trained on.")

    @abstractmethod
    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        """One gradient update; metrics are tensors, scalar or one number per task. `noise` is what `draw_noise` gives;
        without it the agent draws its own."""

    def policy_tensors(self) -> list[Tensor]:
        """Everything `act` reads that learning changes, where it is now: stacking seeds moves it once."""
        return [value for value in self.state_dict().values() if value.is_floating_point()]

    def policy_names(self) -> list[str]:
        """What of `state_dict` an agent needs that only acts. The rest may be left out: see training/policy_file.py."""
        return list(self.state_dict())

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        """The random numbers of one update on `per_task` rows of every task, from the agent's own generators."""
        return []

    def generators(self) -> list[torch.Generator]:
        """What `draw_noise` draws from."""
        return []

    def set_traceable(self) -> None:  # noqa: B027  (an agent may have nothing to do)
        """From now on `update` consists of operations that a compiler understands."""

    def reduce_precision(self) -> None:
        """From now on compute in 16-bit floats (bf16) where that is safe. Parameters stay as they are."""
        raise ConfigError(f"setup.precision=bf16: {type(self).__name__} does not know how.")

    def phase(self, update: int) -> str:
        return "all"

    def is_eager(self, phase: str) -> bool:
        """Whether updates of this phase stay out of captured graphs: it is rare, or reads what no graph can."""
        return False

    def observe(self, chunk: Sequence[Step], updates: int) -> None:  # noqa: B027  (most learn from replay alone)
        """What was collected, in order, once it is in replay; `updates` have been done so far. Between two chunks."""

    def anneal(self, share: float) -> None:  # noqa: B027
        """This share of the run is over; between two chunks."""

    def reset(self, seed: int) -> None:
        """Start afresh, in the tensors that are there; between two chunks."""
        raise ConfigError(f"agent.reset_every: {type(self).__name__} does not know how to start afresh.")

    def entropy_reward(self) -> Tensor | None:
        """What a policy of the entropy it is to have earns by it per step, [tasks, 1] (on the device)."""
        return None

    def native(self, threads: int) -> NativeUpdate | str:
        """A compiled update for CPUs, or why there is none."""
        return f"{type(self).__name__} has no compiled update"

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Everything the future depends on: parameters, targets, optimiser moments, random state."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy into the tensors that are there already."""

    @abstractmethod
    def load_weights(self, state: dict[str, Tensor]) -> None:
        """Start from another run's weights: parameters and targets only."""


@dataclass(frozen=True)
class AgentKind:
    options: type[AgentConfig]
    build: Callable[[Any, Spaces, torch.device, int], Agent]  # (options, spaces, device, seed) -> agent
    # refuses impossible combinations before any work; gets (options, number of tasks)
    check: Callable[[Any, int], None] = lambda options, tasks: None
    acting: tuple[str, ...] = ()  # options that change how it acts and nothing else: an evaluation may change them

    @property
    def sees_pictures(self) -> bool:
        """Whether it learns from pictures, and from nothing else, as the class that it builds says."""
        return bool(getattr(self.build, "sees_pictures", False))

    @property
    def has_intentions(self) -> bool:
        """Whether its tasks are what may be wanted in one world: the env must have intentions."""
        return bool(getattr(self.build, "has_intentions", False))

    @property
    def uses_experts(self) -> bool:
        return bool(getattr(self.build, "uses_experts", False))


_KINDS: dict[str, AgentKind] = {}


def register_agent(builder: str, kind: AgentKind) -> None:
    """Make `agent.builder=<builder>` available. Packages call this from their `medley.plugins` entry point."""
    _KINDS[builder] = kind


def agent_kind(builder: str) -> AgentKind:
    if builder not in _KINDS:
        raise ConfigError(f"there is no agent builder {builder!r}.{closest(builder, _KINDS)}")
    return _KINDS[builder]


def agent_kinds() -> dict[str, AgentKind]:
    return dict(_KINDS)
