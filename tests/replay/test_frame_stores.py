"""Every place for frames gives back what was written last, in any order and as often as asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from medley.replay.frame_stores import CompressedStore, DeviceStore, DiskStore, FrameStore, HostStore

CPU, SHAPE = torch.device("cpu"), (3, 9, 5)
STORES: dict[str, Callable[[Path], FrameStore]] = {
    "device": lambda folder: DeviceStore(20, SHAPE, CPU),
    "host": lambda folder: HostStore(20, SHAPE, CPU),
    "compressed": lambda folder: CompressedStore(20, SHAPE, CPU),
    "disk": lambda folder: DiskStore(20, SHAPE, CPU, folder),
}


@pytest.mark.parametrize("name", STORES)
def test_frames_come_back(name: str, tmp_path: Path) -> None:
    store, rng = STORES[name](tmp_path), np.random.default_rng(0)
    plain = np.zeros((20, *SHAPE), dtype=np.uint8)
    for _ in range(20):
        index = rng.integers(0, 20, (2, 3, 4))
        np.testing.assert_array_equal(store.gather(torch.from_numpy(index)).numpy(), plain[index])
        np.testing.assert_array_equal(store.read(index.reshape(-1)), plain[index.reshape(-1)])  # in any order
        places = rng.permutation(20)[:5]
        stacks = rng.integers(0, 256, (5, 6, *SHAPE[1:]), dtype=np.uint8)
        plain[places] = stacks[:, -3:]  # a view, as replay gives it
        store.write(places, stacks[:, -3:])
    assert store.read(np.zeros(0, dtype=np.int64)).shape == (0, *SHAPE)


def test_compression_counts_its_bytes_and_is_worth_it() -> None:
    store = CompressedStore(20, (3, 84, 84), CPU)
    slope = np.broadcast_to(np.arange(84, dtype=np.uint8)[:, None], (20, 3, 84, 84))
    for _ in range(2):  # what is overwritten does not count any more
        store.write(np.arange(20), slope)
        assert 0 < store.nbytes < slope.size / 10
