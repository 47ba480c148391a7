"""Learning at steps, between episodes and during steps: as many updates in all, and never in the arm's way."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medley.config.load import load_config
from medley.errors import ConfigError
from medley.robots.arm import ArmFault
from medley.robots.loop import DEBT, RealTimeLoop
from medley.training.experiment import Experiment
from medley.training.run import Run
from tests.faults import harness
from tests.training.test_upkeep import SMALL

POINT = [*SMALL, "env.num_tasks=1", "experiment.num_train_steps=170", "experiment.updates=2"]
PANDA = [
    *[word for word in POINT if not word.startswith("env")],
    "env=panda-reach",
    "env.arm=wall_clock",
    "env.rate=4",
    "env.horizon=10",
    "experiment.init_steps=8",
    "logger.per_episode=true",
]
MODES = ["at_step", "between_episodes", "during_step"]
needs_panda = pytest.mark.skipif(importlib.util.find_spec("gym_hil") is None, reason="needs gym-hil")


def experiment(folder: Path, words: list[str], *more: str) -> Experiment:
    config = load_config([*words, *more])
    run = Run(folder)
    run.create(config)
    return Experiment(config, run)


def test_equal_updates_at_equal_steps(tmp_path: Path) -> None:
    counts = {}
    for mode in MODES:
        x = experiment(tmp_path / mode, POINT, f"experiment.update_when={mode}")
        assert x.train() == "finished"
        counts[mode] = (x.step, x.parts.learner.updates, x.owed, x.missed, x.parts.replay.written)
    assert set(counts.values()) == {(170, 2 * (170 - 59), 0, 0, 170)}  # learning begins with step 60


def test_when_each_of_them_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, expected in (("between_episodes", {0, 10}), ("during_step", set(range(40)))):
        x = experiment(tmp_path / mode, POINT, f"experiment.update_when={mode}")
        at: set[int] = set()
        learn, env = x.parts.learner.learn, x.parts.env
        monkeypatch.setattr(x.parts.learner, "learn", lambda n, a=at, e=env, f=learn: (a.add(int(e._elapsed[0])), f(n)))
        x.train()
        assert at == expected  # 10: the run ends within an episode


@pytest.mark.parametrize(
    ("mode", "order"),
    [
        ("during_step", ["act", "send", "look", *["act", "send", "keep", "learn", "learn", "look"] * 2]),
        ("at_step", ["act", "send", "look", *["keep", "learn", "learn", "act", "send", "look"] * 2]),
    ],
)
def test_order_of_a_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, order: list[str]) -> None:
    x = experiment(tmp_path, POINT, f"experiment.update_when={mode}", "experiment.init_steps=1")
    loop, events = RealTimeLoop(x), []

    def watch(owner: Any, name: str, event: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, **k: (events.append(event), original(*a, **k))[1])

    for owner, name, event in (
        (x.parts.collector, "choose", "act"),
        (loop.world, "send", "send"),
        (x.parts.replay, "add", "keep"),
        (x.parts.learner, "learn", "learn"),
        (loop.world, "receive", "look"),
    ):
        watch(owner, name, event)
    x.begin()
    loop._episode(lambda: x.step >= 3)
    x.close()
    assert events[:13] == order[:13]


@pytest.mark.parametrize("mode", MODES[1:])
def test_stopped_within_an_episode_it_goes_on_exactly(tmp_path: Path, mode: str) -> None:
    words = [*POINT, f"experiment.update_when={mode}", "logger.train_freq=10"]
    whole = experiment(tmp_path / "whole", words)
    assert whole.train() == "finished"
    for i, stop in enumerate((75, 130)):
        x = experiment(tmp_path / "parts", words)
        assert x.train(lambda x=x, stop=stop: x.step + 1 >= stop) == "stopped"  # type: ignore[misc]
        assert x.step in (stop - 1, stop, stop + 1), i
        assert x.step % 40  # within an episode
    assert experiment(tmp_path / "parts", words).train() == "finished"
    harness.assert_same_run(tmp_path / "whole", tmp_path / "parts")


class Busy:
    """A clock that says how much time is left."""

    def __init__(self, left: float) -> None:
        self._left = left

    def left(self) -> float:
        return self._left


def test_updates_that_do_not_fit_become_debt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = experiment(tmp_path, POINT, "experiment.update_when=during_step", "experiment.init_steps=1")
    x.begin()
    loop = RealTimeLoop(x)
    loop._episode(lambda: x.step >= 5)
    monkeypatch.setattr(loop, "timed", True)
    done = x.parts.learner.updates
    x.owed = 3
    x.parts.env.clock = Busy(10.0)  # type: ignore[attr-defined]
    loop._seconds.clear()
    loop._learn_meanwhile()
    assert x.owed == 3  # nobody knows yet how long an update takes
    loop._seconds.extend([0.010] * 50)
    for left, fits in ((0.0165, False), (0.0175, True)):  # 1.2 * 10 ms + 5 ms
        x.parts.env.clock = Busy(left)  # type: ignore[attr-defined]
        assert loop._fits() is fits
    loop._learn_meanwhile()
    assert (x.owed, x.parts.learner.updates) == (0, done + 3)
    x.owed = 2 * DEBT + 7
    x.parts.env.clock = Busy(0.0)  # type: ignore[attr-defined]
    loop._learn_meanwhile()
    assert (x.owed, x.missed) == (2 * DEBT, 7)
    x.save()
    x.close()
    again = experiment(tmp_path, POINT, "experiment.update_when=during_step", "experiment.init_steps=1")
    again.restore()
    assert (again.owed, again.missed) == (2 * DEBT, 7)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["experiment.update_when=sometimes"], "sometimes"),
        (["env.slots_per_task=2", "experiment.update_when=during_step"], "slots_per_task=1"),
        (["env.num_tasks=2", "experiment.update_when=between_episodes"], "number of tasks=1"),
        (["agent.n_step=3", "experiment.update_when=during_step"], "n_step=1"),
        (["env=panda-reach", "env.arm=wall_clock", "agent.n_step=3"], "wall_clock needs agent.n_step=1"),
        (
            ["env=panda-reach", "env.arm=wall_clock", "experiment.overlap=true"],
            "wall_clock needs experiment.overlap=Fal",
        ),
        (["experiment.overlap=true", "experiment.update_when=during_step"], "overlap=False"),
    ],
)
def test_what_does_not_go_together_is_refused(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config([*(POINT if "env=panda-reach" not in words else []), *words])


@needs_panda
@pytest.mark.parametrize("mode", ["during_step", "at_step"])
def test_arm_in_real_time(tmp_path: Path, mode: str) -> None:
    often = ("experiment.save_freq=1", "experiment.save.model.retain_last_n=-1", "experiment.eval_freq=6")
    x = experiment(tmp_path, PANDA, f"experiment.update_when={mode}", "experiment.num_train_steps=40", *often)
    began = time.monotonic()
    assert x.train() == "finished"
    assert time.monotonic() - began > 40 * 0.05  # no step was shorter than it is
    assert (x.step, x.parts.learner.updates + x.missed) == (40, 2 * (40 - 7))
    rows = [json.loads(line) for line in (tmp_path / "train.log").read_text().splitlines()]
    assert all({"delay_p50_ms", "delay_p99_ms", "slept_ms", "overruns", "age_p95_ms"} <= row.keys() for row in rows[1:])
    assert 30 < rows[-1]["step"] <= 40  # an arm that had to wait for a busy machine drops a step, and begins anew
    ends = {0, 40, *(row["step"] for row in rows)}  # of episodes: nothing keeps an arm waiting within one
    assert {int(path.name) for path in (tmp_path / "checkpoints").iterdir()} == ends
    assert {json.loads(line)["step"] for line in (tmp_path / "eval.log").read_text().splitlines()} <= ends


@needs_panda
def test_arm_that_gives_up_costs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medley.robots.env.PAUSE", 0.0)
    x = experiment(tmp_path, PANDA, "experiment.update_when=during_step", "experiment.save_freq=0")
    env: Any = x.parts.env
    env._pause = 0.0
    receive = env.receive

    def fail_later() -> Any:
        if x.step == 14:
            env.arm.trouble(stop=100)
        return receive()

    env.receive = fail_later
    with pytest.raises(ArmFault, match="in vain"):
        x.train()
    assert x.checkpoints.steps()[-1] in (15, 16, 17)
    again = experiment(tmp_path, PANDA, "experiment.update_when=during_step", "experiment.num_train_steps=25")
    assert again.train() == "finished"
    assert again.step == 25


@needs_panda
@pytest.mark.parametrize("mode", ["during_step", "at_step"])
def test_step_that_missed_its_deadline_is_not_kept(tmp_path: Path, mode: str) -> None:
    words = [f"experiment.update_when={mode}", "experiment.num_train_steps=20", "agent.reward_normalization=ema_std"]
    x = experiment(tmp_path, PANDA, *words)
    env: Any = x.parts.env
    step, dropped = env.step, []

    def slow(actions: Any, active: Any = None) -> Any:
        if x.step == 12 and not dropped:
            env.send(actions)
            time.sleep(0.12)
        result = step(actions, active)
        dropped.extend([1] * int(result[-1]["dropped"][0]))
        return result

    env.step = slow
    assert x.train() == "finished"
    assert len(dropped) >= 1
    assert (x.step, x.parts.replay.written) == (20, 20 - len(dropped))
    assert x.episodes_ended >= 2
