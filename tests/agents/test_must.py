"""MUST as an agent: which loss trains what and when, the same masks for everybody, and edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch
from medley.agents.must import MUST, ROLES
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.gradients.combiners import combiner_names
from medley.nn.masking import kept
from tests.agents.must_agent import ACT, HORIZON, OBS, ROWS, TASKS, episode, make

ALL_IN_ONE = "all+refresh+encode+publish"


def random_batch(seed: int = 0, tasks: int = TASKS) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g)

    return Batch(
        obs=normal(tasks, ROWS, OBS),
        action=torch.tanh(normal(tasks, ROWS, ACT)),
        reward=normal(tasks, ROWS),
        discount=torch.full((tasks, ROWS), 0.99),
        next_obs=normal(tasks, ROWS, OBS),
        weight=torch.ones(tasks, ROWS),
    )


def snapshot(agent: MUST) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in agent.state_dict().items()}


def trained(before: dict[str, Tensor], agent: MUST) -> set[str]:
    """Which networks, generators and encoders have other weights than before."""
    after = agent._weights()
    names = {k for k, v in after.items() if not torch.equal(v.to(before[k].dtype), before[k]) and "mask" not in k}
    return {".".join(n.split(".")[:3]) if n.startswith("must") else n.split(".")[0] for n in names}


def with_episodes(agent: MUST, success: Any = False, count: int = 2) -> MUST:
    for n in range(count):
        agent.observe(episode(n, success, tasks=agent.makers.tasks), 0)
    return agent


def makers_of(*roles: str, parts: tuple[str, ...] = ("generator", "encoder")) -> set[str]:
    return {f"must.{role}.{part}" for role in roles for part in parts}


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
    metrics = agent.update(random_batch(), "all+refresh+publish")
    assert float(metrics["mask_version"]) == 1
    for network, roles in ROLES.items():
        for member, role in enumerate(roles):
            for mask, wanted in zip(masks_of(agent, network), agent.makers.current()[role], strict=True):
                assert torch.equal(mask[member], wanted)
    assert any(not torch.equal(a, b) for a, b in zip(start, masks_of(agent, "actor"), strict=True))
    # targets use the masks of their twins
    assert all(a is b for a, b in zip(agent.critic.masks(), agent.target.masks(), strict=True))  # type: ignore[operator]
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


# ---- when


def run_phases(agent: MUST, steps: int, **chunk: Any) -> list[str]:
    """Phases of one update per step, after a warm-up of one episode."""
    agent.observe(episode(99, **chunk), 0)
    phases = []
    for n in range(steps):
        phases.append(agent.phase(n))
        agent.observe(episode(n, **chunk)[n % HORIZON : n % HORIZON + 1], n + 1)
    return phases


def test_refreshes_begin_every_so_many_episodes() -> None:
    phases = run_phases(make(update_end=5), 70)
    first = ["all+refresh+encode", "all+refresh", "all+refresh+encode", "all+refresh+publish"]
    later = ["all+refresh+supervise+encode", *first[1:]]
    assert phases[:4] == first  # iteration 0: nothing to compare with
    assert phases[20:24] == phases[40:44] == later  # two episodes of ten steps; the third one is past update_end
    assert all(p == "all" for i, p in enumerate(phases) if i % 20 > 3 or i >= 60)


def test_iterations_count_frames_where_tasks_take_turns() -> None:
    """Two tasks of three act at a time: an iteration takes half as long again."""
    agent = make()
    agent.observe(episode(0), 0)
    for n in range(40):
        for step in (chunk := episode(n)[:1]):
            step.active = np.array([True, True, False])
        agent.observe(chunk, n + 1)
        assert agent.clock.iteration == (n + 1) * 2 // (HORIZON * TASKS)


def test_phases_by_options() -> None:
    assert not any("supervise" in p for p in run_phases(make(supervised=False), 30))
    assert not any("encode" in p for p in run_phases(make(trajectories=False), 30))
    assert set(run_phases(make(pruning_ratio=0.0), 30)) == {"all"}
    assert set(run_phases(make(update_end=0), 30)) == {"all"}
    assert run_phases(make(refresh_updates=1), 30)[20] == "all+refresh+supervise+encode+publish"
    both = run_phases(make(actor_update_freq=2), 30)
    assert both[:3] == ["all+refresh+encode", "critic_target+refresh", "all+refresh+encode"]
    # a refresh that is longer than the interval is finished before another begins
    marks = [p.split("+")[1:] for p in run_phases(make(refresh_updates=25), 100)]
    assert [i for i, own in enumerate(marks) if "publish" in own] == [24, 64]
    assert not make().is_eager("all")
    assert make().is_eager("all+refresh")


# ---- options, edges


@pytest.mark.parametrize(
    "changes",
    [
        {"trajectories": False},
        {"trajectories": False, "supervised": False},
        {"supervised": False},
        {"mask_similarity": "jaccard"},
        {"success_only": True},
        {"tasks": 1},
        {"tasks": 2},
        {"pruning_ratio": 0.999},
        {"task_input": "one_hot"},
        {"task_input": "encoder"},
    ],
    ids=str,
)
@pytest.mark.parametrize("stores", ["empty", "some", "all"])
def test_edges(changes: dict[str, Any], stores: str) -> None:
    agent = make(**changes)
    tasks = agent.makers.tasks
    if stores != "empty":
        agent.observe(episode(0, tasks=tasks), 0)
        if stores == "some" and tasks > 1:
            agent.makers.store._written[1:] = 0
        else:
            agent.observe(episode(1, True, tasks=tasks), 0)
    for n, phase in enumerate(("all+refresh+supervise+encode", "all+refresh", "all+refresh+publish", "all")):
        metrics = agent.update(random_batch(n, tasks), phase)
        assert all(torch.isfinite(value).all() for value in metrics.values())
    assert all(torch.isfinite(v).all() for v in agent.state_dict().values() if v.is_floating_point())
    compares = tasks > 1 and stores == "all"
    assert bool(agent.makers.trajectory_similarity.any()) == compares


@pytest.mark.parametrize("gradients", combiner_names())
def test_every_combiner_goes_with_masks(gradients: str) -> None:
    agent = with_episodes(make(gradients=gradients))
    before = snapshot(agent)
    for phase in ("all+refresh+supervise+encode", "all+refresh+publish", "all"):
        agent.update(random_batch(), phase)
    assert trained(before, agent) >= {"actor", "critic"} | makers_of("pi", "q1", "q2")


def test_per_task_gradients_of_masked_networks() -> None:
    """Every task's own gradient adds up to that of the mean; a task leaves weights that it does not use alone."""
    agent = make()
    inputs = (
        torch.randn(TASKS, ROWS, OBS),
        torch.randn(TASKS, ROWS, ACT),
        torch.randn(TASKS, ROWS),
        torch.ones(TASKS, ROWS),
    )
    mean, _, _ = agent.critic_loss.plain(inputs)
    each = agent.critic_loss.per_task(inputs)
    for (name, parameter), gradients in zip(agent.critic_loss.shared.items(), each.shared, strict=True):
        assert torch.allclose(gradients.mean(0), mean[parameter], atol=1e-6)
        if name.endswith("weight"):
            mask = agent.critic.get_buffer(name.removeprefix("networks.critic.").replace("weight", "mask"))
            assert (gradients.transpose(0, 1)[mask == 0] == 0).all()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("agent.must.pruning_ratio=1.0", "no weights"),
        ("agent.must.pruning_ratio=-0.1", "must lie in"),
        ("agent.must.update_interval=0", "at least 1"),
        ("agent.must.generator=dens", "Did you mean"),
        ("agent.must.mask_similarity=cosine", "does not exist"),
        ("agent.must.generator_lr=-1", "at least 0"),
        ("agent.trunk=multi_head", "agent=must masks a network"),
        ("agent.must.prunning_ratio=0.5", "pruning_ratio"),
    ],
)
def test_bad_options_are_refused(word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(["env=point", "agent=must", word])


def test_the_trunk_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="agent=must"):
        load_config(["env=point", "agent.trunk=must"])


def test_the_documented_command() -> None:
    words = "agent=must agent.must.pruning_ratio=0.5 agent.must.update_interval=50 agent.must.generator_lr=1e-4"
    config = load_config([*words.split(), "agent.must.supervised=true", "agent.must.trajectories=true", "env.first=4"])
    assert config.agent.must.pruning_ratio == 0.5  # type: ignore[attr-defined]
    assert config.agent.alpha_per_task  # type: ignore[attr-defined]
    assert config.replay_buffer.batch_size == 4 * 128
    with pytest.raises(ConfigError, match="between 1 and"):
        load_config(["agent=must", "env.first=11"])


def test_a_loaded_agent_goes_on_bit_for_bit_in_the_middle_of_a_refresh() -> None:
    a, b = make(), make(seed=4)
    phases = ["all+refresh+supervise+encode", "all+refresh", "all+refresh+encode", "all+refresh+publish", "all"]
    with_episodes(a, [True, False, False])
    a.observe(episode(7)[:4], 1)  # and in the middle of an episode
    a.update(random_batch(), phases[0])
    a.update(random_batch(1), phases[1])
    b.load_state_dict(snapshot(a))
    for agent in (a, b):
        agent.observe(episode(7)[4:], 3)
        for n, phase in enumerate(phases[2:]):
            agent.update(random_batch(n), phase)
    one, two = a.state_dict(), b.state_dict()
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.equal(value, two[name]), name
    assert np.array_equal(a.makers.store.succeeded, [True, False, False])
