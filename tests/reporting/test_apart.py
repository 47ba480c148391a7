"""Runs taken together by options, never across protocols, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from medley.errors import MedleyError
from medley.reporting.alignment import align
from medley.reporting.by import labels_by
from medley.reporting.runs import RunGroup, find_runs, group_runs


def _options(**changes: object) -> str:
    """As a run's config.yaml has them, with some changed."""
    flat: dict[str, object] = {
        "agent.name": "state_sac",
        "agent.trunk": "shared",
        "agent.lr": 0.001,
        "env.builder": "metaworld",
        "env.horizon": 500,
        "env.workers": 0,
        "experiment.num_train_steps": 100_000,
        "experiment.num_eval_episodes": 50,
        "replay_buffer.batch_size": 128,
    }
    tree: dict[str, dict[str, object]] = {}
    for key, value in (flat | {key.replace("__", "."): value for key, value in changes.items()}).items():
        tree.setdefault(key.split(".")[0], {})[key.split(".")[1]] = value
    return yaml.safe_dump(tree)


def _by(root: Path, by: str | None) -> list[RunGroup]:
    return group_runs(find_runs([root]), None if by is None else labels_by([root], by))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_by_agent_pools_what_differs_elsewhere_and_says_so(make_run, root: Path) -> None:
    for seed in (1, 2):
        make_run(config="a", seed=seed, options=_options())
        make_run(config="b", seed=seed, options=_options(agent__trunk="multi_head", replay_buffer__batch_size=256))
        make_run(config="c", seed=seed, agent="care", options=_options(agent__name="care"))
    groups = _by(root, "agent")
    assert [(group.label, len(group.runs)) for group in groups] == [("state_sac", 4), ("care", 2)]
    assert groups[0].notes == (
        "state_sac averages over runs that differ in agent.trunk (shared, multi_head), "
        "replay_buffer.batch_size (128, 256).",
    )
    assert groups[1].notes == ()
    aligned = align(groups[0])
    assert aligned is not None
    assert aligned.success.shape == (4, 3, 11)
    assert aligned.notes == groups[0].notes, "the page shows a group's notes with its curves"
    assert [group.label for group in _by(root, None)] == ["a", "b", "c"]


def test_by_several_options_and_by_env(make_run, root: Path) -> None:
    make_run(config="a", options=_options())
    make_run(config="b", options=_options(agent__trunk="multi_head"))
    make_run(config="a", env="metaworld-mt50", options=_options())
    labels = [group.label for group in _by(root, "env,agent.trunk")]
    assert labels == [
        "metaworld-mt10, trunk=shared",
        "metaworld-mt10, trunk=multi_head",
        "metaworld-mt50, trunk=shared",
    ]
    groups = _by(root, "env")
    assert [(group.label, len(group.runs)) for group in groups] == [("metaworld-mt10", 2), ("metaworld-mt50", 1)]
    assert "agent.trunk (shared, multi_head)" in groups[0].notes[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"experiment__num_train_steps": 50_000}, "experiment.num_train_steps is 100000 (seed 1) or 50000 (seed 2)"),
        ({"experiment__num_eval_episodes": 10}, "experiment.num_eval_episodes is 50 (seed 1) or 10 (seed 2)"),
        ({"env__horizon": 150}, "env.horizon is 500 (seed 1) or 150 (seed 2)"),
        ({"experiment__eval_explore": "stochastic"}, "eval_explore is deterministic (seed 1) or stochastic (seed 2)"),
        ({"experiment__init_from": "runs/x/seed_1"}, "init_from is not set (seed 1) or runs/x/seed_* (seed 2)"),
    ],
)
@pytest.mark.parametrize("by", [None, "agent"])
def test_another_protocol_is_another_group(make_run, root: Path, by: str | None, change: dict, said: str) -> None:
    make_run(seed=1, options=_options())
    make_run(seed=2, options=_options(**change))
    groups = _by(root, by)
    assert [len(group.runs) for group in groups] == [1, 1]
    assert groups[0].label != groups[1].label
    (note,) = [note for group in groups for note in group.notes]
    assert note.startswith("Runs of state_sac differ in their protocol and are not averaged together: ")
    assert said in note


def test_tasks_protocols_and_envs_are_never_mixed(make_run, root: Path) -> None:
    make_run(seed=1, options=_options())
    make_run(seed=2, options=_options(), tasks=("reach",))
    make_run(seed=3, options=_options(), protocol="mtrl")
    make_run(seed=4, options=_options(), env="point")
    make_run(seed=5, options=_options(), tasks=("pick-place", "push", "reach"))
    groups = _by(root, "agent")
    assert sorted(tuple(run.seed for run in group.runs) for group in groups) == [("1", "5"), ("2",), ("3",), ("4",)]
    notes = " ".join(note for group in groups for note in group.notes)
    assert "tasks are pick-place, push, reach (seeds 1, 5 and seed 3) or reach (seed 2)" in notes
    assert "experiment.protocol is metaworld+ (seeds 1, 5 and seed 2) or mtrl (seed 3)" in notes
    assert "env is metaworld-mt10 (seeds 1, 2, 3, 5) or point (seed 4)" in notes
    assert {group.label for group in groups if len(group.runs) == 1} >= {"point / state_sac"}


def test_the_name_says_what_is_apart(make_run, root: Path) -> None:
    make_run(seed=1, options=_options())
    make_run(seed=2, options=_options(experiment__num_train_steps=50_000))
    labels = [group.label for group in _by(root, None)]
    assert labels == ["state_sac (num_train_steps=100000)", "state_sac (num_train_steps=50000)"]


def test_what_changes_no_result_parts_nothing(make_run, root: Path) -> None:
    make_run(seed=1, options=_options())
    make_run(seed=2, options=_options(env__workers=4, experiment__save_freq=7, experiment__eval_schedule=[]))
    make_run(seed=3, options=_options(experiment__max_minutes=None))
    make_run(seed=4, options=_options(experiment__max_minutes=24.5))  # it was done before
    make_run(seed=5, options=_options(env__train_horizon=200))
    groups = _by(root, None)
    assert [len(group.runs) for group in groups] == [5]
    # Its training episodes were shorter: measured alike, but the report says so where such runs are averaged.
    assert groups[0].notes == ("state_sac averages over runs that differ in env.train_horizon (–, 200).",)


def test_a_run_that_time_ended_is_apart(make_run, root: Path) -> None:
    make_run(seed=1, options=_options())
    make_run(seed=2, options=_options(experiment__max_minutes=24.5), steps=range(0, 50_001, 10_000))
    groups = _by(root, None)
    assert [len(group.runs) for group in groups] == [1, 1]
    assert "experiment.max_minutes is not set (seed 1) or 24.5 (seed 2)" in groups[0].notes[0]


def test_a_run_whose_options_are_unknown_stays_apart(make_run, root: Path) -> None:
    make_run(seed=1, options=_options())
    (make_run(seed=2, options=_options()) / "config.yaml").write_text("1: [")
    groups = _by(root, "agent")
    assert [len(group.runs) for group in groups] == [1, 1]
    assert "config.yaml is readable (seed 1) or missing or damaged (seed 2)" in groups[0].notes[0]


def test_a_copy_of_a_run_is_not_another_seed(make_run, root: Path) -> None:
    for folder, steps in (("a/seed_1", range(0, 50_001, 10_000)), ("b/seed_1", range(0, 100_001, 10_000))):
        make_run(seed=1, folder=folder, steps=tuple(steps), options=_options())
    make_run(seed=1, folder="c/seed_1", options=_options(agent__lr=0.1))
    (group,) = _by(root, "agent")
    assert sorted(run.path.parent.name for run in group.runs) == ["b", "c"]
    assert any("a/seed_1 has the options and the seed of another run" in note for note in group.notes)


def test_options_that_no_run_has_are_refused(make_run, root: Path) -> None:
    make_run(options=_options())
    with pytest.raises(MedleyError, match=r"--by agent.trunc: no run has such an option.*'agent.trunk'"):
        labels_by([root], "agent.trunc")
    with pytest.raises(MedleyError, match="--by experiment is not one option"):
        labels_by([root], "agent,experiment")
    with pytest.raises(MedleyError, match="which options"):
        labels_by([root], " ,")
