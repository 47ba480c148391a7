"""dm_control's tasks as one env: slots stepped side by side, pictures stacked, time counted in control steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array, stream_seed
from medley.envs.cores import available_cores
from medley.envs.dmc.config import DMCConfig, SuiteConfig, dmc_tasks
from medley.envs.dmc.families import ATTRIBUTES, FamilyConfig, family_tasks, members
from medley.envs.dmc.names import DEFAULT_REPEAT, usual_repeat
from medley.envs.dmc.slot import DMCRecipe
from medley.envs.dmc.thread import ThreadSlots
from medley.envs.gl import how_to_draw, prepare_gl
from medley.envs.replayed import ReplayedEnv
from medley.envs.slots import Layout, Slots
from medley.errors import MedleyError

CONTROL_STEPS = 1000  # of an episode, in tasks that set no limit


class DMCEnv(ReplayedEnv):
    """One dm_control env per slot, in this process or in worker processes; the data do not depend on which."""

    def __init__(
        self,
        recipes: Sequence[DMCRecipe],
        slots_per_task: int = 1,
        horizon: int | None = None,
        seed: int = 0,
        frame_stack: int = 3,
        workers: int | None = None,
        worker_timeout: float = 60.0,
    ) -> None:
        slots = _open(recipes, slots_per_task, workers, worker_timeout)
        described = slots.descriptions
        self.action_repeat = recipes[0].action_repeat
        horizon, self._episode_steps = _lengths([d.limit for d in described], self.action_repeat, horizon)
        self._stacked = frame_stack if recipes[0].pixels else 0
        layout = Layout.of(described)
        if recipes[0].pixels:
            self.frame_channels = layout.obs_shape[0]
            shape = (frame_stack * layout.obs_shape[0], *layout.obs_shape[1:])
            space: gym.spaces.Box = gym.spaces.Box(0, 255, shape, np.uint8)
            self.renderer = described[0].renderer
        else:
            space = gym.spaces.Box(-np.inf, np.inf, layout.obs_shape, np.float32)
        super().__init__(slots, [recipe.task for recipe in recipes], slots_per_task, space, horizon, seed, False)
        self._physics = np.zeros((self.num_envs, layout.state_dim))  # where each slot stands, to check replays
        # Exact where the bounds are -1 and 1, as nearly everywhere.
        self._middle, self._reach = (self._low + self._high) / 2, (self._high - self._low) / 2

    def env_steps(self, step: int) -> int:
        """Control steps: the last agent step of an episode holds what is left of it."""

        def of_slot(steps: int) -> int:
            episodes, more = divmod(steps, self.horizon)
            return episodes * self._episode_steps + more * self.action_repeat

        each, ahead = divmod(step, self.slots_per_task)
        return ahead * of_slot(each + 1) + (self.slots_per_task - ahead) * of_slot(each)

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        return self._picture(slot, width, height)

    # ---- what ReplayedEnv asks for

    def _taken(self, slots: Array, actions: Array) -> Array:
        taken: Array = self._middle[slots] + actions * self._reach[slots]
        return taken

    def _observed(self, slots: Array, first: bool = False) -> Array:
        self._physics[slots] = self.slots.block.state[slots]
        newest = self.slots.block.obs[slots]
        if self._stacked == 0:
            return newest
        if first:
            return np.tile(newest, (1, self._stacked, 1, 1))
        return np.concatenate([self._obs[slots, newest.shape[1] :], newest], axis=1)

    def _arrived(self, slots: Array) -> Array:
        now, before = self.slots.block.state[slots], self._physics[slots]
        same: Array = ((now == before) | (np.isnan(now) & np.isnan(before))).all(axis=1)
        return same

    def _dynamics_state(self) -> dict[str, Array]:
        return {**super()._dynamics_state(), "physics": self._physics.copy()}

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        self._physics = state["physics"].astype(np.float64)
        super()._set_dynamics_state(state)


def _lengths(limits: Sequence[int | None], repeat: int, horizon: int | None) -> tuple[int, int]:
    """Of an episode, in agent steps and in control steps."""
    limit = max((known for known in limits if known is not None), default=None)
    if limit is None:
        limit = CONTROL_STEPS if horizon is None else horizon * repeat
    horizon = min(horizon or limit, ceil(limit / repeat))
    return horizon, min(limit, horizon * repeat)


def _open(recipes: Sequence[DMCRecipe], slots_per_task: int, workers: int | None, timeout: float) -> Slots:
    each = [recipe for recipe in recipes for _ in range(slots_per_task)]
    if workers is None:
        workers = 0 if len(each) == 1 else min(len(each), available_cores())
    if recipes[0].pixels and recipes[0].gl == "osmesa" and workers < len(each) > 1:
        workers = len(each)  # its contexts draw into one another within a process
    if workers == 0:
        return ThreadSlots(each)
    from medley.envs.workers import WorkerSlots

    return WorkerSlots(each, workers, timeout)


def drawing(pixels: bool) -> str | None:
    """The backend that draws; states can do without."""
    gl = prepare_gl()
    if gl is None and pixels:
        raise MedleyError(how_to_draw())
    return gl


def recipe_options(cfg: SuiteConfig, slots: int) -> dict[str, Any]:
    """What all tasks of an env have in common."""
    pixels = cfg.observation == "pixels"
    return {
        "pixels": pixels,
        "image_size": cfg.image_size,
        "camera": cfg.camera,
        "profile": cfg.render_profile,
        "action_limit": cfg.action_limit,
        "gl": drawing(pixels),
        "alone": slots == 1 or cfg.workers in (0, 1),
    }


def build_dmc(cfg: DMCConfig, slots_per_task: int, seed: int, evaluation: bool) -> DMCEnv:
    tasks = dmc_tasks(cfg)
    common = recipe_options(cfg, len(tasks) * slots_per_task)
    repeat = cfg.action_repeat or usual_repeat(tasks)
    recipes = []
    for name in tasks:
        domain, task = name.split("-")
        recipes.append(DMCRecipe(name, domain, task, action_repeat=repeat, **common))
    return assemble(cfg, recipes, slots_per_task, stream_seed(seed, evaluation))


def build_family(cfg: FamilyConfig, slots_per_task: int, seed: int, evaluation: bool) -> DMCEnv:
    chosen = members(cfg)
    common = recipe_options(cfg, len(chosen) * slots_per_task)
    kind, repeat = ATTRIBUTES[cfg.attribute], cfg.action_repeat or DEFAULT_REPEAT
    recipes = [
        DMCRecipe(name, kind.domain, kind.task, action_repeat=repeat, member=member, **common)
        for name, member in zip(family_tasks(cfg), chosen, strict=True)
    ]
    return assemble(cfg, recipes, slots_per_task, stream_seed(seed, evaluation))


def assemble(cfg: SuiteConfig, recipes: Sequence[DMCRecipe], slots_per_task: int, seed: int) -> DMCEnv:
    return DMCEnv(recipes, slots_per_task, cfg.horizon, seed, cfg.frame_stack, cfg.workers, cfg.worker_timeout)
