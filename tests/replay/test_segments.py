"""Replay on disk: exact, cheap, immutable, checked."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medley.errors import DamagedError
from medley.replay import segments
from medley.replay.ring import FIELDS, Replay, Step


def make(capacity: int = 20, slots: int = 2, obs: int = 3) -> Replay:
    return Replay(2, slots, capacity, obs_dim=obs, action_dim=2, device=torch.device("cpu"), seed=0)


def random_step(rng: np.random.Generator, slots: int = 2, obs: int = 3) -> Step:
    ended = rng.random((2, slots)) < 0.3
    return Step(
        obs=rng.normal(size=(2, slots, obs)).astype(np.float32),
        action=rng.normal(size=(2, slots, 2)).astype(np.float32),
        reward=rng.normal(size=(2, slots)).astype(np.float32),
        next_obs=rng.normal(size=(2, slots, obs)).astype(np.float32),
        terminated=ended & (rng.random((2, slots)) < 0.5),
        ended=ended,
    )


def fill(replay: Replay, steps: int, seed: int = 0, obs: int = 3) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        replay.add(random_step(rng, replay.slots, obs))


def same(a: Replay, b: Replay) -> bool:
    return a.written == b.written and all(torch.equal(a.rows[f], b.rows[f]) for f in FIELDS)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def restored(folder: Path, manifest: segments.Manifest, **shape: int) -> Replay:
    segments.verify(folder, manifest)
    replay = make(**shape)
    segments.load(replay, folder, manifest)
    return replay


@pytest.mark.parametrize("steps", [0, 1, 7, 10, 11, 25, 40])
def test_save_and_load_before_and_after_the_wrap(steps: int, tmp_path: Path) -> None:
    replay = make()
    fill(replay, steps)
    manifest = segments.save(replay, tmp_path, None)
    back = restored(tmp_path, json.loads(json.dumps(manifest)))  # a manifest is plain JSON
    assert same(back, replay)
    assert back.size == replay.size == min(2 * steps, 20)
    back.generator.set_state(replay.generator.get_state())
    if steps:
        assert torch.equal(back.sample(50).obs, replay.sample(50).obs)
    # and both go on alike
    fill(replay, 3, seed=9)
    fill(back, 3, seed=9)
    assert same(back, replay)


def test_a_save_costs_what_is_new(tmp_path: Path) -> None:
    replay = make(capacity=20_000, obs=8)
    fill(replay, 5000, obs=8)
    first = segments.save(replay, tmp_path, None)
    whole = sum(len(b) for b in files(tmp_path).values())
    before = set(files(tmp_path))
    fill(replay, 10, seed=1, obs=8)
    second = segments.save(replay, tmp_path, first)
    new = {k: v for k, v in files(tmp_path).items() if k not in before}
    assert len(new) == 1
    assert sum(map(len, new.values())) < whole / 100
    unchanged = segments.save(replay, tmp_path, second)
    assert unchanged == second
    assert set(files(tmp_path)) == before | set(new)
    # More new rows than the ring holds cost one ring, and nothing older is listed any more.
    fill(replay, 15_000, seed=2, obs=8)
    third = segments.save(replay, tmp_path, second)
    wanted = ([replay.written - 20_000] * 2, [replay.written] * 2)
    assert [(s["from"], s["to"]) for s in third["segments"]] == [wanted]


def test_segments_are_never_written_again(tmp_path: Path) -> None:
    replay, manifest, seen = make(), None, dict[str, bytes]()
    for n in range(12):
        fill(replay, 3, seed=n)
        manifest = segments.save(replay, tmp_path, manifest)
        now = files(tmp_path)
        assert all(now[name] == content for name, content in seen.items())
        assert not any(name.startswith(".") or name == "draft" for name in now)
        seen = now
    assert len(seen) == 12


def test_two_futures_of_one_checkpoint_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """A run that went back and took another course writes the same range of rows with another content."""
    base = make()
    fill(base, 3)
    start = segments.save(base, tmp_path, None)
    futures = []
    for seed in (1, 2):
        replay = restored(tmp_path, start)
        fill(replay, 2, seed=seed)
        futures.append((segments.save(replay, tmp_path, start), replay))
    for manifest, replay in futures:
        assert same(restored(tmp_path, manifest), replay)


def test_delete_unlisted_keeps_what_kept_manifests_need(tmp_path: Path) -> None:
    replay, manifests, copies = make(), [], []
    for n in range(8):
        fill(replay, 4, seed=n)
        manifests.append(segments.save(replay, tmp_path, manifests[-1] if manifests else None))
        copies.append(copy.deepcopy(replay.rows))
    (tmp_path / "draft").write_bytes(b"cut off")
    (tmp_path / ".draft.tmp").write_bytes(b"cut off")
    kept = manifests[-2:]
    segments.delete_unlisted(tmp_path, kept)
    assert set(files(tmp_path)) == {s["file"] for m in kept for s in m["segments"]}
    assert len(files(tmp_path)) < 8  # something did go
    for manifest, rows in zip(kept, copies[-2:], strict=True):
        back = restored(tmp_path, manifest)
        assert all(torch.equal(back.rows[f], rows[f]) for f in FIELDS)
    segments.delete_unlisted(tmp_path / "not there", [])


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    replay = make()
    fill(replay, 4)
    first = segments.save(replay, tmp_path, None)
    fill(replay, 3, seed=1)
    manifest = segments.save(replay, tmp_path, first)
    segments.verify(tmp_path, manifest)
    for segment in manifest["segments"]:
        path = tmp_path / segment["file"]
        good = path.read_bytes()
        for at in (0, 9, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            with pytest.raises(DamagedError, match="checksum"):
                segments.verify(tmp_path, manifest)
        path.write_bytes(good[:-1])
        with pytest.raises(DamagedError, match="checksum"):
            segments.verify(tmp_path, manifest)
        path.unlink()
        with pytest.raises(DamagedError, match="missing"):
            segments.verify(tmp_path, manifest)
        path.write_bytes(good)
    segments.verify(tmp_path, manifest)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", ".", "", "./x"])
def test_file_names_outside_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "buffer"
    replay = make()
    fill(replay, 4)
    manifest = segments.save(replay, folder, None)
    real = folder / manifest["segments"][0]["file"]
    (tmp_path / "secret").write_bytes(real.read_bytes())  # the checksum would fit
    (folder / "a").mkdir()
    (folder / "a" / "b").write_bytes(real.read_bytes())
    (folder / "x").write_bytes(real.read_bytes())
    manifest["segments"][0]["file"] = name
    with pytest.raises(DamagedError):
        segments.verify(folder, manifest)


@pytest.mark.parametrize("changes", [{"capacity": 22}, {"slots": 1}])
def test_another_shape_is_refused(changes: dict[str, int], tmp_path: Path) -> None:
    replay = make()
    fill(replay, 4)
    manifest = segments.save(replay, tmp_path, None)
    with pytest.raises(DamagedError, match=next(iter(changes))):
        segments.load(make(**changes), tmp_path, manifest)


def test_a_save_that_fails_leaves_the_old_one_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = make()
    fill(replay, 4)
    first = segments.save(replay, tmp_path, None)
    before = files(tmp_path)
    rows = copy.deepcopy(replay.rows)
    fill(replay, 2, seed=1)

    def full(tensors: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segments, "save_file", full)
        with pytest.raises(OSError, match="No space"):
            segments.save(replay, tmp_path, first)
    assert files(tmp_path) == before
    back = restored(tmp_path, first)
    assert all(torch.equal(back.rows[f], rows[f]) for f in FIELDS)
    assert same(restored(tmp_path, segments.save(replay, tmp_path, first)), replay)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 9)),
        st.tuples(st.just("save"), st.integers(1, 3)),
        st.tuples(st.just("load"), st.integers(0, 2)),
    ),
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(actions=ACTIONS, slots=st.integers(1, 3), steps_kept=st.integers(2, 8))
def test_any_history_of_saves_and_loads_equals_a_plain_list(
    actions: list[tuple[str, int]], slots: int, steps_kept: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The model: a Python list of steps. A save remembers its length; a load cuts it back, and what follows is new."""
    folder = tmp_path_factory.mktemp("buffer")
    capacity = slots * steps_kept
    rng = np.random.default_rng(0)
    replay = make(capacity, slots)
    model: list[Step] = []
    manifest: segments.Manifest | None = None
    kept: list[tuple[segments.Manifest, list[Step]]] = []
    for action, number in actions:
        if action == "add":
            for _ in range(number):
                model.append(random_step(rng, slots))
                replay.add(model[-1])
        elif action == "save":
            manifest = json.loads(json.dumps(segments.save(replay, folder, manifest)))
            kept = [*kept, (manifest, list(model))][-number:]
            segments.delete_unlisted(folder, [m for m, _ in kept])
        elif kept:
            manifest, saved = kept[-1 - number % len(kept)]
            kept = kept[: len(kept) - number % len(kept)]  # what came later is gone, as Checkpoints does it
            model, replay = list(saved), make(capacity, slots)
            segments.verify(folder, manifest)
            segments.load(replay, folder, manifest)
        check(replay, model)
    for old, saved in kept:
        check(restored(folder, old, capacity=capacity, slots=slots), saved)


def check(replay: Replay, model: list[Step]) -> None:
    steps_kept = replay.capacity // replay.slots
    assert replay.written == len(model) * replay.slots
    for t in range(max(0, len(model) - steps_kept), len(model)):
        at = t * replay.slots % replay.capacity
        for name in FIELDS:
            assert np.array_equal(replay.rows[name][:, at : at + replay.slots].numpy(), getattr(model[t], name))
