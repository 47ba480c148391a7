"""Letting somebody who knows how act in an env, and keeping what shows success."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from medley.data.examples import CONTEXT, Array
from medley.envs.api import MultiTaskEnv
from medley.errors import MedleyError

AFTER = 10  # steps that a rollout goes on after its first success
HELD = 5  # successive successful steps that make a state an example of a main task
PER_EPISODE = 5  # examples of a task that one episode may give, so that they are not all alike
PATIENCE = 50  # episodes that may fail beside those that are needed

Act = Callable[[Array, Array], Array]  # (observations, what each slot is to do) -> actions


@dataclass
class Wish:
    """What to record for each task in `tasks`."""

    tasks: Sequence[int]
    examples: int
    demos: int
    history: int = 3  # observations kept before every example, for frame stacks
    noise: float = 0.0  # standard deviation of what is added to actions


@dataclass
class Trace:
    """One slot's episode so far."""

    task: int
    observations: list[Array]
    actions: list[Array] = field(default_factory=list)
    rewards: list[Array] = field(default_factory=list)
    success: list[Array] = field(default_factory=list)
    terminated: bool = False

    def over(self) -> bool:
        """Some steps after the first success, all that is wanted has been seen."""
        own = [row[self.task] for row in self.success]
        return any(own[: len(own) - AFTER])


@dataclass
class Found:
    """Rows of examples and demonstrations by field, and how often each task was tried and done."""

    examples: list[dict[str, Array]]
    demos: list[dict[str, Array]]
    tried: Array
    done: Array


class Recorder:
    """Acts until every wish is fulfilled. In an env with intentions each episode is about one of them, chosen here,
    and its states may be examples of all; elsewhere a slot has a task, and its episodes are about that."""

    def __init__(self, env: MultiTaskEnv, wish: Wish, able: Sequence[int], seed: int) -> None:
        self.env, self.wish = env, wish
        self.count = len(env.intentions or env.tasks)
        self.able = [task for task in wish.tasks if task in able] or list(able)
        self.rng = np.random.default_rng([seed, 0xDE30])
        self.examples: list[list[dict[str, Array]]] = [[] for _ in range(self.count)]
        self.demos: list[list[dict[str, Array]]] = [[] for _ in range(self.count)]
        self.tried, self.done = np.zeros((2, self.count), dtype=np.int64)
        needed = max(wish.demos, math.ceil(wish.examples / PER_EPISODE))
        self.limit = (PATIENCE + 10 * needed) * len(wish.tasks)

    def run(self, act: Act, on_progress: Callable[[int], None] = lambda rows: None) -> Found:
        env = self.env
        obs, _ = env.reset()
        traces = [self._begin(slot, obs[slot]) for slot in range(env.num_envs)]
        while any(self._lacks(task) for task in self.wish.tasks):
            wanted = np.array([trace.task for trace in traces])
            active = np.ones(env.num_envs, np.bool_) if env.intentions else np.array([self._lacks(t) for t in wanted])
            actions = self._noisy(act(obs, wanted))
            obs, reward, terminated, truncated, info = env.step(actions, active)
            ended = terminated | truncated
            arrived = np.where(ended[:, None], info["final_obs"], obs) if ended.any() else obs
            rewards, success = self._by_task(reward, info)
            over = ended.copy()
            for slot in np.flatnonzero(active):
                trace = traces[slot]
                trace.actions.append(actions[slot])
                trace.observations.append(arrived[slot])
                trace.rewards.append(rewards[slot])
                trace.success.append(success[slot])
                trace.terminated = bool(terminated[slot])
                over[slot] |= trace.over()
                if over[slot]:
                    self._harvest(trace)
            if (over & ~ended).any():
                obs, _ = env.reset(options={"reset_mask": over & ~ended})
            for slot in np.flatnonzero(over):
                traces[slot] = self._begin(int(slot), obs[slot])
            if over.any():
                on_progress(sum(map(len, self.examples)) + sum(map(len, self.demos)))
                self._check_patience()
        examples = [rows for task in self.examples for rows in task]
        return Found(examples, [rows for task in self.demos for rows in task], self.tried, self.done)

    # ---- episodes

    def _begin(self, slot: int, obs: Array) -> Trace:
        if not self.env.intentions:
            return Trace(int(self.env.task_ids[slot]), [obs])
        left = [self._missing(task) for task in self.able]
        return Trace(self.able[int(np.argmax(left))], [obs])

    def _missing(self, task: int) -> float:
        """The share of what is wanted of a task that is still missing; fewer tries first where it is the same."""
        parts = [(self.wish.examples, self.examples[task]), (self.wish.demos, self.demos[task])]
        return sum(1 - len(got) / want for want, got in parts if want) - 1e-4 * float(self.tried[task])

    def _lacks(self, task: int) -> bool:
        if task not in self.wish.tasks:
            return False
        demos = self.wish.demos if task in self.able else 0
        return len(self.examples[task]) < self.wish.examples or len(self.demos[task]) < demos

    def _noisy(self, actions: Array) -> Array:
        space = self.env.single_action_space
        noise = self.wish.noise * self.rng.standard_normal(actions.shape)
        return np.clip(actions + noise, space.low, space.high).astype(np.float32)  # type: ignore[attr-defined]

    def _by_task(self, reward: Array, info: dict[str, Any]) -> tuple[Array, Array]:
        """[slots, tasks] of a step; of other tasks than a slot's own nothing is known, unless they are intentions."""
        if self.env.intentions:
            return info["rewards"], info["successes"]
        own = np.eye(self.count, dtype=np.bool_)[self.env.task_ids]
        return own * reward[:, None], own & info["success"][:, None]

    def _check_patience(self) -> None:
        if self.tried.sum() < self.limit:
            return
        names = self.env.intentions or self.env.tasks
        short = [task for task in self.wish.tasks if self._lacks(task)]
        if not short:
            return
        found = ", ".join(
            f"{names[task]}: {len(self.examples[task])} examples and {len(self.demos[task])} demonstrations, "
            f"{self.done[task]} of {self.tried[task]} episodes successful"
            for task in short
        )
        raise MedleyError(f"success is too rare to record what was asked for ({found}). Ask for less, or tasks=[…].")

    # ---- what is kept

    def _harvest(self, trace: Trace) -> None:
        success = np.array(trace.success)
        self.tried[trace.task] += 1
        if success[:, trace.task].any():
            self.done[trace.task] += 1
            if len(self.demos[trace.task]) < self.wish.demos:
                self.demos[trace.task].append(_demonstration(trace))
        for task in range(self.count) if self.env.intentions else [trace.task]:
            room = self.wish.examples - len(self.examples[task])
            if task not in self.wish.tasks or room <= 0:
                continue
            auxiliary = bool(self.env.intentions) and task > 0
            steps = np.flatnonzero(_held(success[:, task], 1 if auxiliary else HELD))
            if len(steps) > PER_EPISODE:
                steps = steps[np.linspace(0, len(steps) - 1, PER_EPISODE).round().astype(int)]
            self.examples[task] += [_example(trace, task, int(t) + 1, self.wish.history) for t in steps[:room]]


def _held(success: Array, least: int) -> Array:
    """True inside runs of at least so many successes."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], success.astype(np.int8), [0]])))
    out = np.zeros(len(success), np.bool_)
    for begin, end in edges.reshape(-1, 2):
        out[begin:end] = end - begin >= least
    return out


def _demonstration(trace: Trace) -> dict[str, Array]:
    count = len(trace.actions)
    last = np.arange(count) == count - 1
    return {
        "observations": np.array(trace.observations[:-1]),
        "next_observations": np.array(trace.observations[1:]),
        "actions": np.array(trace.actions),
        "rewards": np.array(trace.rewards),
        "success": np.array(trace.success),
        "terminations": last & trace.terminated,
        "truncations": last & (not trace.terminated),
        "step": np.arange(count),
        "task_id": np.full(count, trace.task),
    }


def _example(trace: Trace, task: int, state: int, history: int) -> dict[str, Array]:
    """The observation after `state` steps, and those before it."""
    first = max(0, state - history)
    steps = np.arange(first, state + 1)
    nothing = np.zeros_like(trace.rewards[0])
    ends = trace.terminated & (steps == len(trace.actions))
    return {
        "observations": np.array(trace.observations[first : state + 1]),
        "rewards": np.array([trace.rewards[t - 1] if t else nothing for t in steps]),
        "success": np.array([trace.success[t - 1] if t else nothing > 0 for t in steps]),
        "terminations": ends,
        "truncations": np.zeros(len(steps), np.bool_),
        "step": steps,
        "task_id": np.where(steps == state, task, CONTEXT),
    }
