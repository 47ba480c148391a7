"""Meta-World's tasks as one multi-task env, on the package's own env classes, stepped one after another."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array, Mask, MultiTaskEnv, StepResult, stream_seed
from medley.envs.metaworld.config import MetaworldConfig, check_config
from medley.envs.metaworld.goals import GOALS_PER_TASK, GoalSpace, benchmark_goals
from medley.envs.metaworld.names import env_classes
from medley.envs.metaworld.snapshot import Snapshot

HORIZON = 500
INFO_FIELDS = (
    "near_object",
    "grasp_success",
    "grasp_reward",
    "in_place_reward",
    "obj_to_target",
    "unscaled_reward",
)
_BAD_PHYSICS = slice(int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC) + 1)

_log = logging.getLogger(__name__)
# Left alone, MuJoCo prints every instability and appends it to a file in the working directory.
mujoco.set_mju_user_warning(_log.debug)


class Simulation:
    """One slot: one of the package's envs, started from a goal vector, with its exact state."""

    def __init__(self, task: str, reward: str, partially_observable: bool) -> None:
        self.env = env = env_classes()[task](reward_function_version=reward)
        # The horizon is ours; the package's env refuses to go on after its own 500 steps.
        env.max_path_length = np.iinfo(np.int64).max
        env._set_task_called = True
        env._freeze_rand_vec = True
        env._partially_observable = partially_observable
        del env.sawyer_observation_space  # cached before observability was known
        self.snapshot = Snapshot(env)

    def reset(self, goal: Array) -> Array:
        # From the env as built, so that an episode is decided by its goal alone, whatever came before.
        self.snapshot.restore()
        self.env._last_rand_vec = goal.copy()
        obs: Array = self.env.reset()[0]
        return obs

    def step(self, action: Array) -> tuple[Array, float, dict[str, Any]] | None:
        """Observation, reward and info; None if the physics broke down."""
        try:
            obs, reward, _, _, info = self.env.step(action)
        except ValueError:  # a rotation of numbers that are not finite
            if self._stable():
                raise
            return None
        if not (self._stable() and np.isfinite(reward) and np.isfinite(obs).all()):
            return None
        return obs, float(reward), info

    def _stable(self) -> bool:
        # MuJoCo puts a simulation that blew up back to its start and only counts a warning.
        return not self.env.data.warning.number[_BAD_PHYSICS].any()


class MetaworldEnv(MultiTaskEnv):
    """Every slot a simulation of its own. `info` has the package's fields, `goal` (the index of the episode's
    goal, -1 if fresh) and `unstable` (the physics broke down: the episode is cut off with reward 0 at the
    last good observation)."""

    def __init__(
        self,
        cfg: MetaworldConfig | None = None,
        slots_per_task: int = 1,
        seed: int = 0,
        evaluation: bool = False,
    ) -> None:
        cfg = cfg or MetaworldConfig()
        tasks, rewards = check_config(cfg)
        super().__init__(
            tasks,
            slots_per_task,
            gym.spaces.Box(-np.inf, np.inf, (39,), np.float64),
            gym.spaces.Box(-1.0, 1.0, (4,), np.float32),
            cfg.horizon or HORIZON,
            stream_seed(seed, evaluation),
            cfg.terminate_on_success,
        )
        self.camera = cfg.camera
        self.goals = "order" if evaluation and cfg.goals == "fixed" else cfg.goals
        self.reward_versions = tuple(rewards)
        self.simulations = [Simulation(tasks[task], rewards[task], cfg.partially_observable) for task in self.task_ids]
        firsts = self.simulations[::slots_per_task]
        self._spaces = [GoalSpace.of(task, first.env) for task, first in zip(tasks, firsts, strict=True)]
        goal_seed = seed if cfg.goal_seed is None else cfg.goal_seed
        if cfg.tasks:
            pairs = zip(tasks, self._spaces, strict=True)
            self.task_goals = [benchmark_goals([task], [space], goal_seed)[0] for task, space in pairs]
        else:
            self.task_goals = benchmark_goals(tasks, self._spaces, goal_seed)
        self._goal = np.full(self.num_envs, -1, dtype=np.int64)
        self._renderers: dict[tuple[int, int, int], Any] = {}

    def _choose_goal(self, slot: int) -> tuple[int, Array]:
        task = int(self.task_ids[slot])
        if self.goals == "fresh":
            return -1, self._spaces[task].draw(self.episode_rng(slot))
        index = 0
        if self.goals == "fixed":
            index = int(self.episode_rng(slot).integers(GOALS_PER_TASK))
        elif self.goals == "order":
            turn = slot % self.slots_per_task + self.slots_per_task * int(self._episode[slot])
            index = turn % GOALS_PER_TASK
        return index, self.task_goals[task][index]

    def _reset_slots(self, slots: Array) -> Array:
        first = np.empty((len(slots), 39))
        for row, slot in enumerate(slots):
            self._goal[slot], vector = self._choose_goal(int(slot))
            first[row] = self.simulations[slot].reset(vector)
        return first

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        obs = self._obs[slots]
        reward = np.zeros(len(slots))
        success: Mask = np.zeros(len(slots), dtype=np.bool_)
        unstable: Mask = np.zeros(len(slots), dtype=np.bool_)
        fields = np.zeros((len(INFO_FIELDS), len(slots)))
        for row, slot in enumerate(slots):
            result = self.simulations[slot].step(actions[row])
            if result is None:
                unstable[row] = True
                continue
            obs[row], reward[row], info = result
            success[row] = bool(info["success"])
            fields[:, row] = [info[name] for name in INFO_FIELDS]
        extra: dict[str, Array] = dict(zip(INFO_FIELDS, fields, strict=True))
        extra |= {"goal": self._goal[slots], "unstable": unstable}
        return StepResult(obs, reward, np.zeros_like(unstable), success, extra, truncated=unstable)

    def _dynamics_state(self) -> dict[str, Array]:
        # The goals too: later episodes depend on them, and they follow from a seed given at construction.
        vectors = np.zeros((len(self.tasks), GOALS_PER_TASK, max(space.low.size for space in self._spaces)))
        for task, goals in enumerate(self.task_goals):
            vectors[task, :, : goals.shape[1]] = goals
        state: dict[str, Array] = {"goal": self._goal.copy(), "goal_vectors": vectors}
        for slot, simulation in enumerate(self.simulations):
            state |= {f"{slot}.{key}": value for key, value in simulation.snapshot.save().items()}
        return state

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        self._goal = state["goal"].astype(np.int64)
        for task, space in enumerate(self._spaces):
            self.task_goals[task] = state["goal_vectors"][task, :, : space.low.size].copy()
        saved: list[dict[str, Array]] = [{} for _ in self.simulations]
        for key, value in state.items():
            slot, _, name = key.partition(".")
            if name:
                saved[int(slot)][name] = value
        for simulation, values in zip(self.simulations, saved, strict=True):
            simulation.snapshot.load(values)

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        task, env = int(self.task_ids[slot]), self.simulations[slot].env
        key = (task, width, height)
        if key not in self._renderers:
            self._renderers[key] = mujoco.Renderer(env.model, height, width)
        renderer = self._renderers[key]
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        camera.fixedcamid = env.model.camera(self.camera).id
        # The slot's own model: slots of one task differ in where bodies are, not in what they look like.
        mujoco.mjv_updateScene(
            env.model, env.data, mujoco.MjvOption(), None, camera, mujoco.mjtCatBit.mjCAT_ALL, renderer.scene
        )
        picture: npt.NDArray[np.uint8] = renderer.render()
        if self.camera.startswith("corner"):  # the package's corner cameras hang upside down
            picture = np.ascontiguousarray(picture[::-1, ::-1])
        return picture

    def close_extras(self, **kwargs: Any) -> None:
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    # ---- what callers of the package's own vector env use (`metaworld.evaluation` among them)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """One value per slot, as Gymnasium's own vector envs give it."""
        if name == "terminate_on_success":
            return (self.terminate_on_success,) * self.num_envs
        return tuple(getattr(simulation.env, name) for simulation in self.simulations)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every slot's env; `toggle_terminate_on_success` is for all together."""
        if name == "toggle_terminate_on_success":
            self.terminate_on_success = bool(args[0])
            return (None,) * self.num_envs
        return tuple(getattr(simulation.env, name)(*args, **kwargs) for simulation in self.simulations)


def build_metaworld(cfg: MetaworldConfig, slots_per_task: int, seed: int, evaluation: bool) -> MetaworldEnv:
    return MetaworldEnv(cfg, slots_per_task, seed, evaluation)
