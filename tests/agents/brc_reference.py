"""A small BRC, and a second implementation of it in float64 with losses row by row."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.brc import BRC, BRCConfig
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from tests.agents.test_sac_reference import ACT, MASK, OBS, ROWS, TASKS, Reference

TRUNKS = ["bronet", "simba_v2", "flashsac"]
V_MAX, BINS = 3.0, 7


def options(trunk: str = "bronet", **changes: Any) -> BRCConfig:
    o = BRCConfig(name="brc", builder="brc", trunk=trunk, task_input="embedding", embedding_dim=3, discount=0.9)
    o.critic_tau, o.init_temperature, o.target_entropy_per_dim, o.grad_clip = 0.1, 0.3, -0.5, None
    o.bins, o.v_max = BINS, V_MAX
    o.actor.hidden_dim, o.actor.num_layers, o.actor.log_std_bounding = 5, 1, "tanh"
    o.actor.log_std_bounds = [-3.0, 1.0]
    o.critic.hidden_dim, o.critic.num_layers = 6, 2
    rates = o.optimizers
    rates.actor.lr, rates.critic.lr, rates.alpha.lr, rates.task_encoder.lr = 0.02, 0.01, 0.03, 0.015
    rates.actor.weight_decay, rates.critic.weight_decay, rates.task_encoder.weight_decay = 0.5, 0.3, 0.2
    rates.alpha.beta1 = 0.5
    for name, value in changes.items():
        assert hasattr(o, name), name
        setattr(o, name, value)
    return o


def agent(o: SACConfig, seed: int = 0) -> SAC:
    made = (BRC if isinstance(o, BRCConfig) else SAC)(  # type: ignore[arg-type]
        o, Spaces(tuple(f"t{i}" for i in range(TASKS)), OBS, ACT, MASK), torch.device("cpu"), seed
    )
    generator = torch.Generator().manual_seed(seed + 10)
    with torch.no_grad():  # norms start as ones and zeros, where mistakes hide
        for network in (made.actor, made.critic, made.target, made.task_input, made.target_task):
            for p in network.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
        for network in (made.actor, made.critic, made.target):
            network.after_step()
    for optimizer in made.optimizers.values():
        optimizer.steps = [s.float() for s in optimizer.steps]
    return made


class BRCReference(Reference):
    o: SACConfig

    def __init__(self, o: SACConfig, state: dict[str, Tensor]) -> None:
        super().__init__(o, state)
        self.p["task.table"] = state["task.table"].clone()
        self.categorical = isinstance(o, BRCConfig)
        self.atoms = [-o.v_max + 2 * o.v_max * j / (BINS - 1) for j in range(BINS)]

    def names(self, prefix: str) -> list[str]:
        return [k for k in super().names(prefix) if "running" not in k]

    def label(self, task: int, whose: str = "task") -> list[Tensor]:
        row = self.p[f"{whose}.table"][0, task]
        return [row / torch.sqrt((row**2).sum())]

    # ---- networks: all rows of one member, as two-dimensional matrices

    def net(self, network: str, k: int, x: Tensor, learning: bool) -> Tensor:
        """x [n, in]."""
        trunk = {"bronet": self.bronet, "simba_v2": self.simba, "flashsac": self.flash}[self.o.trunk]
        return trunk(network, k, x, learning)

    def get(self, name: str, k: int) -> Tensor:
        return self.p[name][k]

    def bronet(self, n: str, k: int, x: Tensor, learning: bool) -> Tensor:
        def normed(name: str, x: Tensor) -> Tensor:
            x = x @ self.get(f"{n}.{name}.linear.weight", k) + self.get(f"{n}.{name}.linear.bias", k)
            x = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-6)
            return x * self.get(f"{n}.{name}.norm.scale", k) + self.get(f"{n}.{name}.norm.shift", k)

        h = normed("first", x).clamp(min=0)
        i = 0
        while f"{n}.blocks.{i}.one.linear.weight" in self.p:
            h = h + normed(f"blocks.{i}.two", normed(f"blocks.{i}.one", h).clamp(min=0))
            i += 1
        return h @ self.get(f"{n}.out.weight", k) + self.get(f"{n}.out.bias", k)

    def simba(self, n: str, k: int, x: Tensor, learning: bool) -> Tensor:
        def l2(x: Tensor) -> Tensor:
            return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)

        depth = sum(f"{n}.blocks.{i}.one.weight" in self.p for i in range(9))
        h = l2(torch.cat([x, torch.full((len(x), 1), 3.0)], 1))
        h = l2(self.get(f"{n}.scaler.scale", k) * (h @ self.get(f"{n}.first.weight", k)))
        width = h.shape[1]
        for i in range(depth):
            b = f"{n}.blocks.{i}"
            inside = (self.get(f"{b}.scaler.scale", k) * (h @ self.get(f"{b}.one.weight", k))).clamp(min=0)
            new = l2(inside @ self.get(f"{b}.two.weight", k))
            h = l2(h + self.get(f"{b}.step.scale", k) * math.sqrt(width) / (depth + 1) * (new - h))
        h = self.get(f"{n}.out_scaler.scale", k) * (h @ self.get(f"{n}.before_out.weight", k))
        heads = self.get(f"{n}.out.weight", k)
        parts = [h[:, j * width : (j + 1) * width] @ heads[j] for j in range(len(heads))]
        return torch.cat(parts, 1) + self.get(f"{n}.bias.bias", k)

    def flash(self, n: str, k: int, x: Tensor, learning: bool) -> Tensor:
        def norm(name: str, x: Tensor) -> Tensor:
            mean, var = (self.p[f"{n}.{name}.running_{what}"][k, 0] for what in ("mean", "var"))
            if learning:
                new_mean, new_var = x.mean(0), x.var(0, unbiased=False)
                with torch.no_grad():
                    mean += 0.01 * (new_mean - mean)
                    var += 0.01 * (x.var(0, unbiased=True) - var)
                mean, var = new_mean, new_var
            x = (x - mean) / torch.sqrt(var + 1e-5)
            return x * self.get(f"{n}.{name}.scale", k) + self.get(f"{n}.{name}.shift", k)

        h = norm("norm", x) @ self.get(f"{n}.first.weight", k)
        i = 0
        while f"{n}.blocks.{i}.one.weight" in self.p:
            inside = norm(f"blocks.{i}.norm_one", h @ self.get(f"{n}.blocks.{i}.one.weight", k)).clamp(min=0)
            h = h + norm(f"blocks.{i}.norm_two", inside @ self.get(f"{n}.blocks.{i}.two.weight", k)).clamp(min=0)
            i += 1
        h = h / torch.sqrt((h**2).mean(1, keepdim=True) + 1e-6) * self.get(f"{n}.last_norm.scale", k)
        return h @ self.get(f"{n}.out.weight", k) + self.get(f"{n}.bias.bias", k)

    # ---- pieces

    def policies(self, obs: Tensor, noise: Tensor, detach: bool, beside: Tensor | None) -> list[list[Any]]:
        """(action, log pi) of every task and row; `beside` goes through the network too, where rows matter."""
        labels = [z.detach() if detach else z for i in range(TASKS) for z in self.label(i)]
        rows = [torch.cat([obs[i, r], labels[i]]) for i in range(TASKS) for r in range(ROWS)]
        if beside is not None and self.o.trunk == "flashsac":
            rows += [torch.cat([beside[i, r], labels[i]]) for i in range(TASKS) for r in range(ROWS)]
        outs = self.net("actor", 0, torch.stack(rows), learning=beside is not None)
        low, high = self.o.actor.log_std_bounds
        found: list[list[Any]] = []
        for i in range(TASKS):
            found.append([])
            for r in range(ROWS):
                out, action, log_prob = outs[i * ROWS + r], [], torch.zeros(())
                for d in range(ACT):
                    std = torch.exp(low + (high - low) / 2 * (1 + torch.tanh(out[ACT + d])))
                    u = out[d] + std * noise[i, r, d]
                    if not MASK[i, d]:
                        action.append(torch.zeros(()))
                        continue
                    action.append(torch.tanh(u))
                    log_prob = log_prob - noise[i, r, d] ** 2 / 2 - torch.log(std * math.sqrt(2 * math.pi))
                    log_prob = log_prob + 2 * torch.log(torch.cosh(u))
                found[i].append((torch.stack(action), log_prob))
        return found

    def critics(
        self, network: str, obs: Tensor, actions: Any, labels: list[Tensor], beside: Any, learning: bool = True
    ) -> list[Tensor]:
        """[T, b, out] of both members."""
        rows = [torch.cat([obs[i, r], labels[i], actions[i][r]]) for i in range(TASKS) for r in range(ROWS)]
        if self.o.trunk == "flashsac" and beside is not None:
            rows += [
                torch.cat([beside[0][i, r], labels[i], beside[1][i][r]]) for i in range(TASKS) for r in range(ROWS)
            ]
        outs = [self.net(network, k, torch.stack(rows), learning) for k in range(2)]
        return [out[: TASKS * ROWS].view(TASKS, ROWS, -1) for out in outs]

    def expected(self, logits: Tensor) -> Tensor:
        weights = torch.exp(logits)
        return sum(w * z for w, z in zip(weights, self.atoms, strict=True)) / weights.sum()  # type: ignore[return-value]

    # ---- losses

    def target(self, b: Batch, noise: Tensor) -> tuple[list[list[list[float]]], Any]:
        with torch.no_grad():
            labels = [z for i in range(TASKS) for z in self.label(i, "target_task")]
            found = self.policies(b.next_obs, noise, False, None)
            next_actions = [[a for a, _ in row] for row in found]
            logits = self.critics("target", b.next_obs, next_actions, labels, (b.obs, b.action))
            y: list[list[list[float]]] = []
            for i in range(TASKS):
                y.append([])
                for r in range(ROWS):
                    bonus = float(self.alpha(i) * found[i][r][1])
                    if not self.categorical:
                        q = min(float(logits[0][i, r, 0]), float(logits[1][i, r, 0]))
                        y[i].append([float(b.reward[i, r]) + float(b.discount[i, r]) * (q - bonus)])
                        continue
                    p = [torch.softmax(logits[k][i, r], 0) for k in range(2)]
                    if self.o.twin == "min":  # type: ignore[attr-defined]
                        q0, q1 = (float(self.expected(logits[k][i, r])) for k in range(2))
                        chosen = p[0] if q0 <= q1 else p[1]
                    else:
                        chosen = (p[0] + p[1]) / 2
                    new = [0.0] * BINS
                    for j in range(BINS):
                        z = float(b.reward[i, r]) + float(b.discount[i, r]) * (self.atoms[j] - bonus)
                        place = (min(max(z, -V_MAX), V_MAX) + V_MAX) / (2 * V_MAX / (BINS - 1))
                        low = min(math.floor(place), BINS - 2)
                        new[low] += float(chosen[j]) * (low + 1 - place)
                        new[low + 1] += float(chosen[j]) * (place - low)
                    y[i].append(new)
        return y, next_actions

    def critic_loss(self, b: Batch, noise: Tensor) -> list[Tensor]:
        y, next_actions = self.target(b, noise)
        labels = [z for i in range(TASKS) for z in self.label(i)]
        logits = self.critics("critic", b.obs, b.action, labels, (b.next_obs, next_actions))
        losses = []
        for i in range(TASKS):
            total = torch.zeros(())
            for r in range(ROWS):
                for k in range(2):
                    if self.categorical:
                        log_p = torch.log_softmax(logits[k][i, r], 0)
                        row = sum((-y[i][r][j] * log_p[j] for j in range(BINS)), torch.zeros(()))
                    else:
                        row = (logits[k][i, r, 0] - y[i][r][0]) ** 2 / 2
                    total = total + b.weight[i, r] * row
            losses.append(total / ROWS)
        return losses

    def actor_loss(self, b: Batch, noise: Tensor) -> tuple[list[Tensor], list[list[float]]]:
        found = self.policies(b.obs, noise, True, b.next_obs)
        labels = [z.detach() for i in range(TASKS) for z in self.label(i)]
        actions = [[a for a, _ in row] for row in found]
        logits = self.critics("critic", b.obs, actions, labels, None, learning=False)
        losses, log_probs = [], []
        for i in range(TASKS):
            total = torch.zeros(())
            for r in range(ROWS):
                if self.categorical:
                    q = [self.expected(logits[k][i, r]) for k in range(2)]
                else:
                    q = [logits[k][i, r, 0] for k in range(2)]
                smaller = q[0] if float(q[0]) < float(q[1]) else q[1]
                mean = self.categorical and self.o.twin == "mean"  # type: ignore[attr-defined]
                value = (q[0] + q[1]) / 2 if mean else smaller
                total = total + b.weight[i, r] * (self.alpha(i).detach() * found[i][r][1] - value)
            losses.append(total / ROWS)
            log_probs.append([float(log_prob) for _, log_prob in found[i]])
        return losses, log_probs

    def alpha_loss(self, log_probs: list[list[float]]) -> Tensor:
        total = torch.zeros(())
        for i in range(TASKS):
            log_alpha = self.p["log_alpha"][0]
            for r in range(ROWS):
                wanted = -0.5 * int(MASK[i].sum())
                factor = torch.exp(log_alpha) if self.categorical else log_alpha
                total = total + factor * (-log_probs[i][r] - wanted)
        return total / (TASKS * ROWS)

    # ---- optimisation

    def adam(self, gradients: dict[str, Tensor], cfg: Any, clip: float | None) -> float:
        before = {k: self.p[k].detach() for k in gradients}
        norm = super().adam(gradients, cfg, clip)
        for k, old in before.items():
            self.p[k] = self.p[k] - cfg.lr * cfg.weight_decay * old
        for k in gradients:
            if self.o.trunk != "bronet" and k.endswith(".weight") and not k.startswith("task"):
                self.p[k] = self.p[k] / torch.sqrt((self.p[k] ** 2).sum(-2, keepdim=True))
            if self.o.trunk == "flashsac" and k.endswith(".scale"):
                shift = k.replace(".scale", ".shift")
                parts = [k, *([shift] if shift in self.p else [])]
                length = torch.sqrt(sum((self.p[n] ** 2).sum(-1, keepdim=True) for n in parts))  # type: ignore[arg-type]
                for n in parts:
                    self.p[n] = self.p[n] / length * math.sqrt(self.p[n].shape[-1])
        return norm
