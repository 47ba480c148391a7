"""dm_control's suite as an env: what it observes, counts, pays and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml

import medley.config
from medley.config.load import load_config
from medley.envs import MultiTaskEnv, build, env_kind
from medley.envs.dmc.config import DMCConfig, dmc_tasks
from medley.envs.dmc.env import DMCEnv
from medley.envs.dmc.names import SUITE, TASKS, TESTBED
from medley.envs.workers import WorkerSlots
from medley.errors import ConfigError, DamagedError
from medley.training.folder_name import default_path
from tests.envs.test_api import actions, play, same

Make = Callable[..., DMCEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[MultiTaskEnv] = []

    def make(*tasks: str, slots: int = 1, seed: int = 1, evaluation: bool = False, **options: Any) -> DMCEnv:
        given = {"observation": "states", "workers": 0, **options}
        env = build(DMCConfig(tasks=list(tasks), **given), slots, seed, evaluation)
        made.append(env)
        assert isinstance(env, DMCEnv)
        env.reset()
        return env

    yield make
    for env in made:
        env.close()


def test_every_task_of_the_suite_has_a_name_and_a_file() -> None:
    from dm_control import suite

    assert dict(SUITE) == {domain: tuple(tasks) for domain, tasks in suite.TASKS_BY_DOMAIN.items()}
    folder = Path(medley.config.__file__).parent / "env"
    for task in TASKS:
        assert yaml.safe_load((folder / f"dmc-{task}.yaml").read_text())["tasks"] == [task]
    config = load_config(["env=dmc-ball_in_cup-catch"])
    assert isinstance(config.env, DMCConfig)
    assert (config.env.folder, config.env.observation, config.setup.setup) == ("ball_in_cup_catch", "pixels", "dmc")
    assert default_path(config).parts[-4:-1] == ("runs", "ball_in_cup_catch", "state_sac")
    swept = load_config(["env=dmc-walker-walk", "env.action_repeat=4"])
    assert default_path(swept).parts[-3:-1] == ("walker_walk", "state_sac_action_repeat-4")
    assert load_config(["env=dmc-multi"]).env.tasks == ["walker-walk", "walker-run", "cheetah-run"]


def test_names() -> None:
    wanted = ["cup-catch", "walker_walk", "humanoid_CMU-run"]
    assert dmc_tasks(DMCConfig(tasks=wanted)) == ["ball_in_cup-catch", "walker-walk", "humanoid_CMU-run"]
    for options, message in (
        ({"tasks": ["walker-wlk"]}, "Did you mean 'walker-walk'"),
        ({"tasks": []}, "is empty"),
        ({"tasks": ["cup-catch", "ball_in_cup-catch"]}, "twice"),
        ({"observation": "pixel"}, "Did you mean 'pixels'"),
        ({"render_profile": "quick"}, "render_profile='quick' does not exist"),
        ({"action_repeat": 0}, "at least 1"),
        ({"frame_stack": 0}, "at least 1"),
        ({"workers": -1}, "at least 0"),
        ({"action_limit": 0.0}, "positive"),
    ):
        with pytest.raises(ConfigError, match=message):
            dmc_tasks(DMCConfig(**options))


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = "import sys, medley, medley.envs; print([m for m in sys.modules if m in ('dm_control', 'mujoco', 'torch')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("task", ["cheetah-run", "ball_in_cup-catch", "finger-turn_hard"])
def test_the_same_numbers_as_dm_control(make: Make, task: str) -> None:
    """The suite's own env, with the task's generator seeded alike, action repeat by hand."""
    from dm_control import suite

    env = make(task, action_repeat=3)
    theirs = suite.load(*task.split("-"), task_kwargs={"random": int(env._reset_seeds[0])})
    now = theirs.reset()
    flat = [np.concatenate([np.ravel(part) for part in now.observation.values()]).astype(np.float32)]
    moves = actions(env, 20)
    rewards = []
    for move in moves:
        total = 0.0
        for _ in range(3):
            now = theirs.step(move[0].astype(np.float64))
            total += now.reward
        rewards.append(total)
        flat.append(np.concatenate([np.ravel(part) for part in now.observation.values()]).astype(np.float32))
    np.testing.assert_array_equal(env._obs[0], flat[0])
    results = play(env, moves)
    np.testing.assert_array_equal([obs[0] for obs, *_ in results], flat[1:])
    np.testing.assert_array_equal([reward[0] for _, reward, *_ in results], rewards)
    assert env.single_observation_space.shape == flat[0].shape


def test_running_out_of_time_is_truncation_and_control_steps_are_counted(make: Make) -> None:
    """A repeat of 300 leaves 100 control steps for the fourth decision."""
    env = make("pendulum-swingup", slots=2, action_repeat=300)
    assert (env.action_repeat, env.horizon) == (300, 4)
    time = []
    for move in actions(env, 4):
        _, _, terminated, truncated, info = env.step(move)
        time.append(info.get("_final_obs", np.zeros(2))[0])
        assert not terminated.any()
    assert truncated.all()
    assert time == [0, 0, 0, 1]
    np.testing.assert_array_equal(info["final_info"]["episode"]["l"], 4)
    # Two slots: 3 decisions of a task are two in one slot and one in the other.
    assert [env.env_steps(step) for step in (0, 1, 2, 3, 7, 8, 9)] == [0, 300, 600, 900, 1900, 2000, 2300]
    assert make("cartpole-swingup").env_steps(125) == 1000
    assert make("cartpole-swingup", horizon=10).env_steps(25) == 200
    assert MultiTaskEnv.env_steps(env, 7) == 7


def test_repeats_of_the_benchmarks(make: Make) -> None:
    repeats = {"cartpole-swingup": 8, "reacher-easy": 4, "cheetah-run": 4, "finger-spin": 2, "ball_in_cup-catch": 4}
    repeats |= {"walker-walk": 2, "walker-run": 2, "hopper-hop": 2}
    assert {task: make(task).action_repeat for task in repeats} == repeats
    several = make("cartpole-swingup", "reacher-easy")
    assert (several.action_repeat, several.horizon) == (2, 500)


def test_a_true_end_is_a_termination(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """lqr alone has one: the state has come to rest, here because anything counts as rest."""
    from dm_control.suite import lqr

    env = make("lqr-lqr_2_1", action_limit=1.0, action_repeat=4)
    move = np.zeros((1, 1), np.float32)
    assert not env.step(move)[2].any()
    monkeypatch.setattr(lqr.LQRLevel, "_TERMINAL_TOL", 1e9)
    _, reward, terminated, truncated, _ = env.step(move)
    assert terminated.all()
    assert not truncated.any()
    assert reward[0] <= 1.0  # of the one control step that was taken


def test_actuators_without_limits_are_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"env\.action_limit=1"):
        make("lqr-lqr_2_1")
    low, high = make("lqr-lqr_2_1", action_limit=0.5, horizon=3).slots.descriptions[0].action.low, 0.5
    assert (low == -high).all()


def test_physics_that_break_down_cut_the_episode_off(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from dm_control.rl import control

    env = make("cartpole-swingup", "pendulum-swingup")
    moves = actions(env, 3)
    before = env.step(moves[0])[0]

    def fail(self: Any, action: Any) -> Any:
        raise control.PhysicsError("bad")

    with monkeypatch.context() as patch:
        patch.setattr(control.Environment, "step", fail)
        _, reward, terminated, truncated, info = env.step(moves[1])
    assert truncated.all()
    assert not terminated.any()
    assert not reward.any()
    np.testing.assert_array_equal(info["final_obs"], before)
    np.testing.assert_array_equal(env.instabilities, 1)
    assert not env.step(moves[2])[3].any()


def test_narrower_tasks_are_padded(make: Make) -> None:
    env = make("cheetah-run", "pendulum-swingup")
    assert env.single_observation_space.shape == (17,)
    obs = play(env, actions(env, 3))[-1][0]
    assert not obs[1, 3:].any()
    assert obs[0].all()
    np.testing.assert_array_equal(env.action_mask, [[True] * 6, [True] + [False] * 5])
    # What stands in the padding of an action changes nothing.
    twin = make("cheetah-run", "pendulum-swingup")
    moves = actions(env, 3)
    other = moves.copy()
    other[:, 1, 1:] = 0.0
    env.reset(seed=5)
    twin.reset(seed=5)
    assert same(play(env, moves), play(twin, other))


def test_a_replay_that_leads_elsewhere_is_noticed(make: Make) -> None:
    env, other = make("walker-walk"), make("walker-walk")
    play(env, actions(env, 3))
    state = env.state()
    other.set_state(state)
    for key in ("dynamics.actions", "dynamics.physics", "return"):
        wrong = {**state, key: state[key] + 1e-9}
        with pytest.raises(DamagedError, match="did not lead to where"):
            other.set_state(wrong)


def test_workers_change_nothing_even_when_they_die(make: Make) -> None:
    alone = make("reacher-easy", "finger-spin", slots=2, horizon=6)
    env = make("reacher-easy", "finger-spin", slots=2, horizon=6, workers=2)
    assert isinstance(env.slots, WorkerSlots)
    for step, move in enumerate(actions(env, 14)):
        if step in (3, 8):
            os.kill(env.slots.processes()[step % 2], signal.SIGKILL)
        assert same(env.step(move), alone.step(move))
    assert env.restarts.sum() == 2
    assert not env.lost_episodes.any()
    assert same(env.state(), alone.state())


def test_how_many_workers(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medley.envs.dmc.env.available_cores", lambda: 2)
    assert not isinstance(make("pendulum-swingup", workers=None).slots, WorkerSlots)
    many = make("pendulum-swingup", slots=3, workers=None).slots
    assert isinstance(many, WorkerSlots)
    assert len(many.processes()) == 2


def test_gymnasium_id(make: Make) -> None:
    env = gymnasium.make_vec("medley/DMC", tasks=["cup-catch"], num_envs=2, observation="states", workers=0, seed=1)
    assert isinstance(env, DMCEnv)
    twin = make("ball_in_cup-catch", slots=2)
    assert same(env.reset()[0], twin._obs)
    env.close()
    with pytest.raises(ConfigError, match="multiple of the 2 tasks"):
        gymnasium.make_vec("medley/DMC", tasks=["cup-catch", "walker-walk"], num_envs=3)


def test_any_thread_may_step(make: Make) -> None:
    env, twin = make("pendulum-swingup"), make("pendulum-swingup")
    moves = actions(env, 2)
    results = [env.step(moves[0])]
    thread = threading.Thread(target=lambda: results.append(env.step(moves[1])))
    thread.start()
    thread.join()
    assert same(results, play(twin, moves))


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_every_task_restarts_exactly(make: Make, task: str) -> None:
    """Also where an episode changes the model: one that has played before and one that has not agree."""
    limit = {"action_limit": 1.0} if task.startswith("lqr") else {}
    env, other = (make(task, horizon=4, seed=seed, **limit) for seed in (1, 2))
    moves = actions(env, 12)
    play(env, moves[:6])
    state = env.state()
    fresh = make(task, horizon=4, seed=1, **limit)
    play(other, moves[:5])
    expected = play(env, moves[6:])
    for restarted in (other, fresh):
        restarted.set_state(state)
        assert same(play(restarted, moves[6:]), expected)
    assert tuple(env_kind("dmc").tasks(DMCConfig(tasks=[task]))) == env.tasks
    assert len(TESTBED) == 10
