"""MUST in use: when its phases come, edges, options, and going on in the middle of a refresh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.must import MUST
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.gradients.combiners import combiner_names
from tests.agents.must_agent import HORIZON, episode, make, makers_of, trained, with_episodes
from tests.agents.sac_agent import ACT, OBS, ROWS, TASKS, random_batch, snapshot


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
    middle = ["no_target+refresh", "no_target+refresh+encode", "no_target+refresh+publish"]
    # iteration 0: nothing to compare with, nothing to forget
    assert phases[:4] == ["no_target+refresh+encode", *middle[:2], "no_target+refresh+publish+settle"]
    # two episodes of ten steps; critics settle in a quarter of that, alone; the third refresh would be past update_end
    later = ["no_target+refresh+supervise+encode", *middle, *["critic"] * 4, "critic+settle"]
    assert phases[20:29] == phases[40:49] == later
    assert all(p == "all" for i, p in enumerate(phases) if i % 20 > 8 or 4 <= i < 20 or i >= 60)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_critics_settle_in_a_quarter_of_the_updates_between_refreshes(every: int) -> None:
    """An update for so many steps: fewer updates, and the actor rests for the same share of them."""
    agent = make(update_interval=8, update_end=100, refresh_updates=2)
    agent.observe(episode(99), 0)
    rests = []
    for n in range(24 * HORIZON):
        if n % every == 0:
            rests.append(agent.phase(n // every).startswith("critic"))
        agent.observe(episode(n)[n % HORIZON : n % HORIZON + 1], n // every + 1)
    assert sum(rests) / len(rests) == pytest.approx(2 / 3 / 4, abs=0.02)  # the first of three settles nothing


def test_targets_stay_what_they_were_until_critics_have_settled() -> None:
    """Masks change at once; what they do to the values of a target must not be learnt."""
    agent = make(generator_rl_lr=0.1)
    agent.observe(episode(99), 0)
    inputs = (torch.randn(TASKS, ROWS, OBS), None, torch.randn(TASKS, ROWS, ACT))
    values: dict[str, list[Tensor]] = {"critic": [], "target": []}
    for n in range(40):
        for name, seen in values.items():
            seen.append(getattr(agent, name)(*inputs).detach().clone())
        agent.update(random_batch(n), agent.phase(n))
        agent.observe(episode(n)[n % HORIZON : n % HORIZON + 1], n + 1)
    critic, target = values["critic"], values["target"]
    refresh, settled = 20, 29  # values before these updates
    assert all(torch.equal(target[n], target[refresh]) for n in range(refresh, settled))
    assert not any(torch.equal(critic[n], critic[n + 1]) for n in range(refresh, settled))
    change, usual = ((critic[n + 4] - critic[n]).abs().mean() for n in (refresh, refresh - 4))
    assert change > 2 * usual  # there is something to be kept out
    assert torch.equal(target[settled], critic[settled])
    assert not torch.equal(target[settled + 1], target[settled])  # and follow again


def test_the_actor_rests_until_critics_have_settled() -> None:
    """It learns in a refresh, by which its generator learns, and waits for critics that know what they say."""
    agent = make(generator_rl_lr=0.1)
    agent.observe(episode(99), 0)
    learnt = []
    for n in range(40):
        before = agent.actor.state_dict()
        before = {name: value.clone() for name, value in before.items() if "mask" not in name}
        agent.update(random_batch(n), agent.phase(n))
        agent.observe(episode(n)[n % HORIZON : n % HORIZON + 1], n + 1)
        learnt.append(any(not torch.equal(agent.actor.state_dict()[name], value) for name, value in before.items()))
    assert [n for n, did in enumerate(learnt) if not did] == list(range(24, 29))


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
    assert run_phases(make(refresh_updates=1), 30)[20] == "no_target+refresh+supervise+encode+publish"
    at_once = run_phases(make(refresh_updates=1, settle_updates=0), 30)[20]
    assert at_once == "no_target+refresh+supervise+encode+publish+settle"
    both = run_phases(make(actor_update_freq=2), 30)
    assert both[:3] == ["no_target+refresh+encode", "critic+refresh", "no_target+refresh+encode"]
    assert both[4:6] == ["all", "critic_target"]
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
