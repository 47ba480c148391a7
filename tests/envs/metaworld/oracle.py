"""The package's own env of one task, driven by goal vectors: what the simulator is compared with."""

from __future__ import annotations

from typing import Any

import metaworld.policies
import numpy as np
import numpy.typing as npt

from medley.envs.metaworld.names import env_classes

Array = npt.NDArray[Any]
INFO = (
    "success",
    "near_object",
    "grasp_success",
    "grasp_reward",
    "in_place_reward",
    "obj_to_target",
    "unscaled_reward",
)


class Oracle:
    def __init__(self, task: str, version: str = "v2", hide_goal: bool = False) -> None:
        self.env = env = env_classes()[task](reward_function_version=version)
        env.max_path_length = np.iinfo(np.int64).max
        env._set_task_called = True
        env._freeze_rand_vec = True
        env._partially_observable = hide_goal
        del env.sawyer_observation_space  # cached before observability was known

    def reset(self, goal: Array) -> Array:
        self.env._last_rand_vec = goal.copy()
        obs: Array = self.env.reset()[0]
        return obs

    def step(self, action: Array) -> tuple[Array, float, dict[str, Any]]:
        obs, reward, _, _, info = self.env.step(action)
        return obs, float(reward), info

    def evaluate(self, version: str, obs: Array, action: Array) -> tuple[float, dict[str, Any]]:
        """What another reward version says of the state as it is."""
        kept = self.env.reward_function_version
        self.env.reward_function_version = version
        reward, info = self.env.evaluate_state(obs, action)
        self.env.reward_function_version = kept
        return float(reward), info


def scripted_policy(task: str) -> Any:
    """The package's hand-written policy for a task."""
    return metaworld.policies.ENV_POLICY_MAP[f"{task}-v3"]()
