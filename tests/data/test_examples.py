"""Files of examples and demonstrations: what goes in comes out, and nothing else does."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medley.data.examples import CONTEXT, About, Recorded, stacked
from medley.errors import ConfigError, DamagedError, MedleyError

ABOUT = About("metaworld-aux-push", ("main", "reach"), seed=3, layout={"hand": [0, 3]}, control_hz=80.0)


def recorded(lengths: list[int], starts: list[int] | None = None, **changes: Any) -> Recorded:
    rng = np.random.default_rng(0)
    n = sum(lengths)
    starts = starts or [0] * len(lengths)
    rows: dict[str, Any] = {
        "observations": rng.normal(size=(n, 3)),
        "next_observations": rng.normal(size=(n, 3)),
        "actions": rng.normal(size=(n, 2)),
        "rewards": rng.normal(size=(n, 2)),
        "success": rng.random((n, 2)) < 0.5,
        "terminations": np.zeros(n),
        "truncations": np.zeros(n),
        "episode_id": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.concatenate([s + np.arange(length) for s, length in zip(starts, lengths, strict=True)]),
        "task_id": np.arange(n) % 2,
    }
    return Recorded(ABOUT, **{**rows, **changes})


def same(left: Recorded, right: Recorded) -> bool:
    names = [f.name for f in dataclasses.fields(Recorded) if f.name != "about"]
    return left.about == right.about and all(np.array_equal(getattr(left, n), getattr(right, n)) for n in names)


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    made = recorded([4, 1, 3])
    made.save(tmp_path / "deep/er/file.npz")
    read = Recorded.load(tmp_path / "deep/er/file.npz", env="metaworld-aux-push")
    assert same(read, made)
    assert read.observations.dtype == read.rewards.dtype == np.float32
    assert read.success.dtype == np.bool_
    assert [p.name for p in (tmp_path / "deep/er").iterdir()] == ["file.npz"]
    states = recorded([1, 1], actions=None, next_observations=None)
    states.save(tmp_path / "states.npz")
    again = Recorded.load(tmp_path / "states.npz")
    assert again.actions is None
    assert again.next_observations is None


def test_rows_of_a_task() -> None:
    made = recorded([3, 2])
    np.testing.assert_array_equal(made.rows(made.task_id == 1).observations, made.observations[1::2])
    one = recorded([2, 2], task_id=np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(one.of_task("reach").observations, one.observations[2:])
    assert len(one.of_task(0)) == 2
    with pytest.raises(ConfigError, match="Did you mean 'reach'"):
        one.of_task("reech")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"actions": np.zeros((4, 2))}, r"`actions` of a recording has shape \[4, 2\], expected \[5, …\]"),
        ({"next_observations": np.zeros((5, 4))}, "differ in shape"),
        ({"rewards": np.zeros((5, 3))}, "3 columns for 2 tasks"),
        ({"task_id": np.array([0, 1, 2, 0, 0])}, "`task_id` must lie"),
        ({"step": np.array([0, 1, 3, 0, 1])}, "successive"),
        ({"episode_id": np.array([0, 0, 1, 0, 0]), "step": np.array([0, 1, 0, 2, 3])}, "adjacent"),
        ({"observations": np.full((5, 3), np.nan)}, "not finite"),
        ({"step": np.zeros((5, 1))}, "`step`"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        recorded([3, 2], **changes)


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    recorded([4]).save(path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"no zip", bytes([*whole[:200], whole[200] ^ 8, *whole[201:]])):
        path.write_bytes(broken)
        with pytest.raises(DamagedError, match="medley demos"):
            Recorded.load(path)
    # A file somebody changed and wrote anew: the zip is sound, the content is not what was recorded.
    path.write_bytes(whole)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, "success": ~arrays["success"]})
    with pytest.raises(DamagedError, match="checksum"):
        Recorded.load(path)
    header = json.loads(arrays["metadata"].tobytes())
    header["about"]["env"] = "panda-reach"
    np.savez(path, **{**arrays, "metadata": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    with pytest.raises(DamagedError, match="checksum"):
        Recorded.load(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MedleyError, match="cannot be written"):
        recorded([2]).save(tmp_path / "file/below.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    with pytest.raises(ConfigError, match="there is no file"):
        Recorded.load(path)
    recorded([4]).save(path)
    with pytest.raises(ConfigError, match="recorded in metaworld-aux-push, not in metaworld-aux-drawer-open"):
        Recorded.load(path, env="metaworld-aux-drawer-open")
    np.savez(path, observations=np.array([{"a": 1}], dtype=object), metadata=np.zeros(1))
    with pytest.raises(DamagedError, match="not a recording"):
        Recorded.load(path)  # never unpickled


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 4))
def test_stacks_are_what_an_env_would_have_shown(lengths: list[int], frames: int) -> None:
    made = recorded(lengths)
    assert made.next_observations is not None
    wide = stacked(made, frames)
    assert wide.next_observations is not None
    row = 0
    for length in lengths:
        seen = [made.observations[row]] * frames
        for t in range(length):
            if t:
                seen = [*seen[1:], made.observations[row]]
            np.testing.assert_array_equal(wide.observations[row], np.concatenate(seen))
            after = [*seen[1:], made.next_observations[row]]
            np.testing.assert_array_equal(wide.next_observations[row], np.concatenate(after))
            row += 1


def test_stacks_of_examples() -> None:
    lone = stacked(recorded([1, 1], actions=None, next_observations=None), 2)
    np.testing.assert_array_equal(lone.observations[:, :3], lone.observations[:, 3:])
    # Two examples with what was seen before them: the stack moves, and the history is no example itself.
    task = np.array([CONTEXT, CONTEXT, 0, CONTEXT, CONTEXT, 1])
    made = recorded([3, 3], starts=[7, 40], task_id=task)
    wide = stacked(made, 3)
    assert list(wide.task_id) == [0, 1]
    np.testing.assert_array_equal(wide.observations[1], made.observations[3:].reshape(-1))
    with pytest.raises(ConfigError, match="history=3"):
        stacked(made, 4)
    with pytest.raises(ConfigError, match="stacked already"):
        stacked(wide, 2)
    with pytest.raises(ConfigError, match="single frames"):
        wide.save("never.npz")
