"""What an exported policy does is what the agent does, for every agent, trunk and number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from medley.agents.api import Agent
from medley.errors import MedleyError
from medley.exporting.network import PolicyNetwork
from medley.exporting.onnx_file import Exported, to_onnx
from medley.nn.trunks import trunk_names
from tests.exporting.policies import TASKS, every_agent, exported, make_agent, observations, run, session_of, what_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

VARIANTS = [
    *(("state_sac", f"agent.trunk={name}") for name in trunk_names() if name not in ("must", "care")),
    *(("care", f"agent.care.mode={mode}") for mode in ("gate", "cluster", "identity", "ensemble")),
    ("state_sac", "agent.normalize_obs=true"),
    ("state_sac", "agent.task_input=encoder"),
    ("soft_modules", "agent.soft_modules.layers=4", "agent.soft_modules.modules=4", "agent.soft_modules.floor=0.1"),
    ("film", "agent.film.per_channel=true"),
    ("distral", "agent.distral.act=common"),
    ("distral", "agent.distral.act=common", "agent.normalize_obs=true"),
]


def check(agent: Any, tasks: int = TASKS) -> None:
    """Whatever the rows are and however many."""
    session = session_of(exported(agent))
    for rows in (1, 2, 7, 33):
        obs = observations(agent, rows, seed=rows)
        task = torch.from_numpy(np.random.default_rng(rows).integers(tasks, size=rows))
        every = agent.act(obs.expand(tasks, *obs.shape).contiguous(), None)
        own = every[task, torch.arange(rows)].numpy()
        got = run(session, obs, task if tasks > 1 else None)
        assert got.shape == own.shape
        assert np.abs(got - own).max() < 1e-5
        if rows == 33:
            assert np.ptp(own) > 0.05  # else anything would agree
            assert not own[task == 1, -1].any()  # padding


@pytest.mark.parametrize("name", every_agent())
def test_acts_as_the_agent(name: str) -> None:
    check(make_agent(name))


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
def test_acts_as_the_agent_with_other_networks(variant: tuple[str, ...]) -> None:
    check(make_agent(*variant))


def test_tasks_are_told_apart() -> None:
    session = session_of(exported(agent := make_agent("state_sac")))
    obs = observations(agent, 1)
    actions = [run(session, obs, torch.tensor([i])) for i in range(TASKS)]
    assert np.abs(actions[0] - actions[2]).max() > 0.01


@pytest.mark.parametrize("name", ["state_sac", "sac_ae"])
def test_a_single_task_needs_no_number(name: str) -> None:
    agent = make_agent(name, tasks=1)
    assert [one.name for one in session_of(exported(agent)).get_inputs()] == ["observation"]
    check(agent, tasks=1)


def test_pictures_go_in_as_they_are_and_are_looked_at_once() -> None:
    content = exported(make_agent("sac_ae"))
    (picture, _) = session_of(content).get_inputs()
    assert (picture.type, picture.shape[1:]) == ("tensor(uint8)", [9, 24, 24])
    convolved = [node for node in onnx.load_model_from_string(content).graph.node if node.op_type == "Conv"]
    assert len(convolved) == 2  # its layers, for all tasks together


def test_nothing_but_the_policy_is_in_the_file() -> None:
    small, large = make_agent("state_sac"), make_agent("state_sac", "agent.critic.hidden_dim=512")
    assert abs(len(exported(small)) - len(exported(large))) < 100


def test_actions_are_on_the_scale_of_the_env() -> None:
    agent = make_agent("state_sac")
    obs, task = observations(agent, 6), torch.tensor([0, 1, 2, 0, 1, 2])
    plain, scaled = (run(session_of(exported(agent, *bounds)), obs, task) for bounds in ((-1, 1), (-2, 6)))
    padding = np.zeros_like(plain, dtype=bool)
    padding[task == 1, -1] = True
    assert np.abs(scaled - (2 + 4 * plain))[~padding].max() < 1e-5
    assert not scaled[padding].any()


class Odd(Agent):
    """An agent of somebody else's that does what ONNX has no word for."""

    def act(self, obs: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        return torch.linalg.svdvals(obs)[..., None].expand(*obs.shape[:2], 2)

    update = state_dict = load_state_dict = load_weights = lambda self, *a: None  # type: ignore[assignment]


class Foreign(Odd):
    """One that ONNX understands, though it is no ActorCritic."""

    def act(self, obs: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        return torch.tanh(obs[..., :2] * torch.arange(1, obs.shape[0] + 1)[:, None, None])


def test_what_cannot_be_exported_says_why() -> None:
    what = Exported(what_of(make_agent("state_sac")).path, "odd", "point", 1, ("a", "b"), (3,), 2)
    low, high = -np.ones((2, 2)), np.ones((2, 2))
    with pytest.raises(MedleyError, match=r"odd cannot be exported: ONNX cannot say what it does \(.*svd"):
        to_onnx(PolicyNetwork(Odd(), low, high), what)
    session = session_of(to_onnx(PolicyNetwork(Foreign(), low, high), what))
    obs = torch.randn(5, 3)
    got = run(session, obs, torch.tensor([1, 0, 1, 1, 0]))
    assert np.abs(got - np.tanh(obs[:, :2].numpy() * np.array([2, 1, 2, 2, 1])[:, None])).max() < 1e-6
