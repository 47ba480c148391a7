"""Frames on disk: saves before, at and after the wrap, their cost, and damage (A8)."""

from __future__ import annotations

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
from medley.replay.frame_stores import KINDS
from medley.replay.frames import FrameReplay
from medley.replay.ring import Replay
from tests.replay.pictures import Naive, World, assert_equal, make, same


def saved(replay: FrameReplay, folder: Path, before: segments.Manifest | None = None) -> segments.Manifest:
    manifest: segments.Manifest = json.loads(json.dumps(segments.save(replay, folder, before)))  # plain JSON
    return manifest


def restored(buffer: Path, manifest: segments.Manifest, **options: Any) -> FrameReplay:
    segments.verify(buffer, manifest)
    replay = make(**options)
    segments.load(replay, buffer, manifest)
    return replay


@pytest.mark.parametrize("mode", ["shorter", "full"])
@pytest.mark.parametrize("steps", [0, 1, 5, 11, 12, 13, 14, 15, 16, 17, 30, 61])
def test_a_restored_replay_goes_on_exactly(steps: int, mode: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_step": 3, "nstep_mode": mode}
    replay, world = make(**options), World(2, 2, 3, steps)
    rng = np.random.default_rng(steps)
    for _ in range(steps):
        replay.add(world.step(rng.random(2) < 0.8))
    back = restored(tmp_path, saved(replay, tmp_path), **options)
    for _ in range(40):
        assert replay.counts.tolist() == back.counts.tolist()
        assert replay.size == back.size
        back.generator.set_state(replay.generator.get_state())
        assert same(back.sample(20), replay.sample(20))
        step = world.step(rng.random(2) < 0.8)  # among others into episodes that were under way
        replay.add(step)
        back.add(step)


@settings(max_examples=30, deadline=None)
@given(
    waits=st.lists(st.integers(0, 25), min_size=1, max_size=8),
    slots=st.integers(1, 3),
    room=st.integers(2, 12),
    seed=st.integers(0, 2**31),
)
def test_any_history_of_saves_equals_a_naive_replay(
    waits: list[int], slots: int, room: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every save but the first writes what is new; the last two can be loaded, as two checkpoints are kept."""
    folder = tmp_path_factory.mktemp("buffer")
    shape: dict[str, Any] = {"tasks": 2, "slots": slots, "capacity": room * slots, "n_step": 3}
    replay, world, rng = make(**shape), World(2, slots, 3, seed), np.random.default_rng(seed)
    naive = Naive(2, slots, 3, replay.places, replay.room, 3)
    manifests: list[segments.Manifest] = []
    for wait in waits:
        for _ in range(wait):
            step = world.step(rng.random(2) < 0.7)
            replay.add(step)
            naive.add(step)
        manifests = [*manifests, saved(replay, folder, manifests[-1] if manifests else None)][-2:]
        segments.delete_unlisted(folder, manifests)
        back = restored(folder, manifests[-1], **shape)
        assert_equal(back, naive)
        if rng.random() < 0.5:
            replay = back  # the run was killed and goes on
        restored(folder, manifests[0], **shape)


def test_a_save_costs_what_is_new(tmp_path: Path) -> None:
    replay, world = make(capacity=2000), World(2, 2, 3, 0)
    manifest = None
    sizes = []
    for wait in (900, 10, 10, 0, 400, 10, 10):  # the ring wraps at 1000
        for _ in range(wait):
            replay.add(world.step())
        before = {p.name for p in tmp_path.iterdir()} if tmp_path.is_dir() else set()
        manifest = saved(replay, tmp_path, manifest)
        new = [p for p in tmp_path.iterdir() if p.name not in before]
        sizes.append(sum(p.stat().st_size for p in new))
        assert len(new) == (1 if wait else 0)
    assert sizes[3] == 0
    assert max(sizes[1], sizes[2], sizes[5], sizes[6]) < sizes[0] / 25
    assert 0.3 < sizes[4] / sizes[0] < 0.6
    assert manifest is not None
    assert same(restored(tmp_path, manifest, capacity=2000).sample(50), replay.sample(50))


def test_a_large_save_is_cut_into_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, world = make(capacity=100), World(2, 2, 3, 0)
    for _ in range(80):
        replay.add(world.step())
    monkeypatch.setattr(segments, "LONGEST", 1000)
    manifest = saved(replay, tmp_path)
    assert len(manifest["segments"]) == len(list(tmp_path.iterdir())) > 5
    assert max(p.stat().st_size for p in tmp_path.iterdir()) < 2500
    back = restored(tmp_path, manifest, capacity=100)
    assert same(back.sample(50), replay.sample(50))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_from_one_place_can_be_loaded_into_another(kind: str, tmp_path: Path) -> None:
    buffer, folder = tmp_path / "buffer", tmp_path / "frames"
    replay, world = make(frames=kind, folder=folder), World(2, 2, 3, 0)
    for _ in range(30):
        replay.add(world.step())
    manifest = saved(replay, buffer)
    for other in KINDS:
        back = restored(buffer, manifest, frames=other, folder=folder)
        back.generator.set_state(replay.generator.get_state())
        state = replay.generator.get_state()
        assert same(back.sample(20), replay.sample(20))
        replay.generator.set_state(state)


def test_damage_is_found(tmp_path: Path) -> None:
    replay, world = make(), World(2, 2, 3, 0)
    for _ in range(10):
        replay.add(world.step())
    manifest = saved(replay, tmp_path)
    path = tmp_path / manifest["segments"][0]["file"]
    good = path.read_bytes()
    path.write_bytes(good[:-5] + bytes([good[-5] ^ 1]) + good[-4:])
    with pytest.raises(DamagedError, match="checksum"):
        segments.verify(tmp_path, manifest)
    path.unlink()
    with pytest.raises(DamagedError, match="missing"):
        segments.verify(tmp_path, manifest)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"capacity": 40}, "capacity"),
        ({"slots": 1}, "slots"),
        ({"tasks": 1}, "tasks"),
        ({"stack": 4}, "frame_stack"),
        ({"image": (4, 4)}, "frame"),
        ({"horizon": 2}, "frames_per_slot"),
    ],
)
def test_another_shape_is_refused(changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    replay, world = make(), World(2, 2, 3, 0)
    replay.add(world.step())
    with pytest.raises(DamagedError, match=f"{key}="):
        segments.load(make(**changes), tmp_path, saved(replay, tmp_path))


def test_numbers_are_not_loaded_as_pictures(tmp_path: Path) -> None:
    replay, world = make(), World(2, 2, 3, 0)
    replay.add(world.step())
    numbers = Replay(2, 2, 24, obs_dim=3, action_dim=2, device=torch.device("cpu"), seed=0)
    with pytest.raises(DamagedError, match="frame"):
        segments.load(numbers, tmp_path, saved(replay, tmp_path))
    with pytest.raises(DamagedError, match="frame"):
        segments.load(replay, tmp_path, segments.save(numbers, tmp_path, None))
