"""What one update works on, as a record of sizes, options and addresses; and what it reports."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from medley.agents.native.descent import OPTIMIZER
from medley.agents.native.mlp import SETTING

_I, _F = np.int64, np.float32
JOB = np.dtype(
    [
        *SETTING,
        ("tasks", _I),
        ("threads", _I),
        ("obs_dim", _I),
        ("label_dim", _I),
        ("action_dim", _I),
        ("stride", _I),  # of x: observation, label, action, room
        # Where rows come from: a batch, or the rings of replay.
        ("ring", _I),  # 1: the latter
        ("capacity", _I),
        ("slots", _I),
        ("n_step", _I),
        ("gamma", _F),
        ("uniform", _I),  # addresses, all [tasks, capacity or per_task, ...] from here on
        ("from_obs", _I),
        ("from_action", _I),
        ("from_reward", _I),
        ("from_next_obs", _I),
        ("from_discount", _I),
        ("from_terminated", _I),
        ("from_ended", _I),
        ("reward_factor", _I),  # [tasks]
        ("sizes", _I),  # [tasks]: rows that can be sampled
        ("written", _I),  # [tasks]: rows ever written
        # Networks: address and number of their layers.
        ("actor", _I, 2),
        ("actor_next", _I, 2),  # the same weights, other values
        ("critic", _I, 2),
        ("target", _I, 2),
        ("actor_optimizer", OPTIMIZER),
        ("critic_optimizer", OPTIMIZER),
        ("alpha_optimizer", OPTIMIZER),
        ("log_alpha", _I, 5),  # as in LAYER
        ("alpha_step", _I),
        ("alphas", _I),  # 1, or one for each task
        # Options
        ("update_actor", _I),
        ("update_target", _I),
        ("learn_alpha", _I),
        ("grad_clip", _F),  # infinite: none
        ("max_value", _F),  # infinite: none
        ("tau", _F),
        ("rescale", _I),  # log std bounded by tanh, not by clamping
        ("low", _F),
        ("high", _F),
        ("mask", _I),  # [tasks, action_dim]
        ("target_entropy", _I),  # [tasks]
        # One row each
        ("x", _I),
        ("x_next", _I),
        ("reward", _I),
        ("discount", _I),
        ("weight", _I),
        ("noise_next", _I),
        ("noise", _I),
        ("action", _I),  # a~
        ("log_prob", _I),
        ("y", _I),
        ("d_action", _I),
        ("squashed", _I),
        ("spread", _I),  # d u / d log std
        ("bounded", _I),  # d log std / d what the network gave
        ("critic_losses", _I),
        ("q_means", _I),
        ("actor_losses", _I),
        ("order", _I),  # 0, 1, 2, ...
        ("chosen", _I),  # [2, rows]: where the first or second critic is the smaller one
        # One per thread
        ("squares", _I),
        ("scratch", _I),
        ("scratch_size", _I),
        ("metrics", _I),
    ],
    align=True,
)
job_type: Any = numba.from_dtype(JOB)

# Metrics: numbers first, then one per task.
NUMBERS = (
    "critic_loss",
    "grad_norm_critic",
    "batch_reward",
    "actor_loss",
    "actor_entropy",
    "actor_target_entropy",
    "alpha_value",
    "grad_norm_actor",
    "alpha_loss",
)
PER_TASK = ("critic_loss_per_task", "q_mean_per_task", "alpha_per_task")
CRITIC_METRICS = ("critic_loss", "critic_loss_per_task", "q_mean_per_task", "grad_norm_critic", "batch_reward")
CRITIC_LOSS, CRITIC_NORM, REWARD, ACTOR_LOSS, ENTROPY, TARGET_ENTROPY, ALPHA, ACTOR_NORM, ALPHA_LOSS = range(9)
