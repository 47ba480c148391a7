"""The store of episodes: real ones, strided, of every slot; successes only once there was one."""

from __future__ import annotations

import numpy as np
import torch

from medley.agents.api import Spaces
from medley.agents.trajectories import TrajectoryStore
from medley.replay.ring import Step

TASKS, OBS, HORIZON, STRIDE = 2, 3, 7, 3


def make(slots: int = 1, window: int = 3) -> TrajectoryStore:
    return TrajectoryStore(Spaces(("a", "b"), OBS, 1, np.ones((TASKS, 1), bool), HORIZON, slots), window, STRIDE)


def show(
    store: TrajectoryStore, first: float, length: int = HORIZON, success: tuple[bool, ...] = (False, False)
) -> None:
    """An episode with states first, first + 1, ...; of task b 100 more."""
    slots = store.state()["elapsed"].shape[1]
    for k in range(length):
        obs = np.full((TASKS, slots, OBS), first + k, np.float32) + np.array([0, 100], np.float32)[:, None, None]
        obs += 1000 * np.arange(slots, dtype=np.float32)[None, :, None]
        ended = np.full((TASKS, slots), k == length - 1)
        won = np.repeat(np.array(success)[:, None], slots, 1) if k == length - 1 else None
        store.add(Step(obs, obs, obs[..., 0], obs, ended, ended, None, won))


def raw(store: TrajectoryStore) -> list[list[list[float]]]:
    """Per task and episode, in the order of writing: the first number of every state."""
    s = store.state()
    return [
        [s["states"][t, w, :n, 0].tolist() for w, n in enumerate(s["lengths"][t].tolist()) if n] for t in range(TASKS)
    ]


def test_every_third_state_from_the_first_on() -> None:
    store = make()
    show(store, 10)
    show(store, 20, length=4)
    show(store, 30, length=1)
    assert raw(store)[0] == [[10, 13, 16], [20, 23], [30]]
    assert raw(store)[1] == [[110, 113, 116], [120, 123], [130]]


def test_the_oldest_makes_room() -> None:
    store = make(window=2)
    for first in (10, 20, 30):
        show(store, first, 4)
    assert raw(store)[0] == [[30, 33], [20, 23]]
    recent = store.recent(1)
    assert recent.task.tolist() == [0, 1]
    assert recent.lengths.tolist() == [2, 2]


def test_after_the_first_success_only_successes() -> None:
    store = make()
    show(store, 10, 4)
    show(store, 20, 4, success=(True, False))
    show(store, 30, 4)
    show(store, 40, 4, success=(True, False))
    assert raw(store) == [[[20, 23], [40, 43]], [[140, 143], [120, 123], [130, 133]]]
    assert store.succeeded.tolist() == [True, False]


def test_episodes_of_all_slots() -> None:
    store = make(slots=2)
    show(store, 10, 4)
    assert raw(store)[0] == [[10, 13], [1010, 1013]]


def test_a_task_that_rests_is_left_as_it_is() -> None:
    store = make()
    noise = np.full((TASKS, 1, OBS), 999, np.float32)
    ended = np.ones((TASKS, 1), bool)
    only_b = np.array([False, True])
    store.add(Step(noise, noise, noise[..., 0], noise, ended, ended, only_b))
    show(store, 10)
    assert raw(store) == [[[10, 13, 16]], [[999], [110, 113, 116]]]


def test_an_episode_whose_last_step_was_dropped_is_not_kept() -> None:
    store = make()
    noise, ended = np.full((TASKS, 1, OBS), 999, np.float32), np.ones((TASKS, 1), bool)
    store.add(Step(noise, noise, noise[..., 0], noise, ~ended, ~ended))
    store.add(Step(noise, noise, noise[..., 0], noise, ~ended, ended, np.zeros(TASKS, bool)))
    show(store, 10)
    assert raw(store) == [[[10, 13, 16]], [[110, 113, 116]]]


def test_what_is_encoded_is_standardised_over_all_tasks_and_the_newest_comes_first() -> None:
    store = make()
    assert not store.is_full()
    assert len(store.recent(4).task) == 0
    for first in (10, 20, 50):
        show(store, first)
    assert store.is_full()
    known = torch.tensor([x for task in raw(store) for one in task for x in one])
    wanted = (torch.tensor([50.0, 53, 56]) - known.mean()) / known.std(correction=0)
    recent = store.recent(2)
    assert recent.task.tolist() == [0, 0, 1, 1]
    assert torch.allclose(recent.states[0, :, 0], wanted, atol=1e-5)
    features = store.features()
    own = (known[:9] - known.mean()) / known.std(correction=0)
    assert torch.allclose(features[0, 0], own.mean(), atol=1e-5)
    assert torch.allclose(features[0, OBS], own.std(correction=0), atol=1e-5)


def test_the_episodes_under_way_are_part_of_the_state() -> None:
    a, b = make(), make()
    for n, store in enumerate((a, b)):
        if n == 0:
            show(a, 10)
        for k in range(5):  # half an episode
            obs = np.full((TASKS, 1, OBS), k, np.float32)
            if store is a:
                a.add(Step(obs, obs, obs[..., 0], obs, np.zeros((TASKS, 1), bool), np.zeros((TASKS, 1), bool)))
    for name, value in b.state().items():
        value.copy_(a.state()[name])
    for store in (a, b):
        show(store, 5, length=2)
    assert raw(a) == raw(b)
    assert raw(a)[0][-1] == [0, 3, 6]
