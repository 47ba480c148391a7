"""Small agents with compiled updates, and comparisons of these with PyTorch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.native.learner import NativeSAC
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig

TASKS, OBS, ACT = 3, 5, 2
MASK = np.array([[True, True], [True, False], [True, True]])  # the second task has one action dimension less


@pytest.fixture(autouse=True)
def _threads_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medley.agents.native.learner.ROWS_PER_THREAD", 1)


@pytest.fixture(params=["tiles", "blas"])
def either_product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiles and with BLAS, whatever suits this machine: tiles compile for all, to slower code."""
    monkeypatch.setattr("medley.agents.native.memory.has_wide_vectors", lambda: request.param == "tiles")


def options(**changes: Any) -> SACConfig:
    o = SACConfig(name="sac", builder="sac", task_input="one_hot", critic_tau=0.1, init_temperature=0.3)
    o.actor.hidden_dim, o.actor.num_layers = 20, 2
    o.critic.hidden_dim, o.critic.num_layers = 18, 3
    rates = o.optimizers
    rates.actor.lr, rates.critic.lr, rates.alpha.lr = 0.02, 0.01, 0.03
    rates.critic.beta1, rates.actor.beta2, rates.alpha.beta1 = 0.8, 0.99, 0.7
    for config in (rates.actor, rates.critic, rates.alpha):
        config.eps = 1e-3  # a small one turns rounding into steps where gradients are near zero
    for name, value in changes.items():
        place: Any = o
        *path, last = name.split("__")
        for word in path:
            place = getattr(place, word)
        setattr(place, last, value)
    return o


def agent(o: SACConfig, mask: Any = MASK, seed: int = 0) -> SAC:
    mask = np.asarray(mask)
    spaces = Spaces(tuple(f"t{i}" for i in range(len(mask))), OBS, mask.shape[1], mask)
    made = SAC(o, spaces, torch.device("cpu"), seed)
    generator = torch.Generator().manual_seed(seed + 10)
    with torch.no_grad():  # output layers start near zero, where mistakes hide: make everything matter
        for network in (made.actor, made.critic, made.target):
            for p in network.parameters():
                p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return made


def native(of: SAC, threads: int = 2) -> NativeSAC:
    made = of.native(threads)
    assert isinstance(made, NativeSAC), made
    return made


def batch(seed: int, rows: int = 6, mask: Any = MASK) -> Batch:
    g = torch.Generator().manual_seed(seed)
    shape = (len(mask), rows)

    def normal(*more: int) -> Tensor:
        return torch.randn(*shape, *more, generator=g)

    return Batch(
        obs=normal(OBS),
        action=torch.tanh(normal(len(mask[0]))) * torch.from_numpy(np.asarray(mask)).unsqueeze(1),
        reward=normal(),
        discount=0.9 * (torch.rand(shape, generator=g) > 0.3),
        next_obs=normal(OBS),
        weight=torch.rand(shape, generator=g) * 2,
    )


def assert_alike(one: SAC, two: SAC, tolerance: float, when: str = "") -> None:
    a, b = one.state_dict(), two.state_dict()
    assert torch.equal(a["generator"], b["generator"]), "they drew different numbers"
    for name, value in a.items():
        if name.endswith("step"):
            assert torch.equal(value, b[name]), f"{name} {when}"
        gap = float((value.double() - b[name].double()).abs().max())
        assert gap < tolerance * max(1.0, float(value.abs().max())), f"{name} differs by {gap} {when}"


def compare(
    o: SACConfig, threads: int = 2, updates: int = 30, rows: int = 6, mask: Any = MASK, each_alone: bool = False
) -> None:
    """`each_alone`: every update begins from the same weights. With many rows there is always one whose two critics
    are so close that rounding says which is the smaller, and that moves a gradient by more than rounding does."""
    eager, other = agent(o, mask), agent(o, mask)
    start = {k: v.clone() for k, v in eager.state_dict().items()}
    compiled = native(other, threads)
    for n in range(updates):
        b = batch(n, rows, mask)
        wanted, got = eager.update(b, eager.phase(n)), compiled.update(b, other.phase(n))
        assert wanted.keys() == got.keys()
        for name, value in wanted.items():
            assert value.shape == got[name].shape
            scale = max(1.0, float(value.abs().max()))
            assert torch.allclose(value, got[name], atol=2e-4 * scale), f"{name}, update {n}: {value}, {got[name]}"
        if n == 0 or each_alone:
            assert_alike(eager, other, 5e-6, "after one update")
        if each_alone:
            other.load_state_dict(eager.state_dict())
    assert_alike(eager, other, 5e-4, f"after {updates} updates")
    for name in ("actor.", "critic.", "target."):
        moved = max(float((v - start[k]).abs().max()) for k, v in eager.state_dict().items() if k.startswith(name))
        assert moved > 0.004 * updates**0.5, f"{name} hardly moved: the comparison says little"
    compiled.close()
