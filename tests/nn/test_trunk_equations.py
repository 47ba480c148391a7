"""The defining equation of every trunk, spelt out row by row in 64-bit floats."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from medley.nn.mixture import MixtureTrunk
from medley.nn.moore import orthonormal
from medley.nn.task_words import CLUSTERS, clusters_of
from tests.nn.test_every_trunk import ACT, OBS, ROWS, make, make_double

TASKS, MEMBERS = 3, 2


def critic_of(**changes: Any) -> tuple[dict[str, Tensor], Tensor, Tensor | None, Tensor, Tensor]:
    """A trunk as critic, its tensors, inputs, and what it makes of them."""
    agent = make_double(**changes)
    g = torch.Generator().manual_seed(3)
    obs = torch.randn(TASKS, ROWS, OBS, generator=g, dtype=torch.float64)
    action = torch.randn(TASKS, ROWS, ACT, generator=g, dtype=torch.float64)
    z = agent._task()
    with torch.no_grad():
        out = agent.critic(obs, z, action)
    return agent.critic.state_dict(), obs, None if z is None else z.detach(), action, out


def affine(state: dict[str, Tensor], layer: str, x: Tensor, *index: int) -> Tensor:
    weight, bias = state[f"{layer}.weight"], state[f"{layer}.bias"]
    for i in index:
        weight, bias = weight[i], bias[i]
    return x @ weight + bias[0]


def relu(x: Tensor) -> Tensor:
    return x.clamp(min=0)


def every_row() -> list[tuple[int, int, int]]:
    return [(m, t, r) for m in range(MEMBERS) for t in range(TASKS) for r in range(ROWS)]


def body(state: dict[str, Tensor], x: Tensor, m: int) -> Tensor:
    for i in range(2):
        x = relu(affine(state, f"hidden.{i}", x, m))
    return affine(state, "out", x, m)


@pytest.mark.parametrize("mode", ["attention", "gate", "cluster", "identity", "ensemble"])
def test_care(mode: str) -> None:
    changes = {"care.mode": mode, "care.temperature": 0.7, "care.top": 2}
    state, obs, z, action, out = critic_of(trunk="care", **changes)
    assert z is not None
    k = {"cluster": len(CLUSTERS), "identity": TASKS}.get(mode, 3)
    for m, t, r in every_row():
        if mode == "cluster":
            w = clusters_of(("reach-v3", "drawer-close-v3", "push-v3"))[t].double()
        elif mode == "identity":
            w = torch.tensor([float(j == t) for j in range(k)], dtype=torch.float64)
        elif mode == "ensemble":
            w = torch.full((k,), 1 / k, dtype=torch.float64)
        else:
            h = z[t]
            for i in range(3):
                h = affine(state, f"weights.gate.{i}", relu(h) if i else h, 0)
            w = torch.exp(h / 0.7) / torch.exp(h / 0.7).sum()
            if mode == "gate":
                least = sorted(w.tolist())[-2]
                w = torch.tensor([x if x >= least else 0.0 for x in w.tolist()], dtype=torch.float64)
                w = w / w.sum()
        encoded = torch.zeros(50, dtype=torch.float64)
        for j in range(k):
            e = affine(state, "encoders.layers.1", relu(affine(state, "encoders.layers.0", obs[t, r], j)), j)
            encoded += w[j] * e
        wanted = body(state, torch.cat([encoded, z[t], action[t, r]]), m)
        assert torch.allclose(out[m, t, r], wanted, atol=1e-9)


def test_words_put_tasks_into_clusters() -> None:
    names = [" or ".join(words) for words in CLUSTERS]
    table = clusters_of(["drawer-close-v3", "peg-insert-side-v3", "window-open", "pick-place-v2", "nothing-of-these"])
    found = [{names[j] for j in range(len(names)) if row[j] > 0} for row in table]
    assert found[0] == {"close", "drawer"}
    assert found[1] == {"insert or pick and place or press or reach", "button or door or peg or revolving joint"}
    assert found[2] == {"open", "window"}
    assert found[3] == {"insert or pick and place or press or reach", "goal", "puck"}
    assert found[4] == set(names)  # in none: all alike
    assert torch.allclose(table.sum(1), torch.ones(5))


def test_cares_actor_reads_the_critics_encoders_and_trains_a_gate_of_its_own() -> None:
    agent = make_double(trunk="care")
    actor, critic = agent.actor, agent.critic
    assert isinstance(actor, MixtureTrunk)
    assert isinstance(critic, MixtureTrunk)
    assert not any(name.startswith("encoders") for name, _ in actor.named_parameters())
    assert any(name.startswith("weights.gate") for name, _ in actor.named_parameters())
    obs = torch.randn(TASKS, ROWS, OBS, dtype=torch.float64)
    before = agent.act(obs, None)
    with torch.no_grad():
        critic.encoders.layers[0].weight.mul_(2)  # type: ignore[union-attr, operator]
    assert not torch.equal(agent.act(obs, None), before)


@pytest.mark.parametrize("per_channel", [False, True])
def test_film(per_channel: bool) -> None:
    state, obs, z, action, out = critic_of(trunk="film", **{"film.per_channel": per_channel})
    assert z is not None
    channels = 50 if per_channel else 1
    for m, t, r in every_row():
        numbers = affine(state, "film", z[t] / len(z[t]) ** 0.5, m).view(3, 2, channels)
        h = obs[t, r]
        for i in range(3):
            h = affine(state, f"encoder.{i}", h, m)
            h = (1 + numbers[i, 0]) * (h if i == 2 else relu(h)) + numbers[i, 1]
        wanted = body(state, torch.cat([h, z[t], action[t, r]]), m)
        assert torch.allclose(out[m, t, r], wanted, atol=1e-9)


@pytest.mark.parametrize(("layers", "modules", "floor"), [(2, 2, 0.0), (4, 4, 0.0), (3, 2, 0.2)])
def test_soft_modules(layers: int, modules: int, floor: float) -> None:
    changes = {"soft_modules.layers": layers, "soft_modules.modules": modules, "soft_modules.floor": floor}
    state, obs, z, action, out = critic_of(trunk="soft_modules", **changes)
    assert z is not None

    def softmax(x: Tensor) -> Tensor:
        p = torch.exp(x) / torch.exp(x).sum()
        return (1 - floor) * p + floor / modules

    for m, t, r in every_row():
        s = torch.cat([obs[t, r], action[t, r]])
        f = affine(state, "state.1", relu(affine(state, "state.0", s, m)), m)
        g = relu(f * affine(state, "label", z[t], m))
        e = affine(state, "gating.1", relu(affine(state, "gating.0", g, m)), m)
        x = [relu(f)] * modules
        before: list[Tensor] = []
        for i in range(layers):
            gate = e if i == 0 else e * affine(state, f"earlier.{i - 1}", torch.cat(before), m)
            logits = affine(state, f"routing.{i}", relu(gate), m)
            targets = 1 if i + 1 == layers else modules
            rows = [softmax(logits[j * modules : (j + 1) * modules]) for j in range(targets)]
            before.append(torch.cat(rows))
            y = [affine(state, f"modules_of.{i}", x[k], m, k) for k in range(modules)]
            x = [relu(sum(row[k] * y[k] for k in range(modules))) for row in rows]  # type: ignore[arg-type]
        wanted = affine(state, "out", x[0], m)
        assert torch.allclose(out[m, t, r], wanted, atol=1e-9)


def test_t3s() -> None:
    state, obs, _, action, out = critic_of(trunk="t3s")

    def hyper(layer: str, x: Tensor, m: int, t: int) -> Tensor:
        weight = state[f"{layer}.own_weight"][m, t] + state[f"{layer}.common_weight"][m, 0]
        return x @ weight + state[f"{layer}.own_bias"][m, t, 0] + state[f"{layer}.common_bias"][m, 0, 0]

    for m, t, r in every_row():
        g1 = relu(affine(state, "shared.0", torch.cat([obs[t, r], action[t, r]]), m))
        g2 = relu(affine(state, "shared.1", g1, m))
        h = g1
        for i in range(4):
            h = hyper(f"mask.{i}", relu(h) if i else h, m, t)
        masked = g2 / (1 + torch.exp(-h))
        wanted = hyper("head.1", relu(hyper("head.0", masked, m, t)), m, t)
        assert torch.allclose(out[m, t, r], wanted, atol=1e-9)


def test_paco() -> None:
    state, obs, _, action, out = critic_of(trunk="paco")
    for m, t, r in every_row():
        h = torch.cat([obs[t, r], action[t, r]])
        for i in range(3):
            h = relu(h) if i else h
            h = sum(state["w"][0, t, k] * affine(state, f"layers.{i}", h, m, k) for k in range(5))  # type: ignore[assignment]
        assert torch.allclose(out[m, t, r], h, atol=1e-9)


def test_paco_starts_as_an_ordinary_network() -> None:
    critic = make(trunk="paco").critic
    assert torch.allclose(critic.w.sum(-1), torch.ones(1, TASKS))  # type: ignore[union-attr, operator]
    first = critic.layers[0].weight  # type: ignore[union-attr, index]
    assert torch.equal(first[:, 0], first[:, 4])
    assert not torch.equal(first[0], first[1])


def test_moore() -> None:
    state, obs, _, action, out = critic_of(trunk="moore")
    for m, t, r in every_row():
        units: list[Tensor] = []
        for j in range(4):
            h = torch.cat([obs[t, r], action[t, r]])
            for i in range(2):
                h = affine(state, f"experts.{i}", relu(h) if i else h, m, j)
            for u in units:
                h = h - (h @ u) * u
            units.append(h / (h @ h + 1e-8).sqrt())
        f = torch.tanh(sum(state["w"][m, t, j] * u for j, u in enumerate(units)))  # type: ignore[arg-type]
        assert torch.allclose(out[m, t, r], affine(state, "heads", f, m, t), atol=1e-8)


def test_orthonormal_vectors_are_orthonormal_even_if_they_are_not_independent() -> None:
    v = torch.randn(3, 7, 5, dtype=torch.float64)
    units = torch.stack(orthonormal((v[0], v[1], v[2], v[0] + v[1])), 1)
    gram = units @ units.transpose(1, 2)
    assert torch.allclose(gram[:, :3, :3], torch.eye(3, dtype=torch.float64).expand(7, 3, 3), atol=1e-6)
    assert bool(torch.isfinite(units).all())
    assert float(units[:, 3].abs().max()) < 1e-3
