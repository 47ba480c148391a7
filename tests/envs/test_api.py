"""What every env must do, whatever it simulates."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from medley.envs import EnvConfig, MultiTaskEnv, build, env_kind
from medley.envs.dmc.config import DMCConfig
from medley.envs.dmc.families import FamilyConfig
from medley.envs.gl import find_gl, how_to_draw
from medley.envs.gym_ids import GymConfig
from medley.envs.metaworld.aux_config import MetaworldAuxConfig
from medley.envs.metaworld.config import MetaworldConfig
from medley.envs.panda.config import PandaConfig
from medley.envs.point import PointConfig
from medley.envs.point_aux import PointAuxConfig
from medley.errors import ConfigError

HORIZON = 7
QUICK: dict[str, Any] = {"render_profile": "fast", "workers": 0}
CONFIGS: dict[str, EnvConfig] = {
    "point": PointConfig(num_tasks=3, horizon=HORIZON),
    "point-pictures": PointConfig(num_tasks=3, horizon=HORIZON, image_size=12),
    "metaworld": MetaworldConfig(tasks=["reach", "drawer-open"], horizon=HORIZON, goal_seed=0),
    "metaworld-fresh": MetaworldConfig(tasks=["push", "door-lock"], horizon=HORIZON, goals="fresh"),
    "metaworld-aux": MetaworldAuxConfig(task="push", horizon=HORIZON, goal_seed=0),
    "point-aux": PointAuxConfig(num_tasks=3, horizon=HORIZON),
    "gym": GymConfig(ids=["Pendulum-v1", "MountainCarContinuous-v0"], horizon=HORIZON),
    "dmc": DMCConfig(tasks=["cartpole-swingup", "point_mass-easy"], horizon=HORIZON, observation="states", workers=0),
    "pixels": DMCConfig(tasks=["finger-spin", "pendulum-swingup"], horizon=HORIZON, image_size=24, **QUICK),
    "family": FamilyConfig(attribute="walker-foot", members=[2, 9], horizon=HORIZON, observation="states", workers=2),
    "workers": GymConfig(ids=["Pendulum-v1", "MountainCarContinuous-v0"], horizon=HORIZON, workers=2),
}
if importlib.util.find_spec("gym_hil") is not None:
    CONFIGS["panda"] = PandaConfig(horizon=HORIZON)
Make = Callable[..., MultiTaskEnv]


# Families are dm_control's tasks with workers; what is their own is tested in dmc/.
@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long) if name == "family" else name for name in CONFIGS])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    if request.param == "pixels" and find_gl() is None:
        pytest.skip(how_to_draw())
    made = []

    def make(seed: int = 1, evaluation: bool = False, horizon: int = HORIZON) -> MultiTaskEnv:
        made.append(build(dataclasses.replace(CONFIGS[request.param], horizon=horizon), 2, seed, evaluation))
        return made[-1]

    yield make
    for env in made:
        env.close()


def actions(env: MultiTaskEnv, steps: int, seed: int = 0) -> np.ndarray[Any, Any]:
    shape = (steps, env.num_envs, *env.single_action_space.shape)
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def play(env: MultiTaskEnv, moves: np.ndarray[Any, Any]) -> list[Any]:
    return [env.step(move) for move in moves]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return bool(np.array_equal(left, right))


def test_shapes_and_order(make: Make) -> None:
    env = make()
    count = len(env.tasks) * 2
    assert env.num_envs == count
    assert list(env.task_ids) == [task for task in range(len(env.tasks)) for _ in range(2)]
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, _ = env.reset()
    assert env.observation_space.contains(obs)
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.observation_space.contains(obs)
    assert reward.shape == terminated.shape == truncated.shape == info["success"].shape == (count,)
    assert terminated.dtype == truncated.dtype == info["success"].dtype == np.bool_
    assert env.action_mask.shape == (len(env.tasks), env.single_action_space.shape[0])
    assert all(np.asarray(value).shape[0] == count for value in info.values())
    with pytest.raises(ValueError, match="shape"):
        env.step(env.action_space.sample()[:-1])


def test_tasks_are_known_without_building() -> None:
    for name, cfg in CONFIGS.items():
        if name == "pixels" and find_gl() is None:
            continue
        assert tuple(env_kind(cfg.builder).tasks(cfg)) == build(cfg, 1, 0).tasks


def test_wrong_number_of_tasks_is_refused() -> None:
    with pytest.raises(ConfigError, match="has 3 tasks"):
        build(PointConfig(num_tasks=3, num_envs=5), 1, 0)


def test_episode_end(make: Make) -> None:
    """Truncated at the horizon; the last observation is the old episode's, the returned one the next's."""
    env, twin = make(), make(horizon=HORIZON + 1)  # the same episode, not cut off yet
    env.reset()
    twin.reset()
    moves = actions(env, HORIZON)
    results, longer = play(env, moves), play(twin, moves)
    assert not any((terminated | truncated).any() for _, _, terminated, truncated, _ in results[:-1])
    obs, _, terminated, truncated, info = results[-1]
    assert truncated.all()
    assert not terminated.any()
    assert info["_final_obs"].all()
    np.testing.assert_array_equal(info["final_obs"], longer[-1][0])
    episode = info["final_info"]["episode"]
    np.testing.assert_array_equal(episode["l"], HORIZON)
    np.testing.assert_allclose(episode["r"], sum(reward for _, reward, *_ in results))
    np.testing.assert_array_equal(episode["s"], np.any([r[-1]["success"] for r in results], axis=0))
    fresh = make()
    second, _ = fresh.reset(options={"episode": np.ones(env.num_envs, dtype=int)})
    np.testing.assert_array_equal(obs, second)
    assert not np.array_equal(obs, info["final_obs"])


def test_idle_slots_stay_as_they_are(make: Make) -> None:
    env, twin = make(), make()
    first, _ = env.reset()
    twin.reset()
    moves = actions(env, 4)
    active = np.arange(env.num_envs) % 2 == 0
    for move in moves[:3]:
        obs, reward, _, _, _ = env.step(move, active=active)
        twin.step(move)
    np.testing.assert_array_equal(obs[~active], first[~active])
    assert not reward[~active].any()
    # The active slots did not notice, and the idle ones take their first step only now.
    last, expected = env.step(moves[3]), twin.step(moves[3])
    np.testing.assert_array_equal(last[0][active], expected[0][active])
    again = make()
    again.reset()
    np.testing.assert_array_equal(last[0][~active], again.step(moves[3])[0][~active])


def test_reset_of_some_slots(make: Make) -> None:
    env = make()
    first, _ = env.reset()
    obs = play(env, actions(env, 3))[-1][0]
    mask = np.arange(env.num_envs) % 2 == 1
    after, _ = env.reset(options={"reset_mask": mask, "episode": np.zeros(env.num_envs, dtype=int)})
    np.testing.assert_array_equal(after[mask], first[mask])
    np.testing.assert_array_equal(after[~mask], obs[~mask])


def test_one_seed_decides_everything(make: Make) -> None:
    env, twin, other = make(1), make(1), make(2)
    firsts = [made.reset()[0] for made in (env, twin, other)]
    np.random.seed(5)  # noqa: NPY002 - the global generator must not matter
    moves = actions(env, 2 * HORIZON + 1)
    results = play(env, moves)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.seed(6)  # noqa: NPY002
    assert same(results, play(twin, moves))
    assert same(firsts[0], firsts[1])
    assert not same(firsts[0], firsts[2])
    assert same(other.reset(seed=env.seed)[0], firsts[0])
    np.random.seed(5)  # noqa: NPY002
    assert same(before, np.random.get_state()[1])  # noqa: NPY002


def test_slots_differ_and_evaluation_has_its_own_stream(make: Make) -> None:
    env = make()
    first, _ = env.reset()
    assert not np.array_equal(first[0], first[1])
    evaluation, _ = make(1, evaluation=True).reset()
    assert not np.array_equal(first, evaluation)


@pytest.mark.parametrize("steps", [0, 3, HORIZON + 2])
def test_restart_is_exact(make: Make, steps: int) -> None:
    """A fresh env that is given the state goes on bit for bit, across the end of an episode too."""
    env = make(1)
    env.reset()
    moves = actions(env, steps + HORIZON + 3)
    if steps > 1:  # slots at different points of their episodes
        env.step(moves[0], active=np.arange(env.num_envs) == 0)
    play(env, moves[:steps])
    state = env.state()
    assert all(isinstance(value, np.ndarray) and value.dtype != object for value in state.values())
    saved = {key: value.copy() for key, value in state.items()}
    expected = play(env, moves[steps:])
    assert same(state, saved), "a state must not change after it was given"
    other = make(2)
    other.reset()
    play(other, moves[:2])
    other.set_state(saved)
    assert same(other.state(), saved)
    assert same(play(other, moves[steps:]), expected)
    assert same(other.state(), env.state())


def test_gymnasium_ids() -> None:
    env = gymnasium.make_vec("medley/Point", num_envs=6, num_tasks=3, seed=4)
    assert env.num_envs == 6
    env.reset()
    env = gymnasium.make_vec("medley/MT1", num_envs=2, task="reach-v1")
    obs, _ = env.reset(seed=3)
    assert obs.shape == (2, 39)
    assert env.unwrapped.reward_versions == ("v1",)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="multiple of the 3 tasks"):
        gymnasium.make_vec("medley/Point", num_envs=4)
