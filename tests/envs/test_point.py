from __future__ import annotations

import time

import numpy as np
import pytest

from medley.envs.point import GOAL_DISTANCE, PointConfig, PointEnv, point_tasks
from medley.errors import ConfigError


def test_tasks_have_names_and_distinct_goals() -> None:
    names = point_tasks(PointConfig(num_tasks=16))
    assert names[:4] == ["east", "north", "west", "south"]
    assert len(set(names)) == 16
    env = PointEnv(16)
    gaps = np.linalg.norm(env._goals[:, None] - env._goals[None], axis=-1) + np.eye(16)
    assert gaps.min() > 0.25  # farther than two success radii: no place serves two tasks
    for count in (0, 17):
        with pytest.raises(ConfigError, match="between 1 and 16"):
            point_tasks(PointConfig(num_tasks=count))


def test_the_way_to_the_goal_is_rewarded() -> None:
    env = PointEnv(8, slots_per_task=2)
    obs, _ = env.reset()
    rewards = []
    for _ in range(20):
        towards = np.clip(4 * (env._goals - obs[:, :2]) - 0.5 * obs[:, 2:], -1, 1)
        obs, reward, _, _, info = env.step(towards.astype(np.float32))
        rewards.append(reward)
    assert info["success"].all()
    assert (rewards[-1] > rewards[0]).all()
    assert np.min(rewards) >= 0.0
    assert np.max(rewards) <= 1.0


def test_the_observation_does_not_reveal_the_task() -> None:
    """Two slots in the same place see the same, and want different things."""
    env = PointEnv(2)
    env.reset()
    env._position[:] = [0.1, 0.2]
    obs, reward, *_ = env.step(np.zeros((2, 2), dtype=np.float32))
    np.testing.assert_array_equal(obs[0], obs[1])
    assert reward[0] != reward[1]


def test_success_can_end_the_episode() -> None:
    env = PointEnv(1, terminate_on_success=True)
    env.reset()
    env._position[:] = [GOAL_DISTANCE, 0.0]
    _, _, terminated, truncated, info = env.step(np.zeros((1, 2), dtype=np.float32))
    assert terminated.all()
    assert not truncated.any()
    assert info["final_info"]["episode"]["s"].all()


def test_picture() -> None:
    env = PointEnv(2)
    env.reset()
    picture = env.render_slot(0, 64, 48)
    assert picture.shape == (48, 64, 3)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4


def test_pictures_show_point_and_goal() -> None:
    env = PointEnv(2, image_size=16, frame_stack=2)
    assert (env.frame_channels, env.single_observation_space.shape) == (3, (6, 16, 16))
    obs, _ = env.reset()
    assert obs.dtype == np.uint8
    np.testing.assert_array_equal(obs[:, :3], obs[:, 3:])  # the first picture twice
    env._position[:] = [[-0.5, 0.5], [0.5, -0.5]]
    second, *_ = env.step(np.zeros((2, 2), dtype=np.float32))
    np.testing.assert_array_equal(second[:, :3], obs[:, 3:])  # the oldest first
    for slot, (point, goal) in enumerate([((-0.5, 0.5), (0.7, 0)), ((0.5, -0.5), (0, 0.7))]):
        for channel, (x, y) in ((3, point), (4, goal), (5, point)):
            seen = second[slot, channel].astype(float)
            rows, columns = np.mgrid[0:16, 0:16]
            assert seen.max() == 255
            assert (columns * seen).sum() / seen.sum() == pytest.approx((x + 1) * 8 - 0.5, abs=0.3)
            assert (rows * seen).sum() / seen.sum() == pytest.approx((1 - y) * 8 - 0.5, abs=0.3)  # up is up
    for options in ({"image_size": 3}, {"image_size": 8, "frame_stack": 0}):
        with pytest.raises(ConfigError, match="at least"):
            point_tasks(PointConfig(**options))


def test_it_is_fast() -> None:
    env = PointEnv(3, slots_per_task=4)
    env.reset()
    action = np.zeros((12, 2), dtype=np.float32)
    begin = time.perf_counter()
    for _ in range(1000):
        env.step(action)
    assert 12_000 / (time.perf_counter() - begin) > 20_000  # slot steps per second, far below what it does
