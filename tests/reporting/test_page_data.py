"""What the page's script is given: numbers as they are, few enough of them, and nothing that could end their block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medley.reporting import page, page_data, quantities
from medley.reporting.alignment import align
from medley.reporting.asked import asked
from medley.reporting.runs import find_runs, group_runs, read_run
from medley.reporting.thinning import kept, rounded


def _whole(*paths: Path) -> dict[str, Any]:
    runs = find_runs(paths)
    pairs = [(group, align(group)) for group in group_runs(runs)]
    return page_data.whole(runs, pairs, page_data.base_of(paths), lambda video: {"href": video.path.name})


def test_rounded() -> None:
    values = [0.1 + 0.2, 1.0, 123456789.0, -0.000123456, 0.0, np.nan, np.inf, 99999.96, 1e-320]
    assert rounded(values, 4) == [0.3, 1, 123456789, -0.0001235, 0, None, None, 100000, 0]
    assert all(isinstance(value, int) for value in rounded([3.0, 2e9]))
    assert rounded(np.ones((2, 0))) == [[], []]
    rng = np.random.default_rng(0)
    many = rng.normal(0, 1, 500) * 10.0 ** rng.integers(-8, 8, 500)
    np.testing.assert_allclose(np.array(rounded(many, 5), float), many, rtol=5.1e-5)
    assert max(len(json.dumps(value)) for value in rounded(many, 5)) <= 13


def test_kept() -> None:
    assert kept(0, 5) == []
    assert kept(3, 5) == [0, 1, 2]
    places = kept(1000, 300)
    assert len(places) == 300
    assert (places[0], places[-1]) == (0, 999)


def test_nothing_ends_the_block_of_data(hostile: str) -> None:
    data = {"name": f"</script><!--{hostile}", "bad": "\udcff"}
    text = page.embedded(data)
    assert "<" not in text
    assert json.loads(text) == data
    with pytest.raises(ValueError, match="JSON"):
        page.embedded({"value": float("nan")})


def test_curves_are_the_runs_own(make_run) -> None:
    paths = [make_run(seed=seed) for seed in (1, 2)]
    data = _whole(*paths)
    assert data["tasks"] == ["reach", "push", "pick-place"]
    run = data["runs"][data["order"][0]]
    expected = read_run(paths[0])
    assert run["eval"]["step"] == [evaluation.step for evaluation in expected.evaluations]
    assert run["eval"]["frame"] == 3, "one number: three frames to every step"
    for index, task in enumerate(data["tasks"]):
        own = [evaluation.per_task[task] for evaluation in expected.evaluations]
        assert run["eval"]["success"][index] == [score.success for score in own]
        np.testing.assert_allclose(run["eval"]["return"][index], [score.ret for score in own], rtol=1e-4)
    assert run["eval"]["minute"][-1] == pytest.approx(400 * 0.8 / 60, rel=1e-3)
    losses = [row.get("critic_loss") for row in expected.train]
    assert run["train"]["train:critic_loss"][0] is None
    np.testing.assert_allclose(run["train"]["train:critic_loss"][1:], losses[1:], rtol=1e-3)
    assert len(run["train"]["task:alpha"]) == 3
    assert {"train:step", "train:duration", "train:alpha_0"}.isdisjoint(metric["key"] for metric in data["metrics"])
    band = align(group_runs(find_runs(paths))[0]).success_band  # type: ignore[union-attr]
    np.testing.assert_allclose(data["groups"][0]["bands"]["success"]["iqm"], [band.iqm_low, band.iqm_high], rtol=1e-4)


def test_long_logs_are_thinned_and_many_quantities_left_out(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(steps=tuple(range(0, 1_000_000, 1000)))
    rows = [
        {"step": step, "frames": step, "loss": step % 2, **{f"q{i}": 1.0 for i in range(8)}} for step in range(5000)
    ]
    (path / "train.log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = _whole(path)
    run = data["runs"][data["order"][0]]
    assert len(data["groups"][0]["steps"]) == len(run["eval"]["step"]) == 300
    assert run["eval"]["step"][-1] == 999_000
    assert set(data["groups"][0]["steps"]) == set(run["eval"]["step"]), "no point is between two evaluations"
    assert len(run["train"]["step"]) == 400
    np.testing.assert_allclose(run["train"]["train:loss"], 0.5, atol=0.05)
    assert data["left_out"] == []
    monkeypatch.setattr(quantities, "_NUMBERS", 1700)
    data = _whole(path)
    assert [metric["key"] for metric in data["metrics"][2:]] == ["train:loss", "train:q0", "train:q1", "train:q2"]
    assert data["left_out"] == [f"q{i}" for i in range(3, 8)]


def test_options_are_kept_once(make_run) -> None:
    paths = [make_run(seed=seed, options="agent: {trunk: shared, lr: 0.1}") for seed in (1, 2)]
    paths.append(make_run(config="other", options="agent: {trunk: disjoint}\nexperiment: {num_train_steps: 5}"))
    paths.append(make_run(config="broken"))
    (paths[3] / "config.yaml").write_text("{not: [yaml")
    found = asked([read_run(path) for path in paths])
    assert found.base["agent.trunk"] == "shared"
    assert found.own[0].keys() <= {"setup.seed", "experiment.num_train_steps"}
    assert found.own[2]["agent.trunk"] == "disjoint"
    assert found.own[2]["agent.lr"] is None
    assert found.own[3] == {}
    assert found.differing["agent.trunk"] == "method"
    assert found.differing["experiment.num_train_steps"] == "protocol"
    assert "setup.seed" not in found.differing


def test_runs_without_tasks_or_evaluations(make_run) -> None:
    path = make_run()
    for name in ("results.json", "eval.log", "config.yaml"):
        (path / name).unlink()
    data = _whole(path)
    run = data["runs"][data["order"][0]]
    assert run["eval"]["step"] == []
    assert run["success"] is None
    assert run["config"] == ""
    assert run["train"]["train:critic_loss"]
    assert data["groups"][0]["shown"] == []
