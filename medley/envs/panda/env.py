"""`panda-reach`: a simulated arm that is to bring its tool to a place and stay; with several places to choose from,
`panda-reach-multitask`. The twin of the reference's `SimPandaReach`.

A step is 0.2 s. The action moves the target of the arm's controller by up to 4 cm, within the limits that a real arm
would have (`medley.robots.limits`), in twenty pieces of 10 ms.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array, MultiTaskEnv, StepResult, stream_seed
from medley.envs.panda.config import (
    DT,
    HORIZON,
    RANDOM_START,
    RATE,
    PandaConfig,
    address_of,
    limits_of,
    observations_held,
    panda_intentions,
)
from medley.envs.panda.pictures import Painter
from medley.envs.panda.simulated import SUBTARGET_DT, SimulatedArm

SUBTARGETS = round(DT / SUBTARGET_DT)
FAR = 2.0  # metres: no difference between two places in reach is larger


class ReachScore:
    """Distances of slots to all goals: their rewards, and who has been where long enough."""

    def __init__(self, cfg: PandaConfig, slots: int) -> None:
        self.goals = np.array(list(cfg.goals.values()), dtype=np.float64)
        self._radius, self._needed = cfg.radius, observations_held(cfg.hold)
        self.distance = np.zeros((slots, len(self.goals)))
        self.inside = np.zeros((slots, len(self.goals)), dtype=np.int64)  # successive observations within the radius
        self.reached = np.zeros((slots, len(self.goals)), dtype=np.bool_)

    def differences(self, positions: Array) -> Array:
        """What is observed of positions [n, 3]: [n, 3 * goals]."""
        return (positions[:, None] - self.goals).reshape(len(positions), -1)

    def begin(self, slots: Array, positions: Array) -> None:
        self.inside[slots], self.reached[slots] = 0, False
        self.observe(slots, positions)

    def observe(self, slots: Array, positions: Array) -> Array:
        """Takes the next positions into account; returns how much nearer they are, [slots, goals]."""
        distance = np.sqrt(np.square(positions[:, None] - self.goals).sum(-1))
        nearer: Array = self.distance[slots] - distance
        self.distance[slots] = distance
        self.inside[slots] = np.where(distance <= self._radius, self.inside[slots] + 1, 0)
        self.reached[slots] |= self.inside[slots] >= self._needed
        return nearer

    def examples(self, goal: int, count: int, rng: np.random.Generator) -> Array:
        """Places at a goal, as they would be observed: the differences to all goals are those of one place."""
        places = self.goals[goal] + rng.uniform(-self._radius / 3, self._radius / 3, (count, 3))
        return self.differences(places).astype(np.float32)

    def state(self) -> dict[str, Array]:
        return {"distance": self.distance.copy(), "inside": self.inside.copy(), "reached": self.reached.copy()}

    def set_state(self, state: dict[str, Array]) -> None:
        self.distance = state["distance"].astype(np.float64)
        self.inside = state["inside"].astype(np.int64)
        self.reached = state["reached"].astype(np.bool_)


def reach_space(cfg: PandaConfig) -> gym.spaces.Box:
    return gym.spaces.Box(-FAR, FAR, (3 * len(cfg.goals) * cfg.frame_stack,), np.float32)


def start_of(cfg: PandaConfig, rng: np.random.Generator) -> Array:
    if not cfg.randinit:
        return limits_of(cfg).inside(np.array(cfg.start))
    low, high = RANDOM_START
    return limits_of(cfg).inside(rng.uniform(low, high))


class PandaReachEnv(MultiTaskEnv):
    """With `each` a task per goal, each scored by its own; else one task, the main one."""

    control_hz = float(RATE)

    def __init__(self, cfg: PandaConfig, slots_per_task: int = 1, seed: int = 0, each: bool = False) -> None:
        names = panda_intentions(cfg)
        super().__init__(
            names if each else names[:1],
            slots_per_task,
            reach_space(cfg),
            gym.spaces.Box(-1.0, 1.0, (3,), np.float32),
            cfg.horizon or HORIZON,
            seed,
            cfg.terminate_on_success,
        )
        self.metadata = {**self.metadata, "render_fps": round(1 / DT)}
        self.intentions = tuple(names)
        self._cfg, self._limits = cfg, limits_of(cfg)
        self._arms = [SimulatedArm(cfg.stiffness) for _ in range(self.num_envs)]
        self._score = ReachScore(cfg, self.num_envs)
        self._painter: Painter | None = None

    def _reset_slots(self, slots: Array) -> Array:
        for slot in slots:
            self._arms[slot].place(start_of(self._cfg, self.episode_rng(slot)))
        positions = self._positions(slots)
        self._score.begin(slots, positions)
        return np.tile(self._score.differences(positions), self._cfg.frame_stack).astype(np.float32)

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        faults = np.array(
            [not self._move(self._arms[s], a) for s, a in zip(slots, actions, strict=True)], dtype=np.bool_
        )
        positions = self._positions(slots)
        rewards = self._score.observe(slots, positions)
        newest = self._score.differences(positions)
        own = np.arange(len(slots)), self.task_ids[slots]
        successes = self._score.reached[slots]
        return StepResult(
            obs=np.concatenate([self._obs[slots][:, newest.shape[1] :], newest], axis=1, dtype=np.float32),
            reward=rewards[own],
            terminated=np.zeros(len(slots), dtype=np.bool_),
            success=successes[own],
            extra={"rewards": rewards, "successes": successes},
            truncated=faults,
        )

    def _move(self, arm: SimulatedArm, action: Array) -> bool:
        """One control step. False: the action cannot be sent to any arm, and this one holds its place."""
        before = arm.target
        command = self._limits.command(action, before, arm.position)
        after = before if command.target is None else command.target
        for target in np.linspace(before, after, SUBTARGETS + 1)[1:]:
            arm.draw_to(target)
        arm.settle()
        return command.target is not None

    def _positions(self, slots: Array) -> Array:
        return np.array([self._arms[slot].position for slot in slots])

    def success_examples(self, intention: int, count: int, rng: np.random.Generator) -> Array:
        return self._score.examples(intention, count, rng)

    def expert_actions(self, obs: Array, wanted: Array) -> Array:
        """Straight to the goal, gently: the arm lags behind its target, and swings about the goal otherwise."""
        newest = obs.reshape(len(obs), self._cfg.frame_stack, -1, 3)[:, -1]
        to_goal = -newest[np.arange(len(obs)), wanted]
        return np.clip(to_goal / (3 * self._limits.step), -1.0, 1.0).astype(np.float32)

    def _dynamics_state(self) -> dict[str, Array]:
        return {"arms": np.array([arm.state() for arm in self._arms]), **self._score.state()}

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        for arm, own in zip(self._arms, state["arms"], strict=True):
            arm.set_state(own)
        self._score.set_state(state)

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        if self._painter is None:
            self._painter = Painter(self._score.goals, self._cfg.radius)
        return self._painter.paint(self._arms[slot].data.qpos, int(self.task_ids[slot]), width, height)

    def close_extras(self, **kwargs: Any) -> None:
        if self._painter is not None:
            self._painter.close()


def build_panda(cfg: PandaConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    if cfg.arm == "wall_clock" and not evaluation:
        from medley.robots.env import RealTimeEnv
        from medley.robots.wall_clock import WallClockPanda

        return RealTimeEnv(cfg, WallClockPanda(limits_of(cfg), cfg.rate), seed)
    if cfg.arm == "bridge" and not evaluation:
        from medley.robots.bridge import BridgeArm
        from medley.robots.env import RealTimeEnv

        panda_intentions(cfg)  # names what is wrong with the options before anything is connected to
        return RealTimeEnv(cfg, BridgeArm(limits_of(cfg), DT / cfg.rate, address_of(cfg)), seed)
    return PandaReachEnv(cfg, slots_per_task, stream_seed(seed, evaluation))


def build_panda_each(cfg: PandaConfig, slots_per_task: int, seed: int) -> PandaReachEnv:
    return PandaReachEnv(cfg, slots_per_task, stream_seed(seed, True), each=True)
