"""Frames stored once give the stacks that the environment gave: against a replay that keeps whole stacks (B1-B8)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from medley.agents.api import Batch
from medley.errors import MedleyError
from medley.replay.frame_stores import KINDS
from medley.replay.frames import FrameReplay
from tests.replay.pictures import CHANNELS, Naive, World, assert_equal, everything, make, same


def pair(tasks: int, slots: int, capacity: int, stack: int, n: int, **changes: Any) -> tuple[FrameReplay, Naive]:
    replay = make(tasks, slots, capacity, stack, n_step=n, **changes)
    return replay, Naive(tasks, slots, stack, replay.places, replay.room, n, replay.full)


@settings(max_examples=40, deadline=None)
@given(
    stack=st.sampled_from([1, 3, 4]),
    n=st.sampled_from([1, 3]),
    tasks=st.integers(1, 3),
    slots=st.integers(1, 3),
    room=st.integers(2, 15),
    steps=st.integers(1, 60),
    idle=st.booleans(),
    mode=st.sampled_from(["shorter", "full"]),
    seed=st.integers(0, 2**31),
)
def test_all_that_can_be_drawn_equals_a_naive_replay(
    stack: int, n: int, tasks: int, slots: int, room: int, steps: int, idle: bool, mode: str, seed: int
) -> None:
    replay, naive = pair(tasks, slots, room * slots, stack, n, nstep_mode=mode)
    world, rng = World(tasks, slots, stack, seed), np.random.default_rng(seed)
    for t in range(steps):
        step = world.step(rng.random(tasks) < 0.6 if idle else None)
        replay.add(step)
        naive.add(step)
        if t % 7 == 6:  # among others in the middle of episodes, and at every place of the ring
            assert_equal(replay, naive)
    assert_equal(replay, naive)
    rows = [len(naive.lanes[task, slot]) for task in range(tasks) for slot in range(slots)]
    assert replay.counts.tolist() == np.reshape(rows, (tasks, slots)).sum(1).tolist()


@pytest.mark.parametrize("stack", [1, 3, 4])
@pytest.mark.parametrize("horizon", [1, 4, 7, 100])
def test_with_episodes_of_full_length_a_ring_is_as_large_as_promised(stack: int, horizon: int) -> None:
    replay = make(1, 1, 30, stack, horizon=horizon)
    world = World(1, 1, stack, 0, longest=1)
    for t in range(300):
        world.left[:] = 1 if t % horizon == horizon - 1 else 2
        replay.add(world.step())
        assert replay.size == min(t + 1, 30)


def test_every_transition_is_as_likely_as_any_other() -> None:
    """Lanes have different numbers of them, and so have episodes (B6)."""
    replay, naive = pair(2, 3, 60, 3, 3)
    world = World(2, 3, 3, 1)
    for t in range(37):
        step = world.step(np.array([True, t % 3 > 0]))
        replay.add(step)
        naive.add(step)
    for task in range(2):
        names = {row[1].tobytes(): i for i, row in enumerate(naive.samples(task))}
        drawn = replay.sample(1000 * len(names)).action[task].numpy()
        counts = np.bincount([names[a.tobytes()] for a in drawn], minlength=len(names))
        chi2 = float(((counts - 1000.0) ** 2 / 1000).sum())
        free = len(names) - 1
        assert chi2 < free + 4 * np.sqrt(2 * free)


def test_an_unfinished_episode_can_be_drawn_up_to_its_newest_transition() -> None:
    replay, naive = pair(1, 1, 20, 3, 3)
    world = World(1, 1, 3, 0)
    world.left[:] = 100
    for t in range(5):
        step = world.step()
        replay.add(step)
        naive.add(step)
        assert replay.size == t + 1
        assert_equal(replay, naive)
    assert everything(replay).discount[0].tolist() == pytest.approx([0.9**3] * 3 + [0.9**2, 0.9])


def test_full_mode_leaves_out_the_last_steps_of_episodes() -> None:
    replay = make(1, 1, 100, n_step=3, nstep_mode="full")
    world = World(1, 1, 3, 0)
    for length in (1, 2, 3, 5):
        world.left[:] = length
        for _ in range(length):
            replay.add(world.step())
    assert replay.size == 1 + 3
    assert make(n_step=1, nstep_mode="full").full is False  # nothing to leave out


def test_an_episode_that_replay_did_not_see_begin_brings_its_stack() -> None:
    world = World(2, 2, 3, 0)
    world.left[:] = 7
    for _ in range(4):
        world.step()
    for mode in ("shorter", "full"):
        replay = make(2, 2, n_step=3, nstep_mode=mode)
        step = world.step()
        replay.add(step)
        if mode == "shorter":
            batch = everything(replay)
            np.testing.assert_array_equal(batch.obs.numpy(), step.obs)
            np.testing.assert_array_equal(batch.next_obs.numpy(), step.next_obs)
        else:
            assert replay.size == 0


def test_a_task_without_transitions_gives_rows_all_the_same() -> None:
    replay = make(2, 2)
    world = World(2, 2, 3, 0)
    replay.add(world.step(np.array([True, False])))
    assert replay.sizes.tolist() == [[2.0], [0.0]]
    assert not replay.sample(5).obs[1].any()


@pytest.mark.parametrize("options", [{}, {"n_step": 3}, {"n_step": 3, "nstep_mode": "full"}, {"uniform": True}])
def test_a_trace_of_take_goes_on_with_what_is_added(options: dict[str, Any]) -> None:
    """All it reads are tensors that stay where they are: a graph captured once sees later frames too."""
    replay = make(**options)
    world = World(2, 2, 3, 0)
    for _ in range(5):
        replay.add(world.step())
    graph = make_fx(lambda *drawn: list(vars(replay.take(drawn)).values()), tracing_mode="real")(*replay.draw(6))
    for _ in range(30):
        replay.add(world.step())
        drawn = replay.draw(6)
        taken = vars(replay.take(drawn)).values()
        assert all(torch.equal(one, two) for one, two in zip(graph(*drawn), taken, strict=True))


def test_sampling_never_reads_a_value_back(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = make(n_step=3, uniform=True, nstep_mode="full")
    world = World(2, 2, 3, 0)
    for _ in range(9):
        replay.add(world.step())
    assert replay.traceable

    def refuse(self: torch.Tensor, *args: Any) -> Any:
        raise AssertionError("sample read a value back from the device")

    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__float__", "__int__", "__index__"):
            patch.setattr(torch.Tensor, name, refuse)
        replay.sample(5)


def test_all_places_for_frames_give_the_same_batches(tmp_path: Path) -> None:
    replays = {kind: make(frames=kind, n_step=3, folder=tmp_path) for kind in KINDS}
    assert {kind for kind, r in replays.items() if r.traceable} == {"memory", "host"}  # of a CPU, that is the same
    world = World(2, 2, 3, 0)
    for _ in range(40):
        step = world.step()
        for replay in replays.values():
            replay.add(step)
        batches = [replay.sample(9) for replay in replays.values()]
        assert all(same(batches[0], other) for other in batches[1:])
    assert list(tmp_path.iterdir()) == []  # the file has no name, so nothing can be left of it


def test_reads_and_writes_that_stop_half_way_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv, pwrite = os.preadv, os.pwrite
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: preadv(fd, [buffers[0][:7]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:5], at))
    one, two = make(), make(frames="disk", folder=tmp_path)
    world = World(2, 2, 3, 0)
    for _ in range(9):
        step = world.step()
        one.add(step)
        two.add(step)
    assert same(one.sample(20), two.sample(20))


def test_a_disk_that_is_too_small_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(MedleyError, match=r"GB cannot be made in .*"):
        make(capacity=10**9, frames="disk", folder=tmp_path, image=(640, 480))
    with pytest.raises(MedleyError, match="cannot be made"):
        make(frames="disk", folder=Path("/proc/no/such"))


def test_mean_reward() -> None:
    replay, naive = pair(2, 3, 21, 3, 1)
    world = World(2, 3, 3, 4)
    assert replay.mean_abs_reward().tolist() == [[0.0], [0.0]]
    for t in range(33):
        step = world.step(np.array([True, t % 2 > 0]))
        replay.add(step)
        naive.add(step)
        for task in range(2):
            rewards = [abs(float(row[2])) for row in naive.samples(task)]
            found = float(replay.mean_abs_reward()[task, 0])
            assert found == pytest.approx(np.mean(rewards) if rewards else 0.0, rel=1e-5)


# ---- on a GPU

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["shorter", "full"])
def test_a_gpu_gives_the_same_batches(kind: str, mode: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_step": 3, "nstep_mode": mode}
    there = make(frames=kind, folder=tmp_path, device=torch.device("cuda"), **options)
    here, world = make(**options), World(2, 2, 3, 0)
    assert there.traceable == (kind == "memory")
    for t in range(50):
        step = world.step(np.array([True, t % 3 > 0]))
        here.add(step)
        there.add(step)
        drawn = here.draw(9)
        batch = there.take([d.cuda() for d in drawn])
        assert batch.obs.is_cuda
        assert same(here.take(drawn), Batch(**{name: value.cpu() for name, value in vars(batch).items()}))


@gpu
def test_a_captured_sample_sees_what_is_added_later() -> None:
    replay, world = make(device=torch.device("cuda"), n_step=3), World(2, 2, 3, 0)
    for _ in range(5):
        replay.add(world.step())
    drawn = replay.draw(9)
    replay.take(drawn)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = replay.take(drawn)
    for _ in range(40):
        replay.add(world.step())
        drawn[0].copy_(replay.draw(9)[0])
        graph.replay()
        assert same(captured, replay.take(drawn))


# ---- room


def test_a_transition_takes_one_frame_and_little_more(tmp_path: Path) -> None:
    """22 kB at 84 x 84 (A7: 127 kB); beside the frame and the action at most 48 bytes."""
    size = {"tasks": 1, "slots": 2, "capacity": 2000, "frame_channels": 3, "image": (84, 84), "frame_stack": 3}
    rest = {"horizon": 125, "action_dim": 6, "device": torch.device("cpu"), "seed": 0, "n_step": 3}
    for mode in ("shorter", "full"):
        replay = FrameReplay(**size, **rest, nstep_mode=mode)  # type: ignore[arg-type]
        assert replay.nbytes / 2000 < 22_000
        assert (replay.nbytes - replay.store.nbytes) / 2000 <= 48 + 4 * 6
        on_disk = FrameReplay(**size, **rest, nstep_mode=mode, frames="disk", folder=tmp_path)  # type: ignore[arg-type]
        assert on_disk.nbytes <= (48 + 4 * 6) * 2000
    assert CHANNELS == 2  # (the other tests' pictures are smaller)
