"""A trained agent to act with: `medley.load(run).act(obs)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError, closest
from medley.training.build import build_evaluator, evaluation_env, spaces_of
from medley.training.collector import plain
from medley.training.device import prepare_device
from medley.training.policy_file import build_agent, load_policy, policy_folder, step_of
from medley.training.run import Run


class Policy:
    """Acts for any task of the run it was trained in."""

    def __init__(self, path: str | Path, checkpoint: int | None = None) -> None:
        run = Run(Path(path))
        self.config = run.config()
        self.device = prepare_device(self.config, or_cpu=True)
        env = evaluation_env(self.config, 1)
        spaces = spaces_of(env)
        self.tasks, self.obs_dim, self.action_dim = env.tasks, spaces.obs_dim, spaces.action_dim
        self.obs_shape = spaces.image or (spaces.obs_dim,)
        self.agent = build_agent(self.config, env, self.device)
        folder = policy_folder(run.path, checkpoint)
        self.step = step_of(folder)  # up to which it was trained
        load_policy(self.agent, folder)
        env.close()

    def act(self, obs: npt.ArrayLike, task: str | int | None = None, explore: bool = False) -> npt.NDArray[np.float32]:
        """Actions for `obs`: [dim] or [rows, dim] of one `task`, or [tasks, rows, dim] of all of them in order.
        Pictures (uint8) have three dimensions, channels first, in place of `dim`.

        `task` is a name or an index; it may be left out where there is only one.
        """
        shape = self.obs_shape
        rows = plain(np.asarray(obs))
        if rows.shape[-len(shape) :] != shape:
            if len(shape) > 1:
                raise ValueError(f"observations have shape {rows.shape}, this policy was trained on pictures {shape}")
            raise ValueError(f"observations have {rows.shape[-1]} numbers, this policy was trained on {self.obs_dim}")
        dims = rows.ndim - len(shape)
        if dims == 2:
            return self._act(rows, explore)
        index = self._index(task)
        stacked = np.zeros((len(self.tasks), rows.shape[0] if dims else 1, *shape), dtype=rows.dtype)
        stacked[index] = rows
        actions = self._act(stacked, explore)[index]
        one: npt.NDArray[np.float32] = actions[0]
        return actions if dims else one

    def make_env(self, slots_per_task: int = 1) -> MultiTaskEnv:
        """The environment it was trained in, as evaluation sees it."""
        self.config.experiment.eval_slots_per_task = slots_per_task
        return build_evaluator(self.config).env

    def _act(self, rows: npt.NDArray[Any], explore: bool) -> npt.NDArray[np.float32]:
        x = torch.from_numpy(rows).to(self.device)
        noise = torch.randn(*rows.shape[:2], self.action_dim, device=self.device) if explore else None
        return np.asarray(self.agent.act(x, noise).cpu().numpy())

    def _index(self, task: str | int | None) -> int:
        if task is None:
            if len(self.tasks) > 1:
                raise ConfigError(f"this policy knows {len(self.tasks)} tasks: say which, as act(obs, task=...).")
            return 0
        if isinstance(task, str):
            if task not in self.tasks:
                raise ConfigError(f"this policy was not trained on {task!r}.{closest(task, self.tasks)}")
            return self.tasks.index(task)
        return range(len(self.tasks))[task]
