"""The simulator gives the package's numbers: every task, both reward versions, whole episodes, resets in between."""

from __future__ import annotations

import numpy as np
import pytest

from medley.envs.metaworld.names import benchmark_tasks
from medley.envs.metaworld.simulator import Simulator
from medley.envs.metaworld.tasks import TASKS
from tests.envs.metaworld.oracle import Oracle
from tests.envs.metaworld.parity import compare

ALL_TASKS = sorted(TASKS.tasks)


def test_every_task_is_here() -> None:
    from medley.envs.metaworld.names import env_classes

    assert sorted(env_classes()) == ALL_TASKS


@pytest.mark.parametrize("task", ALL_TASKS)
def test_constants_are_the_package_s(task: str) -> None:
    ours, theirs = TASKS.tasks[task], Oracle(task).env
    expected = {
        "hand_init": theirs.hand_init_pos,
        "hand_low": theirs.mocap_low,
        "hand_high": theirs.mocap_high,
        "goal_low": theirs.goal_space.low,
        "goal_high": theirs.goal_space.high,
        "reset_low": theirs._random_reset_space.low,
        "reset_high": theirs._random_reset_space.high,
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(getattr(ours, name), np.asarray(value, dtype=np.float64), err_msg=name)
    assert theirs.model_name.endswith(f"/{ours.model}.xml")


# The package takes seconds for an episode: the quick tests have parts of them for MT10's tasks and a few odd ones.
QUICK = [*benchmark_tasks("mt10"), "assembly", "hammer", "stick-pull", "basketball", "plate-slide"]
WHOLE = [pytest.param(task, 500, marks=pytest.mark.long) for task in ALL_TASKS]


@pytest.mark.parametrize(("task", "steps"), [*((task, 150) for task in QUICK), *WHOLE])
def test_episodes(task: str, steps: int) -> None:
    """Random, scripted and mixed actions in turn, each with a goal of its own, in one env and one slot."""
    difference = compare(task, ["random", "scripted", "noisy", "scripted"], steps=steps)
    assert difference.equal, difference.first


@pytest.mark.parametrize("task", ["reach", "bin-picking", "door-lock"])
def test_hidden_goals(task: str) -> None:
    difference = compare(task, ["noisy"], hide_goal=True, steps=100)
    assert difference.equal, difference.first


@pytest.mark.long
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("task", ALL_TASKS)
def test_many_goals_one_version_at_a_time(task: str, version: str) -> None:
    kinds = ["scripted", "random", "noisy", "scripted", "noisy", "random", "scripted", "noisy"]
    difference = compare(task, kinds, versions=(version,), seed=5)
    assert difference.equal, difference.first


def test_a_wrong_number_is_noticed() -> None:
    """The comparison itself can fail: a slot whose goal is off by a hair, a reward by one in a million."""
    task = TASKS.tasks["reach"]
    simulator = Simulator(["reach"], threads=1)
    simulator.slots["goal"][0] = task.reset_low
    simulator.slots["goal"][0, 3] += 1e-6
    simulator.reset()
    oracle = Oracle("reach")
    gap = np.abs(oracle.reset(np.array(task.reset_low)) - simulator.slots["obs"][0])
    assert gap.max() > 1e-9
