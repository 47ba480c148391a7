"""MUST as an agent: which loss trains what, and the same masks for everybody."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from medley.agents.must import MUST, ROLES
from medley.nn.masking import kept
from tests.agents.must_agent import episode, make, makers_of, trained, with_episodes
from tests.agents.sac_agent import ACT, OBS, ROWS, TASKS, random_batch, snapshot

ALL_IN_ONE = "all+refresh+encode+publish"


# ---- which loss trains what


@pytest.mark.parametrize("generator", ["lowrank", "dense"])
def test_a_usual_update_trains_networks_alone(generator: str) -> None:
    agent = with_episodes(make(generator=generator))
    before = snapshot(agent)
    metrics = agent.update(random_batch(), "all")
    assert trained(before, agent) == {"actor", "critic", "target", "log_alpha"}
    assert all(torch.equal(v, before[k]) for k, v in agent.state_dict().items() if k.endswith("mask"))
    assert float(metrics["mask_version"]) == 0


@pytest.mark.parametrize("generator", ["lowrank", "dense"])
def test_in_a_refresh_each_loss_trains_its_own_generator(generator: str) -> None:
    agent = with_episodes(make(generator=generator))
    before = snapshot(agent)
    agent._put(agent.makers.make(True))
    with agent._refreshing():
        agent.update_critic(random_batch(), torch.randn(TASKS, ROWS, ACT))
        assert trained(before, agent) == {"critic"} | makers_of("q1", "q2")
        between = snapshot(agent)
        agent.update_actor(random_batch(), torch.randn(TASKS, ROWS, ACT))
    assert trained(between, agent) == {"actor", "log_alpha", "must.slow.lstm", "must.slow.out"} | makers_of("pi")
    for name, value in agent._weights().items():
        if name.startswith("must.") and "slow" not in name:
            assert not torch.equal(value, before[name]), f"{name} is not trained"


def test_q2_learns_in_every_update() -> None:
    """Its optimiser is not that of q1: network and generator move by its own gradient."""
    agent = with_episodes(make())
    for phase in ("all", ALL_IN_ONE):
        before = snapshot(agent)
        agent.update(random_batch(), phase)
        for member in (0, 1):
            assert not torch.equal(
                agent.critic.state_dict()["hidden.0.weight"][member], before["critic.hidden.0.weight"][member]
            )
    for name, q1 in agent.makers.rl_optimizers.items():
        if name.startswith("q1"):
            q2 = agent.makers.rl_optimizers[name.replace("q1", "q2")]
            assert not any(a is b for a in q1.parameters for b in q2.parameters)
            assert float(q2.steps[0]) == 1
            assert not torch.equal(q1.means[0], q2.means[0])


def test_encoders_rest_between_their_turns() -> None:
    agent = with_episodes(make())
    agent.update(random_batch(), "all+refresh+encode")
    before = snapshot(agent)
    agent.update(random_batch(), "all+refresh")
    assert trained(before, agent) >= makers_of("pi", "q1", "q2", parts=("generator",))
    assert not trained(before, agent) & (makers_of("pi", "q1", "q2", parts=("encoder",)) | {"must.slow.lstm"})


def test_the_similarity_loss_trains_generators_and_encoders_alone_and_falls() -> None:
    agent = with_episodes(make(generator_lr=3e-3))
    before = snapshot(agent)
    first = agent.makers.supervise()
    assert trained(before, agent) == makers_of("pi", "q1", "q2") | {"must.slow.lstm", "must.slow.out"}
    for _ in range(30):
        last = agent.makers.supervise()
    assert list(first) == ["similarity_loss_pi", "similarity_loss_q1", "similarity_loss_q2"]
    assert all(float(last[name]) < 0.6 * float(first[name]) for name in first)


def test_generator_gradients_are_those_of_the_loss_with_straight_through_masks() -> None:
    """In one piece: masks made by the generator stand in the network while the loss is taken."""
    agent = with_episodes(make(grad_clip=None))
    batch, noise = random_batch(), torch.randn(TASKS, ROWS, ACT)
    agent._put(agent.makers.make(True))
    y = agent._targets(batch, None, noise).detach()
    episodes = agent.makers._episodes()
    given: dict[str, list[Tensor]] = {}
    parameters = []
    for role in ROLES["critic"]:
        maker = agent.makers.makers[role]
        logits = maker.logits(maker.encode(episodes))
        given[role] = [m.hard + (x - x.detach()) * m.slope for x, m in zip(logits, maker.masks(logits), strict=True)]
        parameters += list(maker.parameters())
    names = agent.critic.per_task()
    masks = {name: torch.stack(layer) for name, layer in zip(names, zip(*given.values(), strict=True), strict=True)}
    q = torch.func.functional_call(agent.critic, masks, (batch.obs, None, batch.action)).squeeze(-1)
    wanted = torch.autograd.grad((q - y).square().mean(), parameters)

    found: list[Tensor] = []
    for optimizer in agent.makers.rl_optimizers.values():
        optimizer.step = lambda gradients, clip: found.extend(gradients) or gradients[0]  # type: ignore[method-assign, assignment, func-returns-value, misc]
    with agent._refreshing():
        agent.update_critic(batch, noise)
    order = [
        p
        for role in ROLES["critic"]
        for part in ("generator", "encoder")
        for p in getattr(agent.makers.makers[role], part).parameters()
    ]
    assert len(found) == len(wanted) == len(order)
    by_parameter = dict(zip(map(id, order), found, strict=True))
    for parameter, gradient in zip(parameters, wanted, strict=True):
        assert torch.allclose(by_parameter[id(parameter)], gradient, atol=1e-7)


def test_the_slow_encoder_follows_by_its_rate() -> None:
    agent = with_episodes(make())
    agent.update(random_batch(), "all+refresh+encode")
    encoder = agent.makers.makers["pi"].encoder
    fresh = with_episodes(make()).makers.slow
    assert agent.makers.slow is not None
    assert encoder is not None
    assert fresh is not None
    for slow, quick, start in zip(
        agent.makers.slow.parameters(), encoder.parameters(), fresh.parameters(), strict=True
    ):
        assert torch.allclose(slow, 0.995 * start + 0.005 * quick, atol=1e-7)
    assert not any(p.requires_grad for p in agent.makers.slow.parameters())


# ---- masks


def masks_of(agent: MUST, network: str) -> list[Tensor]:
    return [mask.clone() for mask in agent._masks_of(network)]


@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.97])
@pytest.mark.parametrize("mask_bias", [False, True])
def test_every_mask_keeps_its_share(ratio: float, mask_bias: bool) -> None:
    agent = with_episodes(make(pruning_ratio=ratio, mask_bias=mask_bias))
    agent.update(random_batch(), ALL_IN_ONE)
    for network in ("actor", "critic"):
        masks = masks_of(agent, network)
        assert len(masks) == (6 if mask_bias else 3)
        for mask in masks:
            per_task = mask.flatten(2).sum(-1)
            assert (per_task == kept(mask[0, 0].numel(), ratio)).all()
            assert ((mask == 0) | (mask == 1)).all()


def test_published_masks_are_what_generators_give() -> None:
    agent = with_episodes(make())
    start = masks_of(agent, "actor")
    agent.update(random_batch(), "all+refresh+encode")
    metrics = agent.update(random_batch(), "no_target+refresh+publish")
    assert float(metrics["mask_version"]) == 1
    for network, roles in ROLES.items():
        for member, role in enumerate(roles):
            for mask, wanted in zip(masks_of(agent, network), agent.makers.current()[role], strict=True):
                assert torch.equal(mask[member], wanted)
    assert any(not torch.equal(a, b) for a, b in zip(start, masks_of(agent, "actor"), strict=True))
    before, critic = masks_of(agent, "target"), masks_of(agent, "critic")
    assert not any(torch.equal(a, b) for a, b in zip(before, critic, strict=True))
    agent.update(random_batch(), "no_target+settle")
    assert all(torch.equal(a, b) for a, b in zip(masks_of(agent, "target"), critic, strict=True))
    assert all(not mask.requires_grad for mask in agent.critic.masks())  # type: ignore[operator]


def test_copies_that_act_get_the_masks() -> None:
    agent, copy = with_episodes(make()), make(seed=9)
    agent.update(random_batch(), ALL_IN_ONE)
    for to, source in zip(copy.policy_tensors(), agent.policy_tensors(), strict=True):
        to.copy_(source)
    obs = torch.randn(TASKS, 5, OBS)
    assert torch.equal(copy.act(obs, None), agent.act(obs, None))
    loaded = make(seed=5)
    loaded.load_weights(snapshot(agent))
    assert torch.equal(loaded.act(obs, None), agent.act(obs, None))
    assert all(torch.equal(a, b) for a, b in zip(masks_of(loaded, "critic"), masks_of(agent, "critic"), strict=True))


def test_tensors_stay_where_they_are() -> None:
    agent = with_episodes(make())
    places = {k: v.data_ptr() for k, v in agent._tensors().items()}
    agent.update(random_batch(), "all+refresh+supervise+encode+publish")
    agent.load_state_dict(snapshot(agent))
    with_episodes(agent)
    assert {k: v.data_ptr() for k, v in agent._tensors().items()} == places


def test_permuting_tasks_permutes_masks_and_similarities() -> None:
    """A task is its number's weights and its trajectories: nothing else tells tasks apart."""
    order = [2, 0, 1]
    a, b = make(), make()
    for role in a.makers.makers:
        one, two = a.makers.makers[role].generator, b.makers.makers[role].generator
        with torch.no_grad():
            two.weight[:TASKS] = one.weight[:TASKS][order]
    for n in range(2):
        chunk = episode(n, [True, False, True])
        a.observe(chunk, 0)
        for step in chunk:
            step.obs = step.obs[order]
            step.success = None if step.success is None else step.success[order]
        b.observe(chunk, 0)
    one, two = a.makers.current(), b.makers.current()
    for role in one:
        assert all(torch.equal(x[order], y) for x, y in zip(one[role], two[role], strict=True))
    similar = a.makers.trajectory_similarity
    assert similar.diagonal().tolist() == [1, 1, 1]
    assert torch.allclose(similar[order][:, order], b.makers.trajectory_similarity, atol=1e-5)
