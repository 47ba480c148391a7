"""Meta-World as an env: names, goals, episodes, restarts, pictures. Its numbers are checked in test_parity.py."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import metaworld
import numpy as np
import pytest
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.policies import ENV_POLICY_MAP

from medley.envs.metaworld.config import MetaworldConfig, metaworld_tasks
from medley.envs.metaworld.env import INFO_FIELDS, MetaworldEnv
from medley.envs.metaworld.goals import GoalSpace, benchmark_goals
from medley.envs.metaworld.names import benchmark_tasks, resolve_task
from medley.envs.metaworld.tasks import TASKS
from medley.errors import ConfigError
from medley.reporting.video import prepare_gl

ALL_TASKS = [name.removesuffix("-v3") for name in ALL_V3_ENVIRONMENTS]
# One of each kind: free object, hinge, live views as target and start, physics in the reset, bodies moved.
SOME_TASKS = ["pick-place", "door-open", "basketball", "bin-picking", "door-lock", "peg-insert-side"]


def scripted(env: MetaworldEnv, obs: np.ndarray[Any, Any], noise: np.random.Generator) -> np.ndarray[Any, Any]:
    policies = [ENV_POLICY_MAP[f"{env.tasks[task]}-v3"]() for task in env.task_ids]
    chosen = np.stack([policy.get_action(row) for policy, row in zip(policies, obs, strict=True)])
    return np.clip(chosen + noise.normal(scale=0.1, size=chosen.shape), -1, 1).astype(np.float32)


# ---- names


def test_benchmarks() -> None:
    assert metaworld_tasks(MetaworldConfig())[:3] == ["reach", "push", "pick-place"]
    assert [len(benchmark_tasks(name)) for name in ("mt10", "mt25", "mt50")] == [10, 25, 50]
    assert metaworld_tasks(MetaworldConfig(benchmark="mt1", task="push-v2")) == ["push"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("reach", ("reach", None)),
        ("reach-v3", ("reach", "v3")),
        ("Reach-V2", ("reach", "v2")),
        ("door-v1", ("door-open", "v1")),
        ("ped-insert-side-v1", ("peg-insert-side", "v1")),
        ("sweep_into", ("sweep-into", None)),
    ],
)
def test_spellings(written: str, meant: tuple[str, str | None]) -> None:
    assert resolve_task(written) == meant


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tasks": ["raech"]}, "Did you mean 'reach'"),
        ({"benchmark": "mt12"}, "Did you mean 'mt1"),
        ({"benchmark": "mt1"}, "needs a task"),
        ({"benchmark": "custom"}, "needs a list"),
        ({"tasks": ["door-v1", "door-open"]}, "listed twice"),
        ({"reward_version": "v3"}, "v1 or v2"),
        ({"goals": "fixd"}, "Did you mean 'fixed'"),
        ({"camera": "corner9"}, "Did you mean 'corner"),
        ({"horizon": 0}, "at least 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        metaworld_tasks(MetaworldConfig(**options))


def test_v1_names_choose_the_v1_reward() -> None:
    env = MetaworldEnv(MetaworldConfig(tasks=["door-v1", "reach-v2"]))
    assert env.reward_versions == ("v1", "v2")
    assert MetaworldEnv(MetaworldConfig(tasks=["door-v1"], reward_version="v2")).reward_versions == ("v2",)


# ---- goals


def check_goals(tasks: list[str], benchmark: Any, seed: int) -> None:
    spaces = [GoalSpace.of(TASKS.tasks[task]) for task in tasks]
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    ours = benchmark_goals(tasks, spaces, seed)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    for task, goals in zip(tasks, ours, strict=True):
        drawn = [pickle.loads(t.data)["rand_vec"] for t in benchmark.train_tasks if t.env_name == f"{task}-v3"]
        np.testing.assert_array_equal(goals, np.stack(drawn), err_msg=task)


@pytest.mark.parametrize("task", ["sweep-into", "box-close", "reach"])
def test_goals_are_the_package_s(task: str) -> None:
    check_goals([task], metaworld.MT1(f"{task}-v3", seed=11), 11)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 42])
def test_goals_of_all_tasks_are_the_package_s(seed: int) -> None:
    check_goals(list(benchmark_tasks("mt50")), metaworld.MT50(seed=seed), seed)
    check_goals(list(benchmark_tasks("mt10")), metaworld.MT10(seed=seed), seed)


def test_which_goal_when() -> None:
    cfg = MetaworldConfig(tasks=["reach"], horizon=1)
    still = np.zeros((2, 4), dtype=np.float32)

    def goals(env: MetaworldEnv, episodes: int) -> list[list[int]]:
        env.reset()
        return [env.step(still)[-1]["goal"].tolist() for _ in range(episodes)]

    training, evaluation = MetaworldEnv(cfg, 2, seed=5), MetaworldEnv(cfg, 2, seed=5, evaluation=True)
    np.testing.assert_array_equal(training.task_goals[0], evaluation.task_goals[0])
    assert goals(evaluation, 26) == [[2 * i % 50, (2 * i + 1) % 50] for i in range(26)]
    picked = np.array(goals(training, 6))
    assert len(np.unique(picked)) > 6
    assert goals(MetaworldEnv(MetaworldConfig(tasks=["reach"], horizon=1, goals="single"), 2), 2) == [[0, 0]] * 2
    fresh = MetaworldEnv(MetaworldConfig(tasks=["reach"], horizon=1, goals="fresh"), 2)
    assert goals(fresh, 1) == [[-1, -1]]
    assert not np.array_equal(*fresh.simulator.slots["goal"])


def test_the_goal_seed_can_be_held() -> None:
    held = [MetaworldEnv(MetaworldConfig(tasks=["reach"], goal_seed=9), seed=seed).task_goals[0] for seed in (1, 2)]
    np.testing.assert_array_equal(*held)
    assert not np.array_equal(MetaworldEnv(MetaworldConfig(tasks=["reach"]), seed=1).task_goals[0], held[0])


# ---- steps


@pytest.mark.parametrize("horizon", [150, 510])
def test_any_horizon(horizon: int) -> None:
    env = MetaworldEnv(MetaworldConfig(tasks=["reach"], horizon=horizon))
    env.reset()
    still = np.zeros((1, 4), dtype=np.float32)
    ends = [env.step(still)[3][0] for _ in range(horizon)]
    assert ends == [False] * (horizon - 1) + [True]


def test_the_goal_can_be_hidden() -> None:
    open_, hidden = (
        MetaworldEnv(MetaworldConfig(tasks=["reach"], partially_observable=value)) for value in (False, True)
    )
    seen = [open_.reset()[0], open_.step(np.ones((1, 4), dtype=np.float32))[0]]
    unseen = [hidden.reset()[0], hidden.step(np.ones((1, 4), dtype=np.float32))[0]]
    for with_goal, without in zip(seen, unseen, strict=True):
        assert with_goal[0, -3:].any()
        assert not without[0, -3:].any()
        np.testing.assert_array_equal(with_goal[0, :-3], without[0, :-3])


def test_the_package_s_own_evaluation_runs_on_it() -> None:
    class Scripted:
        def eval_action(self, obs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return scripted(env, obs, np.random.default_rng(0))

        def reset(self, mask: np.ndarray[Any, Any]) -> None: ...

    from metaworld.evaluation import evaluation

    env = MetaworldEnv(MetaworldConfig(tasks=["reach", "drawer-close"], horizon=200), seed=1, evaluation=True)
    success, _, per_task, _ = evaluation(Scripted(), env, num_episodes=2)
    assert success == 1.0
    assert set(per_task) == {"reach-v3", "drawer-close-v3"}
    assert env.terminate_on_success is False


def test_unstable_physics_end_one_slot_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env, twin = (MetaworldEnv(MetaworldConfig(tasks=["reach", "push"]), 2, seed=1) for _ in range(2))
    env.reset()
    twin.reset()
    moves = np.random.default_rng(0).uniform(-1, 1, (3, 4, 4)).astype(np.float32)
    before = env.step(moves[0])[0]
    twin.step(moves[0])
    env.simulator.datas[1].qvel[:] = 1e12
    obs, reward, terminated, truncated, info = env.step(moves[1])
    expected = twin.step(moves[1])[0]
    assert truncated.tolist() == info["unstable"].tolist() == [False, True, False, False]
    assert not terminated.any()
    assert reward[1] == 0.0
    np.testing.assert_array_equal(info["final_obs"][1], before[1])
    np.testing.assert_array_equal(np.delete(obs, 1, axis=0), np.delete(expected, 1, axis=0))
    assert not env.step(moves[2])[-1]["unstable"].any()  # the next episode is sound
    assert np.isfinite(env.state()["dynamics.physics.1"]).all()
    assert env.instabilities.tolist() == [1, 0]
    assert not list(tmp_path.iterdir())  # MuJoCo would leave a log file


def test_nan_is_refused_and_infinity_is_a_full_move() -> None:
    env, twin = (MetaworldEnv(MetaworldConfig(tasks=["reach", "push"]), seed=1) for _ in range(2))
    env.reset()
    twin.reset()
    move = np.zeros((2, 4), dtype=np.float32)
    move[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"slot 1 \(push\).*NaN"):
        env.step(move)
    move[1] = [np.inf, -np.inf, 0, np.inf]  # nothing was lost
    obs = env.step(move)[0]
    move[1] = [1, -1, 0, 1]
    np.testing.assert_array_equal(obs, twin.step(move)[0])


# ---- restarts


def check_restart(tasks: list[str], reward: str, before: int, after: int, horizon: int) -> None:
    """Interrupt scripted (so: object-touching) episodes; a fresh env must go on exactly, resets included."""
    cfg = MetaworldConfig(tasks=tasks, reward_version=reward, horizon=horizon)
    env, other = MetaworldEnv(cfg, seed=1), MetaworldEnv(cfg, seed=2)
    noise = np.random.default_rng(0)
    obs, _ = env.reset()
    for _ in range(before):
        obs = env.step(scripted(env, obs, noise))[0]
    other.set_state(env.state())
    for step in range(after):
        action = scripted(env, obs, noise)
        expected, got = env.step(action), other.step(action)
        obs = expected[0]
        for left, right in zip(expected[:4], got[:4], strict=True):
            bad = [tasks[i] for i in np.flatnonzero(np.atleast_2d((left != right).T).any(axis=0))]
            assert not bad, f"step {step}: {bad}"
        for name in INFO_FIELDS:
            np.testing.assert_array_equal(expected[4][name], got[4][name])
    for key, value in env.state().items():
        np.testing.assert_array_equal(value, other.state()[key], err_msg=key)


@pytest.mark.parametrize(("reward", "before"), [("v2", 60), ("v1", 45), ("v2", 0)])
def test_restart(reward: str, before: int) -> None:
    check_restart(SOME_TASKS, reward, before, after=30, horizon=before + 20)


@pytest.mark.long
@pytest.mark.parametrize("reward", ["v1", "v2"])
@pytest.mark.parametrize("before", [0, 40, 110])
def test_restart_of_all_tasks(reward: str, before: int) -> None:
    for first in range(0, 50, 10):
        check_restart(ALL_TASKS[first : first + 10], reward, before, after=60, horizon=before + 40)


# ---- pictures


def test_pictures_of_slots() -> None:
    if prepare_gl() is None:
        pytest.skip("this machine cannot draw")
    env = MetaworldEnv(MetaworldConfig(tasks=["drawer-open"]), 2, seed=1)
    env.reset()
    left, right = env.render_slot(0, 64, 48), env.render_slot(1, 64, 48)
    assert left.shape == (48, 64, 3)
    assert not np.array_equal(left, right)  # the drawers stand in different places
    np.testing.assert_array_equal(left, env.render_slot(0, 64, 48))
    assert not np.array_equal(left, env.render_slot(0, 64, 48, camera="topview"))
    with pytest.raises(ConfigError, match="corner"):
        env.render_slot(0, camera="corner7")
    assert len(env.render()) == 2
    env.close()


def test_pictures_show_what_the_package_shows() -> None:
    if prepare_gl() is None:
        pytest.skip("this machine cannot draw")
    env = MetaworldEnv(MetaworldConfig(tasks=["drawer-open"], goals="order", camera="topview"), seed=3)
    task = metaworld.MT1("drawer-open-v3", seed=3).train_tasks[0]
    oracle = ALL_V3_ENVIRONMENTS["drawer-open-v3"](render_mode="rgb_array", camera_name="topview", width=64, height=48)
    oracle.set_task(task)
    env.reset()
    oracle.reset()
    for _ in range(20):
        move = np.array([0.5, 1, -1, 1], dtype=np.float32)
        env.step(move[None])
        oracle.step(move)
    # Gymnasium's renderer draws the goal site too, a few pixels.
    ours, theirs = env.render_slot(0, 64, 48).astype(int), oracle.render().astype(int)
    assert np.mean(np.abs(ours - theirs)) < 2
