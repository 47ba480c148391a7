"""BRC, SimbaV2 and FlashSAC as wholes: updates against a second implementation in float64, with losses row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.brc import BRC, check_brc
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.errors import ConfigError
from tests.agents.brc_reference import TRUNKS, BRCReference, agent, options
from tests.agents.test_sac_reference import ACT, MASK, OBS, ROWS, TASKS, batch
from tests.training.updates import steps

pytestmark = pytest.mark.usefixtures("float64")


def compare(o: SACConfig, updates: int = 3, seed: int = 0) -> None:
    medley = agent(o, seed)
    start = {k: v.clone() for k, v in medley.state_dict().items()}
    reference = BRCReference(o, medley.state_dict())
    rng = np.random.default_rng(seed)
    for n in range(updates):
        b = batch(rng)
        noises = [torch.from_numpy(rng.normal(size=(TASKS, ROWS, ACT))) for _ in range(2)]
        phase = medley.phase(n)
        got, wanted = medley.update(b, phase, noises), reference.update(b, noises, phase)
        for name, value in wanted.items():
            assert float(got[name]) == pytest.approx(value, rel=1e-7, abs=1e-7), f"{name}, update {n}"
        for name, value in medley.state_dict().items():
            if name in reference.p:
                gap = float((value - reference.p[name].detach()).abs().max())
                assert gap < 1e-7, f"{name} differs by {gap} after update {n}"
    for name in ("actor.", "critic.", "target.", "log_alpha", "task."):
        assert any(not torch.equal(v, start[k]) for k, v in medley.state_dict().items() if k.startswith(name)), name


@pytest.mark.parametrize("twin", ["mean", "min"])
@pytest.mark.parametrize("trunk", TRUNKS)
def test_updates_equal_the_reference(trunk: str, twin: str) -> None:
    compare(options(trunk, twin=twin))


def test_actor_every_second_update_equals_the_reference() -> None:
    compare(options("flashsac", twin="min", actor_update_freq=2), updates=4)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_plain_sac_with_blocks_equals_the_reference(trunk: str) -> None:
    o = options(trunk)
    plain = SACConfig(**{k: v for k, v in vars(o).items() if k not in ("bins", "twin")})
    compare(plain, updates=2)


# ---- which loss trains what


def changed(before: dict[str, Tensor], made: SAC) -> set[str]:
    after = made.state_dict()
    names = {k for k in before if not torch.equal(before[k], after[k])}
    return {".".join(k.split(".")[: 2 if k.startswith("optimizer") else 1]) for k in names} - {"generator"}


@pytest.mark.parametrize("trunk", TRUNKS)
def test_what_each_loss_trains(trunk: str) -> None:
    rng = np.random.default_rng(0)
    made = agent(options(trunk))
    noise = torch.from_numpy(rng.normal(size=(TASKS, ROWS, ACT)))

    def snapshot() -> dict[str, Tensor]:
        return {k: v.clone() for k, v in made.state_dict().items()}

    before = snapshot()
    made.update_critic(batch(rng), noise)
    statistics = {"target"} if trunk == "flashsac" else set()  # running ones, of a pass of its own
    assert changed(before, made) == {"critic", "task", "optimizer.critic", "optimizer.task_encoder"} | statistics
    for name, value in made.state_dict().items():
        if name.startswith(("critic", "task")):
            assert not torch.equal(value, before[name]), f"{name} is not trained"
        if name.startswith("target") and "running" not in name:
            assert torch.equal(value, before[name])
    before = snapshot()
    made.update_actor(batch(rng), noise)
    assert changed(before, made) == {"actor", "log_alpha", "optimizer.actor", "optimizer.alpha"}
    for name, value in made.state_dict().items():
        if name.startswith("actor"):
            assert not torch.equal(value, before[name]), f"{name} is not trained"


@pytest.mark.parametrize("trunk", TRUNKS)
def test_tasks_in_another_order_learn_the_same(trunk: str) -> None:
    order, rng = [2, 0, 1], np.random.default_rng(1)
    full = np.ones_like(MASK)
    spaces = Spaces(("a", "b", "c"), OBS, ACT, full)
    a, b = (BRC(options(trunk), spaces, torch.device("cpu"), 0) for _ in range(2))
    with torch.no_grad():
        for label in (b.task_input, b.target_task):
            label.table.copy_(a.task_input.table[:, order])  # type: ignore[union-attr, operator, arg-type]
    one = batch(rng)
    two = Batch(*(getattr(one, f)[order] for f in Batch.__dataclass_fields__))
    noises = [torch.from_numpy(rng.normal(size=(TASKS, ROWS, ACT))) for _ in range(2)]
    first, second = a.update(one, "all", noises), b.update(two, "all", [n[order] for n in noises])
    assert torch.allclose(first["critic_loss_per_task"][order], second["critic_loss_per_task"], atol=1e-12)
    for name, value in a.state_dict().items():
        if name.startswith(("actor", "critic", "target.")):
            assert torch.allclose(value, b.state_dict()[name], atol=1e-9), name
        if name in ("task.table", "target_task.table"):
            assert torch.allclose(value[:, order], b.state_dict()[name], atol=1e-9)


# ---- starting afresh, and what is refused


@pytest.mark.parametrize("trunk", TRUNKS)
def test_a_reset_is_a_fresh_agent_in_the_same_place(trunk: str) -> None:
    rng = np.random.default_rng(0)
    made = BRC(options(trunk, normalize_obs=True), Spaces(("a", "b", "c"), OBS, ACT, MASK), torch.device("cpu"), 0)
    made.observe(steps(rng.normal(size=(2, TASKS, 1, OBS)).astype(np.float32)), 0)
    made.update(batch(rng), "all")
    places = {k: v.data_ptr() for k, v in made._tensors().items()}
    kept = {k: v.clone() for k, v in made.state_dict().items() if k.startswith(("obs_norm", "generator"))}
    made.reset(7)
    fresh = BRC(options(trunk, normalize_obs=True), made.spaces, torch.device("cpu"), 7).state_dict()
    assert {k: v.data_ptr() for k, v in made._tensors().items()} == places
    for name, value in made.state_dict().items():
        assert torch.equal(value, kept.get(name, fresh[name])), name
    assert float(kept["obs_norm.count"]) == 2 * TASKS


@pytest.mark.parametrize("gradients", ["pcgrad", "cagrad", "nash", "gradnorm"])
def test_batch_norm_refuses_gradients_of_single_tasks(gradients: str) -> None:
    with pytest.raises(ConfigError, match="mixes the tasks of a batch"):
        check_brc(options("flashsac", gradients=gradients), TASKS)
    check_brc(options("flashsac", gradients="famo"), TASKS)
    check_brc(options("bronet", gradients=gradients), TASKS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"bins": 1}, "at least 2"), ({"twin": "maen"}, "Did you mean 'mean'"), ({"trunk": "bronett"}, "'bronet'")],
)
def test_impossible_options_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_brc(options(**changes), TASKS)
