"""Meta-World's tasks as one multi-task env, on the compiled simulator."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from medley.envs.api import Array, MultiTaskEnv, StepResult, stream_seed
from medley.envs.metaworld.config import MetaworldConfig, check_config
from medley.envs.metaworld.goals import GOALS_PER_TASK, GoalSpace, benchmark_goals
from medley.envs.metaworld.pictures import Painter
from medley.envs.metaworld.simulator import Simulator

HORIZON = 500
MAX_REWARD = 10.0  # of version 2, for a step that succeeds
INFO_FIELDS = (
    "near_object",
    "grasp_success",
    "grasp_reward",
    "in_place_reward",
    "obj_to_target",
    "unscaled_reward",
)

_log = logging.getLogger(__name__)
# Left alone, MuJoCo prints every instability and appends it to a file in the working directory.
mujoco.set_mju_user_warning(_log.debug)


class MetaworldEnv(MultiTaskEnv):
    """Every slot a simulation of its own. `info` has the package's fields, `goal` (the index of the episode's
    goal, -1 if fresh) and `unstable` (the physics broke down: the episode is cut off with reward 0 at the
    last good observation; `instabilities` counts them by task).

    Actions are [dx, dy, dz, grip]. What lies outside [-1, 1] is treated as the package does (the move is clipped,
    MuJoCo clips the grip); infinite entries count as ±1; NaN is refused.
    """

    layout = {"hand": [0, 3], "gripper": [3, 4], "objects": [4, 18], "frame before": [18, 36], "goal": [36, 39]}
    control_hz = 80.0

    def __init__(
        self,
        cfg: MetaworldConfig | None = None,
        slots_per_task: int = 1,
        seed: int = 0,
        evaluation: bool = False,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        names: Sequence[str] = (),
    ) -> None:
        """`names`: what the tasks are called here. More names than tasks: each task under several, with the same
        goals."""
        cfg = cfg or MetaworldConfig()
        tasks, rewards = check_config(cfg)
        copies = len(names) // len(tasks) if names else 1
        super().__init__(
            names or tasks,
            slots_per_task,
            gym.spaces.Box(-np.inf, np.inf, (39,), np.float64),
            gym.spaces.Box(-1.0, 1.0, (4,), np.float32),
            cfg.horizon or HORIZON,
            stream_seed(seed, evaluation),
            cfg.terminate_on_success,
            autoreset_mode,
        )
        self.goals = "order" if evaluation and cfg.goals == "fixed" else cfg.goals
        self.new_goals = True  # False: a reset keeps the goal the slot has (`toggle_sample_tasks_on_reset`)
        self.reward_versions = tuple(rewards)
        self.max_reward = MAX_REWARD if set(rewards) == {"v2"} else None  # those of v1 have no common scale
        self.simulator = Simulator(
            tasks * copies, slots_per_task, rewards * copies, cfg.partially_observable, cfg.threads
        )
        self._slots = self.simulator.slots
        self._spaces = [GoalSpace.of(task) for task in self.simulator.tasks]
        goal_seed = seed if cfg.goal_seed is None else cfg.goal_seed
        if cfg.tasks:
            pairs = zip(tasks, self._spaces, strict=False)
            self.task_goals = [benchmark_goals([task], [space], goal_seed)[0] for task, space in pairs]
        else:
            self.task_goals = benchmark_goals(tasks, self._spaces[: len(tasks)], goal_seed)
        self.task_goals *= copies
        self._goal = np.full(self.num_envs, -1, dtype=np.int64)
        self._painter = Painter(self.simulator, cfg.camera)

    # ---- episodes

    def _choose_goal(self, slot: int) -> tuple[int, Array]:
        task = int(self.task_ids[slot])
        if self.goals == "fresh":
            return -1, self._spaces[task].draw(self.episode_rng(slot))
        index = 0
        if self.goals == "fixed":
            index = int(self.episode_rng(slot).integers(GOALS_PER_TASK))
        elif self.goals == "order":
            place, of = self.place(slot)
            turn = place + of * int(self._episode[slot])
            index = turn % GOALS_PER_TASK
        return index, self.task_goals[task][index]

    def _reset_slots(self, slots: Array) -> Array:
        if self.new_goals:
            for slot in slots:
                self._goal[slot], vector = self._choose_goal(int(slot))
                self._slots["goal"][slot, : vector.size] = vector
        self.simulator.reset(slots, self._goal[slots])
        obs: Array = self._slots["obs"][slots]
        return obs

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        if not np.isfinite(actions).all():
            actions = self._tame(slots, actions)
        records = self._slots
        at = slice(None) if slots is self._every_slot else slots  # a slice is quicker than a list of all
        records["action"][at] = actions
        self.simulator.step(slots)
        unstable = records["unstable"][at] != 0
        obs = records["obs"][at].copy()
        if unstable.any():
            obs[unstable] = self._obs[slots[unstable]]
            self._report_instability(slots[unstable])
        extra: dict[str, Array] = {name: records[name][at].copy() for name in INFO_FIELDS}
        extra |= {"goal": self._goal[at].copy(), "unstable": unstable}
        success = records["success"][at] != 0.0
        no_end = np.zeros(len(success), np.bool_)
        return StepResult(obs, records["reward"][at].copy(), no_end, success, extra, truncated=unstable.copy())

    def _tame(self, slots: Array, actions: Array) -> Array:
        if np.isnan(actions).any():
            slot = int(slots[np.flatnonzero(np.isnan(actions).any(axis=1))[0]])
            raise ValueError(f"slot {slot} ({self.tasks[self.task_ids[slot]]}): the action has a NaN")
        return np.where(np.isinf(actions), np.sign(actions), actions)

    def _report_instability(self, slots: Array) -> None:
        for slot in slots:
            task = int(self.task_ids[slot])
            self.instabilities[task] += 1
            if self.instabilities[task] == 1:
                _log.warning("the physics of %s broke down in slot %d; the episode is cut off", self.tasks[task], slot)

    def expert_actions(self, obs: Array, wanted: Array) -> Array:
        from medley.envs.metaworld.scripts import act

        seen = obs.copy()
        seen[:, 36:39] = self._slots["target"]  # scripts must see the goal, whether or not agents do
        return act([self.simulator.tasks[task].name for task in self.task_ids], seen)

    # ---- restarts

    def _dynamics_state(self) -> dict[str, Array]:
        # The goals too: later episodes depend on them, and they follow from a seed given at construction.
        vectors = np.zeros((len(self.tasks), GOALS_PER_TASK, max(space.low.size for space in self._spaces)))
        for task, goals in enumerate(self.task_goals):
            vectors[task, :, : goals.shape[1]] = goals
        own = {"goal": self._goal.copy(), "goal_vectors": vectors}
        return own | self.simulator.state()

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        self._goal = state["goal"].astype(np.int64)
        for task, space in enumerate(self._spaces):
            self.task_goals[task] = state["goal_vectors"][task, :, : space.low.size].copy()
        self.simulator.set_state(state)

    # ---- pictures

    def render_slot(
        self, slot: int, width: int = 320, height: int = 240, camera: str | None = None
    ) -> npt.NDArray[np.uint8]:
        return self._painter.paint(slot, width, height, camera)

    def close_extras(self, **kwargs: Any) -> None:
        self._painter.close()
        self.simulator.close()

    # ---- what callers of the package's own vector env use (`metaworld.evaluation` among them)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """One value per slot, as Gymnasium's own vector envs give it."""
        if name == "task_name":
            from medley.envs.metaworld.names import env_classes

            # The package's own class, or the task's name where the package has none.
            names = [getattr(env_classes().get(task), "__name__", task) for task in self.tasks]
            return tuple(names[task] for task in self.task_ids)
        if name == "curr_path_length":
            return tuple(int(count) for count in self._elapsed)
        shared = {
            "terminate_on_success": self.terminate_on_success,
            "sample_tasks_on_reset": self.new_goals,
            "max_path_length": self.horizon,
        }
        if name not in shared:
            known = ", ".join(sorted(["task_name", "curr_path_length", *shared]))
            raise AttributeError(f"a slot has no attribute {name!r}; there are {known}")
        return (shared[name],) * self.num_envs

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every slot: `toggle_terminate_on_success(on)`, `toggle_sample_tasks_on_reset(on)`,
        `sample_tasks()` (the next goal, and a reset), `render()`."""
        if name == "toggle_terminate_on_success":
            self.terminate_on_success = bool(args[0])
        elif name == "toggle_sample_tasks_on_reset":
            self.new_goals = bool(args[0])
        elif name == "sample_tasks":
            kept, self.new_goals = self.new_goals, True
            obs, _ = self.reset()
            self.new_goals = kept
            return tuple((row, {}) for row in obs)
        elif name == "render":
            return tuple(self.render())
        else:
            return self.get_attr(name)
        return (None,) * self.num_envs


def build_metaworld(cfg: MetaworldConfig, slots_per_task: int, seed: int, evaluation: bool) -> MetaworldEnv:
    return MetaworldEnv(cfg, slots_per_task, seed, evaluation)
