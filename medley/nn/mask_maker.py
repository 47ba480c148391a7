"""Episodes of all tasks to masks of one network: a trajectory encoder and a mask generator of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from medley.nn.mask_generators import DenseGenerator, LowRankGenerator, MaskGenerator, Shapes
from medley.nn.masking import Mask, binarise
from medley.nn.trajectory_encoder import TrajectoryEncoder

if TYPE_CHECKING:
    from medley.agents.must_options import MustConfig
    from medley.agents.trajectories import Episodes


class MaskMaker(nn.Module):
    """One of MUST's roles: the actor, or one of the critics."""

    def __init__(self, tasks: int, obs: int, shapes: Shapes, options: MustConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.tasks, self.ratio = tasks, options.pruning_ratio
        latent = options.latent if options.trajectories else 0
        self.encoder = TrajectoryEncoder(obs, latent, generator) if latent else None
        self.generator: MaskGenerator
        if options.generator == "lowrank":
            self.generator = LowRankGenerator(tasks, latent, shapes, options.hidden, options.rank, generator)
        else:
            self.generator = DenseGenerator(tasks, latent, shapes, options.hidden, generator)

    def encode(self, episodes: Episodes) -> Tensor | None:
        """e [T, latent], the mean over a task's episodes; zeros for a task without any."""
        return None if self.encoder is None else encode_tasks(self.encoder, episodes, self.tasks)

    def logits(self, encoding: Tensor | None) -> list[Tensor]:
        out: list[Tensor] = self.generator(encoding)
        return out

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        return [binarise(layer, self.ratio) for layer in logits]


def encode_tasks(encoder: TrajectoryEncoder, episodes: Episodes, tasks: int) -> Tensor:
    if not len(episodes.task):
        return torch.zeros(tasks, encoder.out.out_features, device=encoder.out.weight.device)
    each: Tensor = encoder(episodes.states, episodes.lengths)
    task = episodes.task.to(each.device)
    total = each.new_zeros(tasks, each.shape[1]).index_add(0, task, each)
    count = torch.bincount(episodes.task, minlength=tasks).clamp(min=1)
    return total / count.to(each).unsqueeze(1)
