"""Which loss trains what, the shapes of the networks, order of tasks, saving, and updates as one graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from medley.agents.api import Batch
from medley.errors import ConfigError
from medley.nn.convs import Convs, Decoder, shifted, sides
from medley.nn.projected import ProjectedTrunk
from medley.nn.trunks import Trunk, trunk_names
from tests.agents.pixel_agents import make_agent, make_batch

AGENTS = ["sac", "sac_ae", "drq", "drqv2", "deepmdp", "hipbmdp"]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def changed(agent: Any, act: Any) -> set[str]:
    """The first parts of the names of tensors that `act` changes: convs, actor.linear, ..."""
    before = {k: v.clone() for k, v in agent._weights().items()}
    act()
    after = agent._weights()
    moved = {k for k, v in before.items() if not torch.equal(v, after[k])}
    return {
        ".".join(k.split(".")[:2]) if k.startswith(("actor", "critic", "target.")) else k.split(".")[0] for k in moved
    }


@pytest.mark.parametrize("size", [64, 84, 100, 85])
def test_a_decoder_draws_what_an_encoder_saw(size: int) -> None:
    convs = Convs((9, size, size), 4, 32, generator())
    seen = convs(torch.zeros(2, 3, 9, size, size, dtype=torch.uint8))
    side = (size - 3) // 2 + 1 - 6
    assert sides(size, 4)[-1] == side
    assert seen.shape == (2, 3, 32 * side * side)
    assert Decoder((9, size, size), 4, 32, 50, generator())(torch.zeros(2, 3, 50)).shape == (2, 3, 9, size, size)


def test_networks_are_as_large_as_published() -> None:
    convs = Convs((9, 84, 84), 4, 32, generator())
    assert convs.features == 39_200

    class Nothing(Trunk):
        def forward(self, obs: Any, task: Any = None, action: Any = None) -> Any:
            return obs

    head = ProjectedTrunk(Nothing(), convs.features, 50, generator())
    encoder = [*convs.parameters(), *head.projection()]
    assert sum(p.numel() for p in convs.parameters()) == 30_368
    assert sum(p.numel() for p in encoder) == 1_990_518
    assert sum(p.numel() for p in Decoder((9, 84, 84), 4, 32, 50, generator()).parameters()) == 2_029_545


def test_convolutions_start_at_their_centre() -> None:
    weight = Convs((9, 20, 20), 2, 32, generator()).layers[0].weight
    centre = weight[:, :, 1, 1]
    assert torch.count_nonzero(weight) == torch.count_nonzero(centre) == centre.numel()
    assert torch.allclose(centre.T @ centre, 2 * torch.eye(9), atol=1e-5)


def test_too_small_pictures_are_refused() -> None:
    with pytest.raises(ConfigError, match="too small for 4 convolutions"):
        Convs((9, 14, 14), 4, 32, generator())


def test_the_actors_loss_leaves_the_convolutions_alone() -> None:
    agent = make_agent("sac_ae")
    batch = make_batch()
    features = agent.convs(batch.obs).detach()
    moved = changed(agent, lambda: agent.update_actor(_with(batch, features), torch.randn(1, 3, 2)))
    assert moved == {"actor.linear", "actor.norm", "actor.inner", "log_alpha"}


def test_the_critics_loss_trains_all_that_the_critic_sees_with() -> None:
    agent = make_agent("sac_ae")
    moved = changed(agent, lambda: agent.update_critic(make_batch(), torch.randn(1, 3, 2)))
    assert moved == {"critic.linear", "critic.norm", "critic.inner", "convs"}


def test_reconstruction_reaches_encoder_and_decoder() -> None:
    agent = make_agent("sac_ae")
    batch = make_batch()
    noise = agent._draw_for_model(3)
    moved = changed(agent, lambda: agent.update_model(batch, agent.convs(batch.obs), noise))
    assert moved == {"critic.linear", "critic.norm", "convs", "decoder"}


def test_models_reach_the_encoder_and_theta() -> None:
    agent = make_agent("hipbmdp", tasks=2)
    batch = make_batch(2)
    noise = agent._draw_for_model(3)
    moved = changed(agent, lambda: agent.update_model(batch, agent.convs(batch.obs), noise))
    assert moved == {"critic.linear", "critic.norm", "convs", "decoder", "transition", "reward", "task"}
    moved = changed(agent, lambda: agent.update_critic(batch, torch.randn(2, 3, 2)))
    assert "task" not in moved
    plain = make_agent("deepmdp", "agent.task_input=encoder", tasks=2)
    moved = changed(plain, lambda: plain.update_model(batch, plain.convs(batch.obs), noise))
    assert "task" not in moved
    assert "task" in changed(plain, lambda: plain.update_critic(batch, torch.randn(2, 3, 2)))


def test_the_targets_encoder_follows_at_its_own_rate() -> None:
    agent = make_agent("sac_ae")
    with torch.no_grad():
        for p in (*agent.critic.parameters(), *agent.convs.parameters()):
            p.fill_(1.0)
        for p in (*agent.target.parameters(), *agent.target_convs.parameters()):
            p.fill_(0.0)
    agent.update_target()
    assert all(torch.allclose(p, torch.tensor(0.05)) for p in agent.target_convs.parameters())
    assert all(torch.allclose(p, torch.tensor(0.05)) for p in agent.target.projection())
    assert all(torch.allclose(p, torch.tensor(0.01)) for p in agent.target.inner.parameters())


@pytest.mark.parametrize("name", ["sac_ae", "drqv2"])
def test_targets_learn_about_tasks_as_slowly_as_all_else(name: str) -> None:
    agent = make_agent(name, "agent.task_input=encoder", tasks=2)
    fresh = make_agent(name, "agent.task_input=encoder", tasks=2)
    with torch.no_grad():
        for p in agent.task_input.parameters():
            p.add_(1.0)
        before = [p.clone() for p in agent.target_task.parameters()]
    if name == "sac_ae":
        pictures, action = make_batch(2), torch.randn(2, 3, 2).tanh()
        pictures.next_obs = agent.convs.pixels(pictures.next_obs)
        assert torch.equal(agent._target_q(pictures, action), fresh._target_q(pictures, action))
    agent.update_target()
    for old, now, learnt in zip(before, agent.target_task.parameters(), agent.task_input.parameters(), strict=True):
        assert torch.allclose(now, old.lerp(learnt, agent.options.critic_tau))
        assert not torch.equal(now, old)


def test_drqv2_trains_its_encoder_by_the_critic_alone_and_has_no_target_of_it() -> None:
    agent = make_agent("drqv2")
    batch = make_batch()
    assert changed(agent, lambda: agent.update_critic(batch, torch.randn(1, 3, 2))) == {
        "critic.linear",
        "critic.norm",
        "critic.inner",
        "convs",
    }
    features = agent.convs(batch.obs).detach()
    moved = changed(agent, lambda: agent.update_actor(_with(batch, features), torch.randn(1, 3, 2)))
    assert moved == {"actor.linear", "actor.norm", "actor.inner"}
    assert not any(name.startswith("target_convs") for name in agent._weights())


def test_drqv2_explores_less_and_less() -> None:
    agent = make_agent("drqv2", "agent.std_steps=100")
    obs, noise = make_batch().obs, torch.full((1, 3, 2), 0.1)
    greedy = agent.act(obs, None)
    for steps, std in ((0, 1.0), (50, 0.55), (50, 0.1), (50, 0.1)):
        agent.observe([None] * steps, 0)
        assert torch.allclose(agent.act(obs, noise), (greedy + std * noise).clamp(-1, 1), atol=1e-5)


@pytest.mark.parametrize("name", AGENTS)
def test_the_order_of_tasks_does_not_matter(name: str) -> None:
    words = ["agent.task_input=none"] if name != "hipbmdp" else []
    one, other = (make_agent(name, *words, tasks=3) for _ in range(2))
    order = torch.tensor([2, 0, 1])
    if name == "hipbmdp":
        with torch.no_grad():
            for label in (other.task_input, other.target_task):
                label.embedding.copy_(label.embedding[:, order])
    for count in range(3):
        batch, phase = make_batch(3, seed=count), one.phase(count)
        noise = one.draw_noise(3, phase)
        turned = [n[order] if n.shape[0] == 3 else n[:, order] for n in noise]
        one.update(batch, phase, noise)
        other.update(Batch(**{k: v[order] for k, v in vars(batch).items()}), phase, turned)
    obs = make_batch(3, seed=9).obs
    assert torch.allclose(one.act(obs, None)[order], other.act(obs[order], None), atol=1e-4)


@pytest.mark.parametrize("name", AGENTS)
def test_a_saved_agent_goes_on_alike(name: str) -> None:
    one, other = make_agent(name, tasks=2), make_agent(name, tasks=2, seed=5)
    one.update(make_batch(2), one.phase(0))
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    for agent in (one, other):
        agent.update(make_batch(2, seed=3), agent.phase(1))
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items())


def test_gradients_of_tasks_can_be_combined() -> None:
    for name in ("pcgrad_sac_ae", "gradnorm_deepmdp"):
        agent = make_agent(name, tasks=2)
        metrics = agent.update(make_batch(2), agent.phase(0))
        assert all(torch.isfinite(v).all() for v in metrics.values())
        assert "grad_cos_mean_critic" in metrics or "gradnorm" in name


def test_tasks_that_were_not_trained_get_the_mean_theta() -> None:
    agent = make_agent("hipbmdp", tasks=3)
    obs = make_batch(2).obs
    theta = agent.task_input().detach()
    features = agent.actor.project(agent.convs(obs))
    out = agent.actor.inner(features, theta.mean(0).expand(2, -1))
    mean = torch.tanh(out[0].chunk(2, -1)[0])
    assert torch.allclose(agent.act_unseen(obs, None), mean, atol=1e-6)
    agent.options.unseen = "zero"
    assert not torch.allclose(agent.act_unseen(obs, None), mean, atol=1e-6)
    assert agent.knows_unseen()
    assert not make_agent("sac_ae", "agent.trunk=multi_head", tasks=2).knows_unseen()


@pytest.mark.parametrize("trunk", [name for name in trunk_names() if name not in ("care", "must", "flashsac")])
def test_every_trunk_goes_with_pictures(trunk: str) -> None:
    agent = make_agent("sac_ae", f"agent.trunk={trunk}", tasks=2)
    assert {"actor.linear", "actor.norm"} <= changed(agent, lambda: agent.update(make_batch(2), agent.phase(0)))
    copied = {t.data_ptr() for t in agent.policy_tensors()}
    assert {p.data_ptr() for p in (*agent.convs.parameters(), *agent.actor.parameters())} <= copied


def test_trunks_that_do_not_go_with_pictures_are_refused() -> None:
    for trunk in ("care", "flashsac"):
        with pytest.raises(ConfigError, match=f"agent.trunk={trunk}"):
            make_agent("sac_ae", f"agent.trunk={trunk}", tasks=2)


def test_shifts_are_crops_of_a_padded_picture() -> None:
    pictures = make_batch(2).obs
    places = torch.rand(2, 3, 2)
    moved = shifted(pictures, places, 4)
    at = (places * 9).floor().long()
    for t in range(2):
        for b in range(3):
            padded = torch.nn.functional.pad(pictures[t, b].float(), (4, 4, 4, 4), mode="replicate")
            y, x = at[t, b].tolist()
            assert torch.equal(moved[t, b].float(), padded[:, y : y + 16, x : x + 16])


def test_views_are_shifts() -> None:
    with pytest.raises(ConfigError, match=r"agent\.pixels\.views counts shifted pictures"):
        make_agent("sac_ae", "agent.pixels.views=2")


def _with(batch: Batch, features: torch.Tensor) -> Batch:
    return Batch(**{**vars(batch), "obs": features})
