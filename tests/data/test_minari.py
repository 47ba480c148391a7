"""Demonstrations from and to Minari datasets, with the real package and nothing but this machine."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from medley.data.demos import demos, read
from medley.data.examples import DEMONSTRATIONS, About, Recorded
from medley.data.minari_sets import read_minari, write_minari
from medley.errors import ConfigError, DamagedError

if importlib.util.find_spec("minari") is None:
    pytest.skip("needs medley[minari]", allow_module_level=True)
import minari
from minari.data_collector import EpisodeBuffer

FORMATS = ["hdf5", "arrow"]
POINT = ["env=point-aux"]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Minari's own folder, and nobody who answers beyond it."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("somebody wants to go online")

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "minari"


def shown() -> Recorded:
    """Two episodes of two tasks, of three and two steps."""
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((7, 4)).astype(np.float32)  # 4 of the first episode, 3 of the second
    at = np.array([0, 1, 2, 4, 5])
    about = About("world", ("main", "reach"), DEMONSTRATIONS, action_low=[-1.0] * 2, action_high=[1.0] * 2, source="me")
    return Recorded(
        about,
        obs[at],
        rng.standard_normal((5, 2)),
        rng.random((5, 2)) < 0.5,
        terminations=np.array([0, 0, 0, 0, 1]),
        truncations=np.array([0, 0, 1, 0, 0]),
        episode_id=np.array([0, 0, 0, 1, 1]),
        step=np.array([0, 1, 2, 0, 1]),
        task_id=np.array([0, 0, 0, 1, 1]),
        actions=rng.uniform(-1, 1, (5, 2)),
        next_observations=obs[at + 1],
    )


def theirs(name: str = "somebody/else-v0", steps: int = 5, success: str | None = "success", **changed: Any) -> Any:
    """A dataset of `point-aux` that medley knows nothing of: two episodes."""
    rng = np.random.default_rng(1)
    buffers = [
        EpisodeBuffer(
            observations=rng.uniform(-1, 1, (steps + 1, changed.get("obs", 4))).astype(np.float32),
            actions=3 * rng.uniform(-1, 1, (steps, 2)).astype(np.float32),
            rewards=list(np.arange(steps, dtype=float)),
            terminations=[False] * steps,
            truncations=[False] * steps,  # some recordings end without saying so
            infos={success: [t >= steps for t in range(steps + 1)]} if success else None,
        )
        for _ in range(2)
    ]
    return minari.create_dataset_from_buffers(
        name,
        buffers,
        action_space=gym.spaces.Box(-3, 3, (2,), np.float32),
        observation_space=gym.spaces.Box(-np.inf, np.inf, (changed.get("obs", 4),), np.float32),
        data_format=changed.get("data_format"),
    )


@pytest.mark.parametrize("data_format", FORMATS)
def test_there_and_back_again(root: Path, data_format: str) -> None:
    recorded = shown()
    folder = write_minari(recorded, "world/shown-v0", data_format)
    assert folder == root / "world" / "shown-v0"
    about = dataclasses.replace(recorded.about, holds="examples", source="")
    for where in ("world/shown-v0", str(folder), str(folder / "data")):
        again = read_minari(where, about, [4], [0, 1])
        assert again.about == recorded.about
        for field in dataclasses.fields(Recorded)[1:]:
            np.testing.assert_array_equal(getattr(again, field.name), getattr(recorded, field.name), err_msg=field.name)
    only = read_minari("world/shown-v0", about, [4], [1])
    np.testing.assert_array_equal(only.observations, recorded.observations[3:])
    assert len(read_minari("world/shown-v0", about, [4], [0, 1], count=1)) == 3


@pytest.mark.parametrize("data_format", FORMATS)
def test_anybody_can_read_what_was_written(data_format: str) -> None:
    recorded = shown()
    write_minari(recorded, "world/shown-v0", data_format)
    dataset = minari.load_dataset("world/shown-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (2, 5)
    first, second = dataset.iterate_episodes()
    assert first.observations.shape == (4, 4)  # the last one too
    np.testing.assert_array_equal(first.observations[:-1], recorded.observations[:3])
    np.testing.assert_array_equal(first.rewards, recorded.rewards[:3, 0])  # each by its own task
    np.testing.assert_array_equal(second.rewards, recorded.rewards[3:, 1])
    assert (bool(first.truncations[-1]), bool(second.terminations[-1])) == (True, True)
    assert dataset.spec.action_space == gym.spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("success", ["success", None])
def test_other_peoples_datasets(data_format: str, success: str | None) -> None:
    theirs(success=success, data_format=data_format)
    (file,) = demos([*POINT, "from_minari=somebody/else-v0", "tasks=[north]"])
    assert file == Path("demos/point-aux-demos.npz")
    made = Recorded.load(file, env="point-aux")
    assert (made.about.holds, made.about.source) == (DEMONSTRATIONS, "Minari somebody/else-v0")
    assert made.actions is not None
    assert np.abs(made.actions).max() == 1.0  # as they were applied
    assert made.truncations.tolist() == [False, False, False, False, True] * 2
    assert (made.task_id == 1).all()
    np.testing.assert_array_equal(made.rewards[:, 1], [0, 1, 2, 3, 4] * 2)
    assert not made.rewards[:, [0, 2]].any()
    np.testing.assert_array_equal(made.success[:, 1], ([False] * 4 + [success is not None]) * 2)
    (file,) = demos([*POINT, "from_minari=somebody/else-v0", "tasks=[north]", "demos=1", "force=true"])
    assert len(Recorded.load(file)) == 5


def test_words_that_record_and_write_both(root: Path) -> None:
    said: list[str] = []
    files = demos([*POINT, "examples=0", "demos=2", "minari=point/shown-v0", "out=a"], say=said.append)
    assert any("Minari" in line for line in said)
    (back,) = demos([*POINT, "from_minari=point/shown-v0", "out=b"])
    first, again = Recorded.load(files[0]), Recorded.load(back)
    for name in ("observations", "actions", "rewards", "success", "task_id", "episode_id", "truncations"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    with pytest.raises(ConfigError, match="already"):
        demos([*POINT, "demos=1", "minari=point/shown-v0", "out=c"])
    assert not Path("c.npz").exists()  # refused before any work
    with pytest.raises(ConfigError, match="not in point-aux with east"):
        demos(["env=point-aux", "env.num_tasks=2", "from_minari=point/shown-v0", "out=d"])


def test_what_does_not_fit_is_refused(root: Path) -> None:
    theirs()
    theirs("somebody/wide-v0", obs=5)
    for words, message in (
        (["from_minari=somebody/none-v0"], "downloads nothing"),
        (["from_minari=somebody/else-v0"], r"tasks=\[NAME\]"),
        (["from_minari=somebody/wide-v0", "tasks=[east]"], "observations of 5 numbers"),
        (["from_minari=somebody/else-v0", "examples=3"], "demonstrations"),
        (["minari=point/shown-v0"], "set demos="),
        (["demos=1", "minari=noversion"], "with a version"),
    ):
        with pytest.raises(ConfigError, match=message):
            demos([*POINT, *words])
    with pytest.raises(ConfigError, match="only demonstrations"):
        write_minari(dataclasses.replace(shown(), about=About("world", ("main", "reach"))), "world/examples-v0")
    assert read([*POINT, "from_minari=x"]).examples == 0


def test_a_stranger_s_dataset_builds_nothing_and_damage_is_said(root: Path) -> None:
    theirs()
    data = root / "somebody" / "else-v0" / "data"
    header = json.loads((data / "metadata.json").read_text())
    del header["observation_space"]  # then Minari itself would build the env that the file names
    header["env_spec"] = gym.spec("Pendulum-v1").to_json()
    (data / "metadata.json").write_text(json.dumps(header))
    with pytest.raises(ConfigError, match="not built for that"):
        demos([*POINT, "from_minari=somebody/else-v0", "tasks=[east]"])
    theirs("somebody/hurt-v0")
    hurt = root / "somebody" / "hurt-v0" / "data" / "main_data.hdf5"
    hurt.write_bytes(hurt.read_bytes()[:100])
    with pytest.raises(DamagedError, match="damaged"):
        demos([*POINT, "from_minari=somebody/hurt-v0", "tasks=[east]"])


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for words in (["from_minari=x"], ["demos=1", "minari=point/shown-v0"]):
        with pytest.raises(ConfigError, match=r"pip install 'medley\[minari\]'"):
            demos([*POINT, *words])
