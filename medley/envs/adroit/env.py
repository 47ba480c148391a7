"""`adroit-door`, `adroit-hammer`, `adroit-relocate`: a main task, and reaching and grasping its object beside it."""

from __future__ import annotations

import logging
import weakref
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt

from medley.envs.adroit.config import HORIZON, AdroitConfig, adroit_intentions
from medley.envs.adroit.examples import make_examples
from medley.envs.adroit.hand import CONTROL_HZ, Hand
from medley.envs.adroit.scenes import SCENES
from medley.envs.api import Array, MultiTaskEnv, StepResult, stream_seed

_log = logging.getLogger(__name__)


class AdroitEnv(MultiTaskEnv):
    """`info["successes"]` and `info["rewards"]` have a column per intention. A reward of an auxiliary one is by how
    much the way that is left became shorter. Where the physics broke down (`info["unstable"]`), the episode is cut off
    with reward 0 at the last good observation; `instabilities` counts them by task.

    With `each` a task per intention, scored by its own; else one task, the main one.
    """

    control_hz = CONTROL_HZ

    def __init__(self, cfg: AdroitConfig, slots_per_task: int = 1, seed: int = 0, each: bool = False) -> None:
        names, scene = adroit_intentions(cfg), SCENES[cfg.scene]
        tasks = names if each else names[:1]
        self._hands = [Hand(cfg.scene) for _ in range(len(tasks) * slots_per_task)]
        super().__init__(
            tasks,
            slots_per_task,
            gym.spaces.Box(-np.inf, np.inf, (scene.obs_dim,), np.float64),
            gym.spaces.Box(-1.0, 1.0, (self._hands[0].action_dim,), np.float32),
            cfg.horizon or HORIZON,
            seed,
            cfg.terminate_on_success,
        )
        self.metadata = {**self.metadata, "render_fps": round(CONTROL_HZ)}
        self.intentions, self.layout, self._cfg = tuple(names), scene.layout, cfg
        self._left = np.zeros((self.num_envs, 2))  # ways to reach and to grasp
        self._drawn: Hand | None = None
        self._renderers: dict[tuple[int, int], Any] = {}
        weakref.finalize(self, _close, self._renderers)  # also when Python ends, while OpenGL is still there

    def _reset_slots(self, slots: Array) -> Array:
        for slot in slots:
            self._hands[slot].reset(self.episode_rng(slot))
            self._left[slot] = self._hands[slot].scene.judge()[4:]
        return np.array([self._hands[slot].scene.observe() for slot in slots])

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        if np.isnan(actions).any():
            raise ValueError(f"slot {slots[np.isnan(actions).any(axis=1)][0]}: the action has a NaN")
        count = len(slots)
        obs, rewards, successes = self._obs[slots], np.zeros((count, 3)), np.zeros((count, 3), dtype=np.bool_)
        unstable = np.zeros(count, dtype=np.bool_)
        for row, slot in enumerate(slots):
            hand = self._hands[slot]
            if not hand.step(actions[row]):
                unstable[row] = True
                continue
            judged = hand.scene.judge()
            obs[row], successes[row] = hand.scene.observe(), judged[1:4]
            rewards[row, 0] = judged.reward if self._cfg.reward == "dense" else 10.0 if judged.main else -0.1
            rewards[row, 1:] = self._left[slot] - judged[4:]
            self._left[slot] = judged[4:]
        self._report(slots[unstable])
        wanted = len(self.intentions)
        own = np.arange(count), self.task_ids[slots]
        extra = {"rewards": rewards[:, :wanted], "successes": successes[:, :wanted], "unstable": unstable}
        return StepResult(
            obs, rewards[own], np.zeros(count, dtype=np.bool_), successes[own], extra, truncated=unstable.copy()
        )

    def success_examples(self, intention: int, count: int, rng: np.random.Generator) -> Array:
        return make_examples(Hand(self._cfg.scene), intention, count, rng)

    def _report(self, slots: Array) -> None:
        for slot in slots:
            task = int(self.task_ids[slot])
            self.instabilities[task] += 1
            if self.instabilities[task] == 1:
                _log.warning("the physics of %s broke down in slot %d; the episode is cut off", self.tasks[task], slot)

    # ---- restarts

    def _dynamics_state(self) -> dict[str, Array]:
        return {
            "hands": np.array([hand.state() for hand in self._hands]),
            "left": self._left.copy(),
        }

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        for hand, own in zip(self._hands, state["hands"], strict=True):
            hand.set_state(own)
        self._left = state["left"].astype(np.float64)

    # ---- pictures

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        if self._drawn is None:  # one that is never stepped: a renderer belongs to one model
            self._drawn = Hand(self._cfg.scene)
        model, data = self._drawn.model, self._drawn.data
        if (width, height) not in self._renderers:
            self._renderers[width, height] = mujoco.Renderer(model, height, width)
        renderer, view = self._renderers[width, height], mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, view)
        view.distance, view.azimuth = self._drawn.scene.camera
        self._drawn.set_state(self._hands[slot].state())
        renderer.update_scene(data, view)
        picture: npt.NDArray[np.uint8] = renderer.render()
        return picture

    def close_extras(self, **kwargs: Any) -> None:
        _close(self._renderers)


def _close(renderers: dict[tuple[int, int], Any]) -> None:
    for renderer in renderers.values():
        renderer.close()
    renderers.clear()


def build_adroit(cfg: AdroitConfig, slots_per_task: int, seed: int, evaluation: bool) -> AdroitEnv:
    return AdroitEnv(cfg, slots_per_task, stream_seed(seed, evaluation))


def build_adroit_each(cfg: AdroitConfig, slots_per_task: int, seed: int) -> AdroitEnv:
    return AdroitEnv(cfg, slots_per_task, stream_seed(seed, True), each=True)
