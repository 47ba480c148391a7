"""Evaluation: what an episode counts as, and that stopping and going on changes nothing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Spaces
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.config.load import load_config
from medley.envs.api import stream_seed
from medley.envs.point import PointEnv
from medley.errors import ConfigError
from medley.training.build import build, build_evaluator
from medley.training.evaluate import evaluate
from medley.training.evaluator import (
    EpisodeScore,
    Evaluator,
    Interrupted,
    episode_from_json,
    episode_to_json,
    summarise,
)
from medley.training.experiment import Experiment
from medley.training.protocols import PROTOCOLS, Protocol
from medley.training.run import Run

CPU = torch.device("cpu")
TASKS, HORIZON, EPISODES = 3, 12, 5


def env(slots: int, seed: int = 1) -> PointEnv:
    return PointEnv(TASKS, slots, HORIZON, stream_seed(seed, True))


@pytest.fixture(scope="module")
def agent() -> SAC:
    o = SACConfig(name="sac", builder="sac", trunk="multi_head")
    o.actor.hidden_dim = o.critic.hidden_dim = 16
    made = SAC(o, Spaces(tuple("abc"), 4, 2, np.ones((3, 2), dtype=bool)), CPU, 0)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():  # so that it moves about, differently in each task
        for p in made.actor.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=g))
    return made


def towards_goal(slots: int) -> Any:
    """Flies to the goal and, some episodes, past it."""
    goals = torch.from_numpy(env(slots)._goals.reshape(TASKS, slots, 2)).float()

    def act(obs: Tensor, noise: Tensor | None) -> Tensor:
        assert noise is None  # evaluation does not explore
        return torch.clamp(10 * (goals - obs[..., :2]), -1, 1)

    return act


def run(slots: int, act: Any, protocol: str = "episodes", **options: Any) -> list[EpisodeScore]:
    return Evaluator(env(slots), PROTOCOLS[protocol]).run(EPISODES, act, **options)


class Killed(Exception):
    pass


@pytest.mark.parametrize("protocol", ["episodes", "metaworld+"])
@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_a_stopped_evaluation_ends_with_the_same_scores(slots: int, protocol: str, agent: SAC) -> None:
    there = towards_goal(slots)

    def act(obs: Tensor, noise: Tensor | None) -> Tensor:
        return 0.8 * there(obs, noise) + 0.2 * agent.act(obs, noise)  # episodes of many lengths, some without success

    whole = run(slots, act, protocol)
    names = ("east", "north", "west")
    assert [(s.task, s.episode) for s in whole] == [(t, e) for t in names for e in range(EPISODES)]
    assert len({s.reward for s in whole}) == TASKS * EPISODES  # every episode is another one
    if protocol == "metaworld+":
        assert len({s.length for s in whole}) > 2

    for k in (0, 1, 5, 14):  # killed when k episodes are on the disk, even between two that ended in one step
        kept: list[EpisodeScore] = []

        def write(score: EpisodeScore, kept: list[EpisodeScore] = kept, k: int = k) -> None:
            if len(kept) == k:
                raise Killed
            kept.append(score)

        with pytest.raises(Killed):
            run(slots, act, protocol, on_episode=write)
        assert len(kept) == k
        done = [episode_from_json(json.loads(json.dumps(episode_to_json(s)))) for s in kept]
        assert run(slots, act, protocol, done=done) == whole, f"killed after {k} episodes"

    done, stops = [], 0  # asked to stop again and again, within an episode or just after one
    while True:
        steps, new = iter(range(1 + HORIZON)), list[EpisodeScore]()
        try:
            final = run(
                slots,
                act,
                protocol,
                done=done,
                on_episode=new.append,
                should_stop=lambda steps=steps: next(steps) == HORIZON,
            )
            break
        except Interrupted:
            done, stops = done + new, stops + 1
    assert final == whole
    assert stops >= (EPISODES - 1) // slots


def test_an_evaluator_can_be_used_again_and_gives_the_same(agent: SAC) -> None:
    evaluator = Evaluator(env(2), PROTOCOLS["episodes"])
    first = evaluator.run(EPISODES, agent.act)
    assert evaluator.run(EPISODES, agent.act) == first
    with pytest.raises(Interrupted):
        evaluator.run(EPISODES, agent.act, should_stop=lambda: True)
    assert evaluator.run(EPISODES, agent.act) == first
    assert evaluator.run(2, agent.act) == [s for s in first if s.episode < 2]


def test_nothing_is_left_to_do(agent: SAC) -> None:
    whole = run(2, agent.act)

    def never(obs: Tensor, noise: Tensor | None) -> Tensor:
        raise AssertionError("a finished evaluation acted")

    assert run(2, never, done=whole) == whole


@pytest.mark.parametrize("slots", [1, 4])
def test_success_at_any_step_or_at_the_last(slots: int) -> None:
    """A policy that passes through the goal and leaves it: success by `any`, not by `last`."""
    there = towards_goal(slots)
    clock = {"t": 0}

    def pass_through(obs: Tensor, noise: Tensor | None) -> Tensor:
        # All slots start together and have one length, so one clock serves them all.
        at = clock["t"] % 20
        clock["t"] += 1
        return there(obs, noise) if at < 12 else -there(obs, noise).sign()

    protocols = {"any": PROTOCOLS["episodes"], "last": PROTOCOLS["tdmpc2"]}
    assert protocols["any"].success == "any"
    assert protocols["last"].success == "last"
    rates = {}
    for name, protocol in protocols.items():
        for policy in ("stay", "pass"):
            clock["t"] = 0
            world = PointEnv(TASKS, slots, 20, 1)
            act = there if policy == "stay" else pass_through
            scores = Evaluator(world, protocol).run(4, act)
            assert {s.length for s in scores} == {20}  # neither stops early
            rates[name, policy] = np.mean([s.success for s in scores])
    assert rates == {("any", "stay"): 1.0, ("last", "stay"): 1.0, ("any", "pass"): 1.0, ("last", "pass"): 0.0}


def test_stopping_at_success_shortens_episodes_only_of_those_who_succeed() -> None:
    protocol = PROTOCOLS["metaworld+"]
    assert protocol.stop_at_success
    world = PointEnv(TASKS, 2, 40, 1)
    good = Evaluator(world, protocol).run(4, towards_goal(2))
    assert all(s.success and s.length < 40 for s in good)
    idle = Evaluator(world, protocol).run(4, lambda obs, noise: torch.zeros(TASKS, 2, 2))
    assert all(not s.success and s.length == 40 for s in idle)
    whole = Evaluator(world, PROTOCOLS["episodes"]).run(4, towards_goal(2))
    assert all(s.success and s.length == 40 for s in whole)  # the option does not stick to the env
    assert all(a.reward < b.reward for a, b in zip(good, whole, strict=True))


def test_returns_are_sums_of_rewards() -> None:
    world = PointEnv(TASKS, 1, HORIZON, 1)
    scores = Evaluator(world, PROTOCOLS["episodes"]).run(1, towards_goal(1))
    by_hand = PointEnv(TASKS, 1, HORIZON, 1)
    obs, _ = by_hand.reset()
    total = np.zeros(TASKS)
    for _ in range(HORIZON):
        actions = towards_goal(1)(torch.from_numpy(obs).unsqueeze(1), None)[:, 0].numpy()
        obs, reward, *_ = by_hand.step(actions)
        total += reward
    assert [s.reward for s in scores] == pytest.approx(total.tolist())


def test_summarise() -> None:
    scores = [
        EpisodeScore("a", 0, True, 1.0, 5),
        EpisodeScore("a", 1, False, 3.0, 5),
        EpisodeScore("b", 0, True, 10.0, 7),
    ]
    result = summarise(scores, ("a", "b"))
    assert result["per_task"] == {
        "a": {"success": 0.5, "return": 2.0, "episodes": 2},
        "b": {"success": 1.0, "return": 10.0, "episodes": 1},
    }
    assert result["success"] == 0.75  # the mean over tasks, not over episodes
    assert result["return"] == 6.0
    assert result["episodes"][1] == {"task": "a", "episode": 1, "success": False, "return": 3.0, "length": 5}
    assert [episode_from_json(row) for row in result["episodes"]] == scores
    json.dumps(result)


def test_protocols_are_known_words() -> None:
    for name, protocol in PROTOCOLS.items():
        assert isinstance(protocol, Protocol)
        assert protocol.success in ("any", "last"), name
        assert protocol.episodes >= 1
        assert protocol.meaning
        with pytest.raises(dataclasses.FrozenInstanceError):
            protocol.episodes = 3  # type: ignore[misc]


def test_held_out_goals_are_none_that_training_has() -> None:
    words = [
        "env=metaworld-mt1",
        "env.task=reach",
        "experiment.num_eval_episodes=6",
        "experiment.eval_slots_per_task=3",
    ]
    config = load_config([*words, "experiment.protocol=held-out", "env.horizon=2", "setup.seed=4"])
    trained = load_config([*words, "env.horizon=2", "setup.seed=4"])
    goals = build_evaluator(trained).env.task_goals[0]  # type: ignore[attr-defined]
    seen = []
    for _ in range(2):  # and every evaluation has the same ones
        evaluator = build_evaluator(config)
        assert evaluator.protocol.success == "any"
        env = evaluator.env
        env.reset(seed=env.seed)
        first = [env.simulator.slots["goal"][slot, :6].copy() for slot in range(3)]  # type: ignore[attr-defined]
        env.reset()
        seen.append(np.stack([*first, *(env.simulator.slots["goal"][slot, :6].copy() for slot in range(3))]))  # type: ignore[attr-defined]
    assert np.array_equal(*seen)
    assert len({row.tobytes() for row in seen[0]}) == 6
    distance = np.abs(seen[0][:, None] - goals[None]).max(-1)
    assert distance.min() > 1e-4
    with pytest.raises(ConfigError, match="needs Meta-World"):
        load_config(["env=point", "experiment.protocol=held-out"])


def test_episodes_of_training_may_be_shorter() -> None:
    parts = build(load_config(["env=point", "env.train_horizon=7", "agent.actor.hidden_dim=8", "setup.device=cpu"]))
    assert parts.env.horizon == 7
    assert parts.evaluator.env.horizon == build(load_config(["env=point", "setup.device=cpu"])).env.horizon > 7
    steps = parts.collector.collect(parts.acting, 15, "random", 0)[0]
    assert [bool(step.ended.all()) for step in steps] == [t in (7, 14) for t in range(1, 16)]
    assert not any(step.terminated.any() for step in steps)
    with pytest.raises(ConfigError, match=r"env.train_horizon"):
        load_config(["env=point", "env.train_horizon=0"])


def test_an_evaluation_may_choose_which_of_distrals_policies_acts(tmp_path: Path) -> None:
    small = ["agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "replay_buffer.batch_size=6"]
    short = ["experiment.num_train_steps=60", "experiment.init_steps=20", "experiment.num_eval_episodes=2"]
    quiet = ["experiment.eval_freq=0", "logger.console=none", "logger.use_tb=false"]
    config = load_config(["env=point", "agent=distral", *small, *short, *quiet])
    run = Run(tmp_path)
    run.create(config)
    Experiment(config, run).train()
    files = {}
    for word in ("task", "common"):
        result = evaluate(run.path, [f"agent.distral.act={word}"], say=lambda text: None)[1]
        assert result["agent"] == {"distral.act": word}
        files[word] = result["return"]
    assert files["task"] != files["common"]
    with pytest.raises(ConfigError, match=r"agent.distral.act"):
        evaluate(run.path, ["agent.distral.alpha=3"])
