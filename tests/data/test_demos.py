"""`medley demos`: what is recorded shows success, and can be read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medley.cli import main
from medley.data.demos import demos, read
from medley.data.examples import CONTEXT, Recorded, stacked
from medley.data.rollouts import AFTER, _held
from medley.envs import build
from medley.envs.metaworld.config import MetaworldConfig
from medley.envs.metaworld.env import MetaworldEnv
from medley.envs.metaworld.intentions import THINGS, grasped, reached
from medley.envs.point import PointEnv
from medley.envs.point_aux import PointAuxConfig, PointAuxEnv
from medley.errors import ConfigError, MedleyError
from medley.training.policy import Policy
from tests.faults import harness

AUX = ("env=metaworld-aux", "env.task=push", "env.threads=1")


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorded, Recorded]:
    out = tmp_path_factory.mktemp("push") / "push"
    files = demos([*AUX, "examples=24", "demos=3", f"out={out}"])
    assert [f.name for f in files] == ["push.npz", "push-demos.npz"]
    examples, shown = (Recorded.load(f, env="metaworld-aux-push") for f in files)
    return examples, shown


def test_examples_pass_their_own_tests(push: tuple[Recorded, Recorded]) -> None:
    """Judged anew, from the file's observations alone."""
    examples, _ = push
    assert examples.about.tasks == ("main", "reach", "grasp")
    assert examples.about.control_hz == 80.0
    assert examples.actions is None
    tests = {
        "main": lambda obs: np.linalg.norm(obs[:, 4:7] - obs[:, 36:39], axis=1) <= 0.05,
        "reach": reached,
        "grasp": lambda obs: grasped(obs, THINGS["push"]),
    }
    for k, name in enumerate(examples.about.tasks):
        own = examples.of_task(name)
        assert len(own) == 24
        assert own.success[:, k].all()
        assert tests[name](own.observations).mean() >= 0.99
        assert len(np.unique(own.observations, axis=0)) == 24


def test_stacked_examples_move(push: tuple[Recorded, Recorded]) -> None:
    """Meta-World's observations hold the frame before: it must be the one that stands before it in the stack."""
    examples, _ = push
    assert (examples.task_id == CONTEXT).any()
    pairs = stacked(examples, 2).of_task("main").observations.reshape(-1, 2, 39)
    np.testing.assert_array_equal(pairs[:, 1, 18:36], pairs[:, 0, :18])
    assert (pairs[:, 0, :3] != pairs[:, 1, :3]).any()


def test_demonstrations_are_whole_and_end_after_success(push: tuple[Recorded, Recorded]) -> None:
    _, shown = push
    assert shown.actions is not None
    assert shown.next_observations is not None
    assert np.abs(shown.actions).max() <= 1.0
    episodes = np.unique(shown.episode_id)
    assert len(episodes) == 9
    for e in episodes:
        one = shown.rows(shown.episode_id == e)
        assert one.next_observations is not None
        np.testing.assert_array_equal(one.observations[1:], one.next_observations[:-1])
        assert one.step[0] == 0
        first = int(np.argmax(one.success[:, one.task_id[0]]))
        assert one.success[first, one.task_id[0]]
        assert len(one) == first + 1 + AFTER
        assert list(np.flatnonzero(one.truncations)) == [len(one) - 1]


def test_a_demonstration_can_be_played_back(tmp_path: Path) -> None:
    """The stored actions, clipped as they were applied, lead through the stored observations."""
    out = tmp_path / "d.npz"
    words = ["env=metaworld-mt1", "env.task=drawer-open", "env.threads=1", "setup.seed=5"]
    (file,) = demos([*words, "examples=0", "demos=1", f"out={out}"])
    assert file.name == "d-demos.npz"
    shown = Recorded.load(file)
    assert shown.actions is not None
    assert shown.next_observations is not None
    env = MetaworldEnv(MetaworldConfig(benchmark="mt1", task="drawer-open", goals="order"), 8, 5)
    obs, _ = env.reset()
    slot = int(np.argmin(np.abs(obs - shown.observations[0]).sum(1)))
    for row, action in enumerate(shown.actions):
        obs, reward, *_, info = env.step(np.tile(action, (8, 1)))
        np.testing.assert_array_equal(obs[slot].astype(np.float32), shown.next_observations[row])
        assert np.float32(reward[slot]) == shown.rewards[row, 0]
        assert info["success"][slot] == shown.success[row, 0]


def test_the_same_words_record_the_same(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (file,) = demos([*AUX, "examples=6", "tasks=[reach]", f"out={tmp_path / name}"])
        made.append(Recorded.load(file))
    np.testing.assert_array_equal(made[0].observations, made[1].observations)
    assert set(made[0].task_id) == {CONTEXT, 1}


def test_examples_that_the_env_makes_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(PointAuxEnv, "expert_actions")  # nobody there who could show how
    (file,) = demos(["env=point-aux", "examples=40"])
    assert file == Path("demos/point-aux.npz")
    made = Recorded.load(file, env="point-aux")
    env: Any = build(PointAuxConfig(), 1, 0)
    for k in range(3):
        rows = made.of_task(k).observations
        assert len(rows) == 40
        assert (np.linalg.norm(rows[:, :2] - env._places[k], axis=1) < 0.15).all()
    with pytest.raises(ConfigError, match="force=true"):
        demos(["env=point-aux", "examples=40"])
    demos(["env=point-aux", "examples=3", "force=true"])
    assert len(Recorded.load(file)) == 9
    with pytest.raises(ConfigError, match="demonstrations need from=RUN"):
        demos(["env=point-aux", "demos=2", "force=true"])


def test_a_trained_run_can_show_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    words = [w for w in harness.OPTIONS if not w.startswith("experiment.num_train_steps")]
    assert main(["train", *words, f"setup.save_dir={run}", "experiment.num_train_steps=60"]) == 0
    env = PointEnv(3)

    def act(self: Policy, obs: Any, task: str) -> Any:
        """What a run that has learnt more would do."""
        goal = env._goals[self.tasks.index(task)]
        return np.clip(4 * (goal - obs[:, :2]) - 0.5 * obs[:, 2:], -1, 1).astype(np.float32)

    monkeypatch.setattr(Policy, "act", act)
    files = demos([f"from={run}", "examples=12", "demos=2", f"out={tmp_path / 'shown'}"])
    examples, shown = (Recorded.load(file, env="point") for file in files)
    assert shown.about.source.startswith("run ")
    assert shown.about.success_rate == {"east": 1.0, "north": 1.0, "west": 1.0}
    for k in range(3):
        own = examples.of_task(k)
        assert len(own) == 12
        assert (np.linalg.norm(own.observations[:, :2] - env._goals[k], axis=1) < 0.15).all()
        assert not np.delete(own.success, k, axis=1).any()  # of other tasks nothing is known
        assert len(np.unique(shown.of_task(k).episode_id)) == 2
    with pytest.raises(ConfigError, match="trained on observations"):
        demos([f"from={run}", "env=metaworld-mt1", f"out={tmp_path / 'other'}"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["examples=3"], "say where to record"),
        (["env=point-aux", "exmples=3"], "Did you mean 'examples'"),
        (["env=point-aux", "examples=many"], "examples takes a number"),
        (["env=point-aux", "examples=-1"], "examples takes a number"),
        (["env=point-aux", "force=maybe"], "true or false"),
        (["env=point-aux", "examples=0"], "nothing to record"),
        (["env=point-aux", "noise=-1"], "0 or more"),
        (["env=point-aux", "tasks=[esat]"], "or 'east'?"),
        (["env=point"], "neither a script nor examples"),
        (["env=pont-aux"], "Did you mean 'point-aux'"),
        (["env=metaworld-aux", "env.task=drawer-opn"], "Did you mean 'drawer-open'"),
        (["env=point", "env.image_size=12", "agent=sac_ae"], "shows pictures"),
        (["from=nowhere"], "not a run folder"),
    ],
)
def test_bad_words(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demos", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_rare_success_is_said(tmp_path: Path) -> None:
    words = ["env=metaworld-mt1", "env.task=drawer-open", "env.threads=1", "env.horizon=5"]
    with pytest.raises(MedleyError, match=r"drawer-open: 0 examples and 0 demonstrations, 0 of \d+ episodes"):
        demos([*words, "examples=5", f"out={tmp_path / 'x'}"])
    assert not list(tmp_path.iterdir())


def test_runs_of_success() -> None:
    success = np.array([1, 1, 0, 1, 1, 1, 1, 1, 0, 1], bool)
    assert list(np.flatnonzero(_held(success, 5))) == [3, 4, 5, 6, 7]
    np.testing.assert_array_equal(_held(success, 1), success)
    assert read(["env=point", "tasks=[a, b]"]).tasks == ["a", "b"]
