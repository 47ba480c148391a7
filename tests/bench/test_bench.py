"""The benchmarks run, and their figures mean what they say. How fast anything is, is not tested."""

from __future__ import annotations

import importlib
import inspect
import json
from typing import Any

import pytest

from medley.bench import command, learner, methods, render, train, update
from medley.envs.gl import find_gl, how_to_draw

SMALL = [
    "env.threads=1",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.batch_size=40",
    "experiment.init_steps=20",
    "setup.device=cpu",
]


def test_a_whole_run_is_measured_from_its_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = ["experiment.eval_freq=50", "experiment.num_eval_episodes=1", "env.horizon=20"]
    figures = train._medley(1.0, [*SMALL, *evaluated])
    assert figures["seconds"] >= 1.0
    assert figures["evaluations"] >= 1
    # One update per step of every task, from init_steps on: the two rates must agree.
    assert figures["medley_sps"] == pytest.approx(10 * figures["medley_ups"], rel=0.05)
    assert figures["device"] == "cpu"


def test_the_table_ends_with_one_json_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"medley_sps": 300.0, "medley_ups": 30.0, "device": "cpu"}
    monkeypatch.setattr(train, "_medley", lambda seconds, options: dict(own))
    monkeypatch.setattr(train, "_stable_baselines3", lambda seconds: {"sb3_sps": 100.0, "sb3_ups": 10.0})
    assert train.bench(1.0, True, [])["ratio"] == 3.0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["ratio"] == 3.0
    monkeypatch.setattr(train, "_medley", lambda seconds, options: {**own, "device": "cuda"})
    assert train.bench(1.0, False, [])["ratio_published"] == round(300 / 1438, 2)


def test_ratios_are_medians_of_rounds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine that changes its speed between rounds changes no ratio."""
    calls: dict[str, int] = {}
    speeds = {"medley": 30.0, "stable_baselines3": 10.0, "sbx": 15.0, "products": 40.0}

    def side(name: str) -> Any:
        def run(count: int) -> None: ...

        run.__name__ = name
        return run

    def rate(run: Any, seconds: float) -> float:
        calls[run.__name__] = calls.get(run.__name__, 0) + 1
        slow = 2.0 if calls[run.__name__] > 5 else 1.0
        return speeds[run.__name__] / slow

    monkeypatch.setattr(update, "_peer", lambda package: (side(package), side(package)))
    monkeypatch.setattr(update, "_medley", lambda folder: (side("medley"), side("medley"), side("products")))
    monkeypatch.setattr(update, "_rate", rate)
    result = update.bench(1.0, True)
    assert (result["ratio"], result["ratio_sbx"], result["ratio_updates"]) == (3.0, 2.0, 3.0)
    assert len(result["rounds"]["medley_sps"]) == update.ROUNDS
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result


def test_updates_alone(capsys: pytest.CaptureFixture[str]) -> None:
    result = learner.bench(0.2, True, SMALL, seeds=2)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result
    assert 0 < result["ms_per_update"] < 1000
    assert (result["seeds"], result["device"], len(result["rounds"])) == (2, "cpu", learner.ROUNDS)


def test_a_method_that_cannot_be_prepared_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(methods, "SETTING", ["env=point", "replay_buffer.batch_size=12"])
    monkeypatch.setattr(methods, "METHODS", {"good": ["agent.trunk=shared"], "bad": ["agent.trunk=none_such"]})
    small = ["agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "setup.device=cpu"]
    good, bad = methods.bench(0.05, False, small, at_once=2)
    assert good["ratio"] > 0
    assert "none_such" in bad["failure"]
    assert "bad                  failed" in capsys.readouterr().out


def test_pictures_are_compared_state_by_state(capsys: pytest.CaptureFixture[str]) -> None:
    if find_gl() is None:
        pytest.skip(how_to_draw())
    result = render.bench(0.1, True, tasks=("pendulum-swingup",))
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result
    (row,) = result["tasks"]
    assert row["states"] >= 50
    assert row["ratio"] == pytest.approx(row["fast_fps"] / row["exact_fps"], rel=0.5)
    assert 0 < row["mean_difference"] < 2 < row["percentile_999"]
    assert 0 < row["share_above_8"] < 0.2
    assert (result["ratio"], result["largest_mean_difference"]) == (row["ratio"], row["mean_difference"])


@pytest.mark.parametrize("what", command.MEASURED)
def test_what_the_command_line_gives_is_what_a_bench_takes(what: str) -> None:
    """What it does not take would be an error only when somebody measures."""
    known = inspect.signature(importlib.import_module(f"medley.bench.{what}").bench).parameters
    given = {"as_json", *command.MEASURED[what][1]}
    needed = {name for name, parameter in known.items() if parameter.default is inspect.Parameter.empty}
    assert needed <= given <= set(known)
