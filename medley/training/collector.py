"""Steps the environment with a policy and hands over what happened."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError, NonFiniteError
from medley.replay.base import Step
from medley.robots.episode_delays import EpisodeDelays
from medley.training.acting import Act
from medley.training.held_noise import HeldNoise


class Episode(NamedTuple):
    """An episode that ended while collecting."""

    task: int
    reward: float
    length: int
    success: bool
    intentions: dict[str, Any] | None = None  # returns, successes and the order of choice, where there are intentions
    delays: dict[str, float] | None = None  # in real time


def episode_statistics(episodes: list[Episode], tasks: int) -> dict[str, float]:
    """Means over episodes, and over those of every task or as every intention sees them."""
    row = {
        "episode_reward": float(np.mean([e.reward for e in episodes])),
        "success": float(np.mean([e.success for e in episodes])),
        "episode_length": float(np.mean([e.length for e in episodes])),
    }
    seen = [e.intentions for e in episodes if e.intentions is not None]
    if seen:
        for i in range(len(seen[0]["returns"])):
            row[f"episode_reward_env_index_{i}"] = float(np.mean([one["returns"][i] for one in seen]))
            row[f"success_env_index_{i}"] = float(np.mean([one["successes"][i] for one in seen]))
            chosen = [choice == i for one in seen for choice in one["chosen"]]
            row[f"chosen_env_index_{i}"] = float(np.mean(chosen))
        return row
    for i in range(tasks):
        own = [e for e in episodes if e.task == i]
        if own:
            row[f"episode_reward_env_index_{i}"] = float(np.mean([e.reward for e in own]))
            row[f"success_env_index_{i}"] = float(np.mean([e.success for e in own]))
    return row


class Choice(NamedTuple):
    """Actions that were chosen, and what for."""

    obs: npt.NDArray[Any]  # [tasks, slots, ...]
    actions: npt.NDArray[Any]
    rows: npt.NDArray[Any]  # the same, one row per slot
    now: int  # the step counter after it, for error messages


EnvStep = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]


def plain(obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Observations as agents and replay want them: pictures as they are, numbers in 32 bits."""
    return obs if obs.dtype == np.uint8 else obs.astype(np.float32)


class Collecting(Protocol):
    """What a run asks of whoever takes its steps, here or elsewhere."""

    def collect(
        self, act: Act, steps: int, explore: str, step: int, tasks: npt.NDArray[np.bool_] | None = None
    ) -> tuple[list[Step], list[Episode]]:
        """`steps` steps in every slot, or in those of some `tasks` (a mask). `explore`: "policy" samples actions,
        "random" draws them uniformly. `step` is the counter before the first of them."""
        ...

    def drain(self) -> dict[str, float]:
        """What there is to say of collecting in a training line, of the time since it was last asked."""
        ...

    def tell(self, say: Callable[[str], None]) -> None:
        """Whom to tell what a reader should know at once."""
        ...

    # The end of episodes that could not be gone on with after `set_state`, as a step that nobody took: a real arm
    # cannot be put back into the middle of one.
    broken_off: Step | None

    def state(self) -> dict[str, npt.NDArray[Any]]: ...

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None: ...

    def close(self) -> None: ...


class Collector:
    def __init__(self, env: MultiTaskEnv, seed: int, noise_hold: int = 1, parts: int = 1) -> None:
        """`parts`: noise is drawn for so many times as many slots."""
        self.env = env
        self.shape = (len(env.tasks), env.slots_per_task)
        # On the CPU whatever the device: the actions tried do not depend on where the networks are.
        self.generator = torch.Generator().manual_seed(seed)
        self.obs, _ = env.reset(seed=env.seed)
        action_dim = env.single_action_space.shape[0]  # type: ignore[index]
        self.noise_shape = (self.shape[0], self.shape[1] * parts, action_dim)
        self.delays = EpisodeDelays(env)
        self.broken_off: Step | None = None
        self.held = HeldNoise(self.noise_shape, noise_hold) if noise_hold > 1 else None

    def collect(
        self, act: Act, steps: int, explore: str, step: int, tasks: npt.NDArray[np.bool_] | None = None
    ) -> tuple[list[Step], list[Episode]]:
        active = None if tasks is None else tasks[self.env.task_ids]
        chunk: list[Step] = []
        episodes: list[Episode] = []
        drawn = self._draw(steps, explore)
        for i in range(steps):
            now = step + (i + 1) * self.env.slots_per_task
            choice = self._choose(act, drawn[i], explore, now)
            one, ended = self.outcome(choice, self.env.step(choice.rows, active), tasks)
            chunk.append(one)
            episodes += ended
        return chunk, episodes

    def choose(self, act: Act, explore: str, step: int) -> Choice:
        """The actions of one step, for somebody who takes it in two halves: `outcome` is the other."""
        return self._choose(act, self._draw(1, explore)[0], explore, step + self.env.slots_per_task)

    def _choose(self, act: Act, drawn: Tensor, explore: str, now: int) -> Choice:
        obs = self._by_task(plain(self.obs))
        actions = self._actions(act, obs, drawn, explore)
        rows = actions.reshape(self.env.num_envs, -1)
        self._check("the policy gave a non-finite action", rows, now)
        return Choice(obs, actions, rows, now)

    def outcome(
        self, choice: Choice, result: EnvStep, tasks: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Step, list[Episode]]:
        """What came of a choice, where `result` is what the env's `step` returned."""
        next_obs, reward, terminated, truncated, info = result
        self.delays.look()
        if "dropped" in info and info["dropped"].any():  # an observation that came too late belongs to no step
            tasks = ~info["dropped"]
        ended = terminated | truncated
        any_ended = bool(ended.any())
        last_obs = next_obs
        if any_ended:
            mask = ended.reshape(-1, *[1] * (next_obs.ndim - 1))
            last_obs = np.where(mask, info["final_obs"], next_obs)
        self._check("the environment gave a non-finite reward", reward, choice.now)
        self._check("the environment gave a non-finite observation", last_obs, choice.now)
        step = Step(
            obs=choice.obs,
            action=choice.actions,
            reward=self._by_task(reward).astype(np.float32),
            next_obs=self._by_task(plain(last_obs)),
            terminated=self._by_task(terminated),
            ended=self._by_task(ended),
            active=tasks,
            success=self._by_task(info["final_info"]["episode"]["s"]) if any_ended else None,
        )
        kept = self._happened(step, info, choice.now)
        self.obs = next_obs
        final = info["final_info"]["episode"] if any_ended else {}
        return kept, [self._episode(int(k), final) for k in np.flatnonzero(ended)]

    # ---- what another collector may do differently

    def _actions(self, act: Act, obs: npt.NDArray[Any], drawn: Tensor, explore: str) -> npt.NDArray[np.float32]:
        """[tasks, slots, dim]"""
        return self._within(drawn) if explore == "random" else np.asarray(act(torch.from_numpy(obs), drawn).numpy())

    def _happened(self, step: Step, info: dict[str, Any], now: int) -> Step:
        """What is to be remembered of a step; `now` is the counter after it."""
        return step

    def _episode(self, slot: int, final: dict[str, Any]) -> Episode:
        """The episode that ended in `slot`."""
        task = int(self.env.task_ids[slot])
        score = float(final["r"][slot]), int(final["l"][slot]), bool(final["s"][slot])
        return Episode(task, *score, delays=self.delays.end())

    # ---- pieces

    def _draw(self, steps: int, explore: str) -> Tensor:
        """The random numbers of so many steps: uniform for random actions, normal for noise."""
        draw = torch.rand if explore == "random" else torch.randn
        drawn = draw((steps, *self.noise_shape), generator=self.generator)
        return drawn if self.held is None or explore == "random" else self.held.hold(drawn, self.generator)

    def _within(self, uniform: Tensor) -> npt.NDArray[np.float32]:
        return np.asarray((uniform * 2 - 1).numpy() * self.env.action_mask[:, None, :], dtype=np.float32)

    def _by_task(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return rows.reshape(*self.shape, *rows.shape[1:])

    def _check(self, what: str, rows: npt.NDArray[Any], step: int) -> None:
        """NaN in, NaN for ever: stop before it reaches replay."""
        if not np.issubdtype(rows.dtype, np.floating):
            return
        if not math.isfinite(rows.sum()):  # one cheap reduction; look closer only if it fails
            bad = ~np.isfinite(rows.reshape(len(rows), -1)).all(1)
            if bad.any():
                task = self.env.tasks[self.env.task_ids[np.flatnonzero(bad)[0]]]
                raise NonFiniteError(f"step {step}, task {task}: {what}.")

    def drain(self) -> dict[str, float]:
        return {}

    def tell(self, say: Callable[[str], None]) -> None:
        pass

    def close(self) -> None:
        self.env.close()

    def state(self) -> dict[str, npt.NDArray[Any]]:
        held = {} if self.held is None else self.held.state()
        return {"generator": self.generator.get_state().numpy(), **held, **self.env.state()}

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        if "generator" not in state:
            raise ConfigError("this checkpoint is of workers elsewhere: it needs collect.on=ray, as it was.")
        self.generator.set_state(torch.from_numpy(state["generator"].copy()))
        if self.held is not None:
            self.held.set_state(state)
        self.env.set_state({k: v for k, v in state.items() if k != "generator" and not k.startswith("held.")})
        now = self.env.state()
        self.obs = now["obs"]  # an env that cannot be put back begins its episode again
        anew = (state["elapsed"] > 0) & (now["elapsed"] == 0)
        self.broken_off = self._nothing(self._by_task(anew)) if anew.any() else None

    def _nothing(self, ended: npt.NDArray[np.bool_]) -> Step:
        """A step that was taken nowhere, and with which episodes ended."""
        obs, never = self._by_task(plain(self.obs)), np.zeros(self.shape, dtype=np.bool_)
        action = np.zeros((*self.shape, self.noise_shape[2]), dtype=np.float32)
        reward = np.zeros(self.shape, dtype=np.float32)
        return Step(obs, action, reward, obs, never, ended, active=np.zeros(self.shape[0], dtype=np.bool_))
