"""HiP-BMDP: a DeepMDP whose tasks differ by a hidden parameter theta_i (Zhang et al. 2021), in its corrected form.

    theta_i = W2 relu(W1 relu(E_i))
    L_metric = weight * mean over i != j of (|theta_i - theta_j| - sg |T(h, theta_i, a) - T(h, theta_j, a)|)^2

Actor and critics see [h, sg(theta)]; transition, reward and decoder see theta itself, and their losses train it.
Tasks that were never trained act by what is known of the trained ones: see `unseen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.agents.api import AgentKind, Metrics, register_agent
from medley.agents.deepmdp import DeepMDP, DeepMDPConfig
from medley.agents.deepmdp import check as check_deepmdp
from medley.config.options import opt
from medley.errors import ConfigError, closest

UNSEEN = ("mean_train", "zero")


@dataclass
class HiPBMDPConfig(DeepMDPConfig):
    task_input: str = opt("encoder", "theta is what a task encoder gives")
    metric_weight: float = opt(0.01, "weight of the loss that makes distances of theta those of predictions")
    unseen: str = opt("mean_train", "theta of a task that was not trained: mean_train (of the trained ones) | zero")


class HiPBMDP(DeepMDP):
    options: HiPBMDPConfig

    def _critic_networks(self) -> tuple[dict[str, nn.Module], list[str]]:
        networks, trained = super()._critic_networks()
        return networks, [name for name in trained if name != "task"]

    def _task(self, detach: bool = False) -> Tensor | None:
        return super()._task(detach=True)

    def _model_task(self) -> Tensor | None:
        theta: Tensor | None = self.task_input()
        return theta

    def _unseen_task(self, z: Tensor) -> Tensor:
        return z.mean(0) if self.options.unseen == "mean_train" else torch.zeros_like(z[0])

    def _task_optimizers(self) -> Sequence[str]:
        return ("task_encoder",)

    def _extra_loss(self, features: Tensor, action: Tensor) -> tuple[Tensor | float, Metrics]:
        theta = self._model_task()
        assert theta is not None
        tasks = theta.shape[0]
        if tasks == 1:
            return 0.0, {}
        with torch.no_grad():
            h = self.critic.project(features)
            every = [self.model.predict(h, theta[j].expand(tasks, -1), action)[0] for j in range(tasks)]
            guesses = torch.stack(every)  # [j, i, b, width]: what theta_j would say of the rows of task i
            own = torch.stack([guesses[i, i] for i in range(tasks)])
            apart = torch.linalg.vector_norm(guesses - own, dim=-1)  # [j, i, b]
        others = ~torch.eye(tasks, dtype=torch.bool, device=theta.device)
        between = theta.unsqueeze(1) - theta
        # The root of a little more than the square: a distance of zero has no slope.
        distance = (between.square().sum(-1) + 1e-12).sqrt().unsqueeze(-1)
        loss = ((distance - apart).square() * others.unsqueeze(-1)).sum() / (tasks * (tasks - 1) * apart.shape[-1])
        return self.options.metric_weight * loss, {"contrastive_loss": loss.detach()}


def check(options: HiPBMDPConfig, tasks: int) -> None:
    check_deepmdp(options, tasks)
    if options.task_input != "encoder":
        raise ConfigError("agent=hipbmdp is about what a task encoder learns: agent.task_input=encoder.")
    if options.unseen not in UNSEEN:
        raise ConfigError(f"agent.unseen={options.unseen!r} does not exist.{closest(options.unseen, UNSEEN)}")


register_agent("hipbmdp", AgentKind(HiPBMDPConfig, HiPBMDP, check))
