"""What a replay of pictures takes up, measured from outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from medley.replay.frames import FrameReplay
from medley.replay.ring import Step

HORIZON, ACTIONS = 125, 6


def resident() -> int:
    """Bytes of this process that are in memory; what the system caches of files does not count."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


def fill(replay: FrameReplay, pictures: np.ndarray, transitions: int) -> None:
    slots, stack = replay.slots, replay.frame_stack
    none = np.zeros((1, slots), dtype=np.bool_)
    reward, action = np.zeros((1, slots), np.float32), np.zeros((1, slots, ACTIONS), np.float32)
    obs = np.zeros((1, slots, 3 * stack, *replay.shape[1:]), dtype=np.uint8)
    for t in range(-(-transitions // slots)):
        after = np.concatenate([obs[:, :, 3:], pictures[None, :slots] + np.uint8(t % 256)], axis=2)
        replay.add(Step(obs, action, reward, after, none, none | (t % HORIZON == HORIZON - 1)))
        obs = after
        if t % HORIZON == HORIZON - 1:
            obs = np.tile(after[:, :, -3:], (1, 1, stack, 1, 1))


def make(capacity: int, slots: int, size: int, kind: str, folder: Path) -> FrameReplay:
    shape = {"frame_channels": 3, "image": (size, size), "frame_stack": 3, "horizon": HORIZON, "action_dim": ACTIONS}
    return FrameReplay(1, slots, capacity, **shape, device=torch.device("cpu"), seed=0, frames=kind, folder=folder)  # type: ignore[arg-type]


@pytest.mark.long
def test_fifty_thousand_transitions_take_22_kb_each(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (10, 3, 84, 84), dtype=np.uint8)
    before = resident()
    replay = make(50_000, 10, 84, "memory", tmp_path)
    fill(replay, pictures, 51_000)
    replay.sample(128)
    assert replay.size == 50_000
    assert replay.nbytes <= 22_000 * 50_000
    assert 21_000 * 50_000 < resident() - before < 22_000 * 50_000 + 60e6  # and a batch


@pytest.mark.long
def test_a_million_transitions_on_disk_take_little_memory(tmp_path: Path) -> None:
    """At 84 x 84 the same structures beside a larger file: far below 4 GB."""
    pictures = np.random.default_rng(0).integers(0, 256, (100, 3, 12, 12), dtype=np.uint8)
    before = resident()
    replay = make(1_000_000, 100, 12, "disk", tmp_path)
    fill(replay, pictures, 1_010_000)
    for _ in range(20):
        replay.sample(256)
    assert replay.size == 1_000_000
    assert replay.nbytes <= (48 + 4 * ACTIONS) * 1_000_000
    assert resident() - before < replay.nbytes + 100e6
