"""From the environment to batches and back from checkpoints, where observations are pictures."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import medley
from medley.agents import api
from medley.agents.api import Agent, AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.sac_options import SACConfig
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.replay.frames import FrameReplay
from medley.training.build import Parts, build
from medley.training.experiment import Experiment
from medley.training.lanes import split
from medley.training.learner import EagerUpdates
from medley.training.run import Run
from medley.training.seed import Seed
from medley.training.stacking import stack_trace
from medley.training.tracing import trace

SMALL = [
    *("env=point", "env.num_tasks=2", "env.slots_per_task=2", "env.image_size=16", "env.horizon=9"),
    *("agent=state_sac", "agent.builder=onlooker", "agent.n_step=3", "setup.device=cpu", "logger.console=none"),
    *(
        "replay_buffer.capacity=80",
        "replay_buffer.batch_size=8",
        "experiment.save_video=false",
        "experiment.save_report=false",
    ),
    *("experiment.init_steps=10", "experiment.num_train_steps=80", "experiment.num_eval_episodes=1"),
    *("experiment.eval_freq=40", "experiment.save_freq=0", "logger.use_tb=false"),
]


class Onlooker(Agent):
    """Fits the rewards linearly to the mean of every channel, and acts by the first two of its weights."""

    sees_pictures = True

    def __init__(self, options: Any, spaces: Spaces, device: torch.device, seed: int) -> None:
        assert spaces.image is not None
        assert spaces.obs_dim == 0
        self.image, self.actions = spaces.image, spaces.action_dim
        self.weights = torch.zeros(self.image[0], device=device)

    def _means(self, obs: Tensor) -> Tensor:
        assert obs.dtype == torch.uint8
        assert obs.shape[-3:] == self.image
        return obs.float().mean((-1, -2)) / 255

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        mean = torch.tanh(self._means(obs)[..., : self.actions] + self.weights[: self.actions])
        return mean if noise is None else (mean + 0.1 * noise).clamp(-1, 1)

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        seen = self._means(batch.obs) + batch.discount.unsqueeze(-1) * self._means(batch.next_obs)
        error = seen @ self.weights.unsqueeze(1) - batch.reward.unsqueeze(-1)
        self.weights.sub_(0.1 * (error * seen).mean((0, 1)))
        return {"loss": error.square().mean()}

    def state_dict(self) -> dict[str, Tensor]:
        return {"weights": self.weights}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.weights.copy_(state["weights"])

    load_weights = load_state_dict


@pytest.fixture(autouse=True)
def onlooker() -> Iterator[None]:
    register_agent("onlooker", AgentKind(SACConfig, Onlooker))
    yield
    del api._KINDS["onlooker"]


def built(*words: str) -> tuple[Parts, FrameReplay]:
    parts = build(load_config([*SMALL, *words]))
    assert isinstance(parts.replay, FrameReplay)
    return parts, parts.replay


def filled(*words: str, steps: int = 30) -> tuple[Parts, FrameReplay]:
    parts, replay = built(*words)
    for step in parts.collector.collect(parts.acting, steps, "policy", 0)[0]:
        replay.add(step)
    return parts, replay


@pytest.mark.parametrize("tasks", [None, [True, False]])
def test_replay_gives_back_what_the_environment_gave(tasks: list[bool] | None) -> None:
    parts, replay = built("agent.n_step=1", "env.terminate_on_success=true")
    seen: dict[bytes, tuple[Any, ...]] = {}
    for _ in range(12):
        mask = None if tasks is None else np.array(tasks)
        for step in parts.collector.collect(parts.acting, 3, "policy", 0, mask)[0]:
            assert step.obs.dtype == step.next_obs.dtype == np.uint8
            assert step.obs.shape == (2, 2, 9, 16, 16)
            replay.add(step)
            for at in np.ndindex(2, 2):
                seen[step.action[at].tobytes()] = (step.obs[at], step.next_obs[at], step.terminated[at])
    b = replay.sample(200)
    rows = [0] if tasks else [0, 1]
    assert len({a.tobytes() for a in b.action[0].numpy()}) > 35
    for task in rows:
        for i in range(200):
            obs, next_obs, terminated = seen[b.action[task, i].numpy().tobytes()]
            np.testing.assert_array_equal(b.obs[task, i].numpy(), obs)
            np.testing.assert_array_equal(b.next_obs[task, i].numpy(), next_obs)
            assert float(b.discount[task, i]) == pytest.approx(0.0 if terminated else replay.discount)


def test_the_stack_is_part_of_the_spaces_and_of_replay() -> None:
    _, replay = built("env.frame_stack=4")
    assert replay.frame_stack == 4
    assert replay.shape == (3, 16, 16)
    assert (replay.tasks, replay.slots, replay.capacity, replay.n_step) == (2, 2, 40, 3)


def test_where_frames_are_makes_no_difference(tmp_path: Path) -> None:
    weights = []
    for kind in ("memory", "host", "disk", "compressed"):
        parts, _ = filled(f"replay_buffer.frames={kind}", f"replay_buffer.frames_dir={tmp_path}")
        parts.learner.learn(5)
        weights.append(parts.agent.state_dict()["weights"])
    assert all(torch.equal(weights[0], other) for other in weights[1:])
    assert weights[0].any()
    assert list(tmp_path.iterdir()) == []


def test_frames_beside_the_run_by_default(tmp_path: Path) -> None:
    built("replay_buffer.frames=disk", f"setup.save_dir={tmp_path / 'run'}")
    assert (tmp_path / "run").is_dir()


def test_an_update_with_its_sampling_can_be_traced_and_stacked() -> None:
    """Alone, and as one of two seeds that share a graph."""
    parts = [filled(f"setup.seed={i}") for i in range(2)]
    seeds = [Seed(p.agent, replay, p.rewards, 4) for p, replay in parts]
    for seed in seeds:
        seed.set_traceable()
        seed.update("all", seed.draw("all"))
    start = [seed.state() for seed in seeds]
    expected = []
    for seed in seeds:
        seed.update("all", seed.draw("all"))
        expected.append(seed.agent.state_dict()["weights"].clone())

    def back() -> None:
        for seed, state in zip(seeds, start, strict=True):
            seed.set_state(*state)

    back()
    module, tensors = trace(seeds[0], "all")
    back()
    split(module, len(tensors))(*tensors, *seeds[0].draw("all"))  # in pieces, as it is compiled
    assert torch.equal(seeds[0].agent.state_dict()["weights"], expected[0])
    back()
    module, tensors = stack_trace(seeds, "all")
    back()
    module(*tensors, *[torch.stack(own) for own in zip(*(seed.draw("all") for seed in seeds), strict=True)])
    for seed, weights in zip(seeds, expected, strict=True):
        assert torch.allclose(seed.agent.state_dict()["weights"], weights, atol=1e-6)


def test_frames_on_the_host_are_learnt_from_eagerly() -> None:
    parts, _ = built("replay_buffer.frames=compressed")
    assert isinstance(parts.learner.runner, EagerUpdates)
    with pytest.raises(ConfigError, match=r"replay_buffer\.frames=memory, not compressed"):
        built("replay_buffer.frames=compressed", "experiment.learner=graph")
    with pytest.raises(ConfigError, match="not from pictures"):
        built("experiment.learner=native")


def test_options_of_pictures_are_checked() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'disk'"):
        load_config([*SMALL, "replay_buffer.frames=disc"])
    with pytest.raises(ConfigError, match="nstep_mode"):
        load_config([*SMALL, "replay_buffer.nstep_mode=half"])
    for words in ("replay_buffer.frames=disk", "replay_buffer.nstep_mode=full"):
        with pytest.raises(ConfigError, match=r"is for pictures: point gives numbers"):
            build(load_config(["env=point", "setup.device=cpu", words]))


def test_rewards_can_be_scaled_by_what_is_in_replay() -> None:
    parts, replay = filled("agent.reward_normalization=ars")
    parts.rewards.settle(parts.agent, replay, True)
    assert torch.allclose(parts.rewards.factor, 1 / (replay.mean_abs_reward() + 1e-3))


def train(folder: Path, stop: int | None = None, *words: str) -> Experiment:
    config = load_config([*SMALL, *words])
    run = Run(folder)
    if not run.exists():
        run.create(copy.deepcopy(config))
    experiment = Experiment(config, run)
    experiment.train(lambda: stop is not None and experiment.step >= stop)
    return experiment


@pytest.mark.parametrize("words", [(), ("experiment.overlap=true", "replay_buffer.nstep_mode=full")])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Stopped in the middle of episodes: before the rings are full, and after they have wrapped."""
    whole = train(tmp_path / "whole", None, *words)
    for stop in (22, 36, 54):
        train(tmp_path / "broken", stop, *words)
    second = train(tmp_path / "broken", None, *words)
    assert second.step == whole.step == 80
    assert whole.parts.replay.written > whole.parts.replay.capacity
    one, two = whole.parts.agent.state_dict()["weights"], second.parts.agent.state_dict()["weights"]
    assert one.any()
    assert torch.equal(one, two)
    a, b = whole.parts.replay.sample(50), second.parts.replay.sample(50)
    assert torch.equal(a.obs, b.obs)
    assert torch.equal(a.next_obs, b.next_obs)


def test_a_trained_policy_sees_pictures(tmp_path: Path) -> None:
    train(tmp_path / "run")
    policy = medley.load(tmp_path / "run")
    env = policy.make_env()
    obs, _ = env.reset()
    everyone = policy.act(obs[:, None])
    assert everyone.shape == (2, 1, 2)
    np.testing.assert_allclose(policy.act(obs[1], task="north"), everyone[1, 0], rtol=1e-6)
    np.testing.assert_allclose(policy.act(obs[1:], task=1), everyone[1], rtol=1e-6)
    with pytest.raises(ValueError, match="pictures"):
        policy.act(obs[0, :, :5], task=0)
