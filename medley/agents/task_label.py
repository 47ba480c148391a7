"""Which label of the task a network gets, by the agent's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from medley.nn.task_input import Embedding, NoTaskInput, OneHot, TaskEncoder, TaskInput, read_vectors
from medley.nn.trunks import task_inputs

if TYPE_CHECKING:
    from medley.agents.api import Spaces
    from medley.agents.sac_options import SACConfig


def task_input_kind(options: SACConfig) -> str:
    """`auto` is what suits the trunk. A network of its own for every task needs no one-hot."""
    kind = task_inputs(options.trunk)[0] if options.task_input == "auto" else options.task_input
    return "none" if kind == "one_hot" and options.trunk == "disjoint" else kind


def make_task_input(options: SACConfig, spaces: Spaces, generator: torch.Generator) -> TaskInput:
    kind, tasks = task_input_kind(options), len(spaces.tasks)
    cfg = options.multitask.task_encoder_cfg
    if kind == "encoder":
        path = options.task_vectors
        vectors = None if path is None else read_vectors(path, spaces.tasks)
        return TaskEncoder(tasks, generator, cfg.embedding_dim, cfg.hidden_dim, cfg.num_layers, cfg.output_dim, vectors)
    if kind == "embedding":
        return Embedding(tasks, generator, options.embedding_dim)
    # One task needs no label, unless its trunk is made of labels.
    if kind == "one_hot" and (tasks > 1 or "none" not in task_inputs(options.trunk)):
        # GPUs multiply matrices fast only if rows hold a multiple of four numbers: a few zeros see to that.
        inputs = spaces.obs_dim + tasks + spaces.action_dim
        return OneHot(tasks, tasks + -inputs % 4)
    return NoTaskInput()
