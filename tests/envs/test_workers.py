"""Envs in worker processes: the same data as in one process, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from medley.envs.gym import GymEnv
from medley.envs.gym_ids import GymConfig, gym_tasks
from medley.envs.workers import Worker, WorkerSlots
from medley.errors import ConfigError, MedleyError
from tests.envs.odd_envs import Odd
from tests.envs.test_api import actions, play, same

ODD = "tests.envs.odd_envs:Odd-v0"
PAIR: list[Any] = ["Pendulum-v1", "MountainCarContinuous-v0"]
Make = Callable[..., GymEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[GymEnv] = []

    def make(ids: list[Any] = PAIR, workers: int = 2, horizon: int | None = None, **more: Any) -> GymEnv:
        made.append(GymEnv(ids, 2, horizon, seed=3, workers=workers, **more))
        made[-1].reset()
        return made[-1]

    yield make
    for env in made:
        env.close()


def pids(env: GymEnv) -> list[int]:
    assert isinstance(env.slots, WorkerSlots)
    return env.slots.processes()


def is_alive(pid: int) -> bool:
    """Not even as a zombie."""
    return Path(f"/proc/{pid}").exists()


def all_gone(processes: list[int], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while any(map(is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(is_alive, processes))


def test_the_number_of_workers_changes_nothing(make: Make) -> None:
    alone = make(workers=0, horizon=7)
    moves = actions(alone, 20)
    expected, state = play(alone, moves), alone.state()
    for workers in (1, 2, 3, 9):  # more than there are slots: one each
        env = make(workers=workers, horizon=7)
        assert len(pids(env)) == min(workers, 4)
        assert same(play(env, moves), expected)
        assert same(env.state(), state)
        assert not env.restarts.any()


def test_workers_that_are_killed_leave_no_trace_in_the_data(make: Make) -> None:
    alone, env = make(workers=0, horizon=7), make(workers=2, horizon=7)
    rng, kills = np.random.default_rng(0), 0
    for step, move in enumerate(actions(env, 40)):
        if step % 4 == 1:
            for pid in rng.permutation(pids(env))[: rng.integers(1, 3)]:  # one of them, or both at once
                os.kill(pid, signal.SIGKILL)
                kills += 1
        assert same(env.step(move), alone.step(move)), f"step {step}"
    assert env.restarts.sum() == kills > 10
    assert not env.lost_episodes.any()


@pytest.mark.parametrize("does", ["die", "hang"])
@pytest.mark.parametrize("at", [1, 5])
def test_a_worker_that_fails_within_a_step_is_restarted(make: Make, tmp_path: Path, does: str, at: int) -> None:
    """In the middle of its slots, of which the first have already taken the step."""
    alone = make([ODD, ODD], workers=0)
    odd = {"id": ODD, "does": does, "at": at, "marker": str(tmp_path / "done")}
    env = make([ODD, odd], workers=1, worker_timeout=1.0)
    moves = actions(env, 15)
    assert same(play(env, moves), play(alone, moves))
    assert env.restarts.tolist() == [0, 1]


def test_a_worker_that_is_killed_while_it_starts_is_started_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, env = make(workers=0), make(workers=2)
    moves = actions(env, 4)
    assert same(play(env, moves[:2]), play(alone, moves[:2]))
    os.kill(pids(env)[0], signal.SIGKILL)
    describe, calls = Worker.describe, []

    def killed_first(self: Worker) -> Any:
        calls.append(self)
        if len(calls) == 1:
            os.kill(self._process.pid, signal.SIGKILL)
        return describe(self)

    monkeypatch.setattr(Worker, "describe", killed_first)
    assert same(play(env, moves[2:]), play(alone, moves[2:]))
    assert len(calls) == 2
    assert env.restarts.sum() == 1


def test_an_interrupted_call_does_not_mix_up_answers(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, env = make(workers=0), make(workers=2)
    moves = actions(env, 4)
    assert same(play(env, moves[:2]), play(alone, moves[:2]))
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "answer", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.step(moves[2])
    assert same(play(env, moves[2:]), play(alone, moves[2:]))


def _interrupted(worker: Worker, deadline: float) -> None:
    raise KeyboardInterrupt


def test_a_worker_that_is_stopped_counts_as_hanging(make: Make) -> None:
    alone, env = make(workers=0), make(workers=2, worker_timeout=0.5)
    moves = actions(env, 6)
    first = pids(env)
    assert same(play(env, moves[:3]), play(alone, moves[:3]))
    os.kill(first[1], signal.SIGSTOP)
    assert same(play(env, moves[3:]), play(alone, moves[3:]))
    assert env.restarts.sum() == 1
    assert pids(env)[0] == first[0]
    assert all_gone(first[1:])


def test_a_worker_that_always_dies_ends_the_run_with_its_task(make: Make) -> None:
    env = make([ODD, {"id": ODD, "does": "die", "at": 2}])
    with pytest.raises(MedleyError, match=r"Odd-v0:die,2 \(slot [23]\).*3 times in a row \(.* signal 9\)"):
        play(env, actions(env, 2))


def test_an_error_in_an_env_names_the_task_and_shows_where(make: Make) -> None:
    env = make([ODD, {"id": ODD, "does": "raise", "at": 3}])
    play(env, actions(env, 2))
    with pytest.raises(MedleyError, match=r"(?s)Odd-v0:raise,3 \(slot [23]\).*odd_envs.py.*Error: so says the env"):
        env.step(actions(env, 1)[0])


def test_an_env_that_cannot_be_made_or_does_not_fit_is_refused(make: Make) -> None:
    with pytest.raises(MedleyError, match=r"(?s)could not be made.*unexpected keyword argument 'no'"):
        make([{"id": ODD, "no": 1}])
    with pytest.raises(ConfigError, match="only a flat, continuous Box"):
        make(["CartPole-v1"])


def test_an_episode_that_cannot_be_replayed_is_cut_off(make: Make) -> None:
    env = make([{"id": ODD, "does": "noise"}, ODD])
    alone = make([ODD, ODD], workers=0)
    moves = actions(env, 8)
    before, expected = play(env, moves[:4]), play(alone, moves)
    os.kill(pids(env)[0], signal.SIGKILL)  # slots 0 and 2, one of either task
    obs, reward, terminated, truncated, info = env.step(moves[4])
    assert truncated.tolist() == [True, False, False, False]
    assert not terminated.any()
    assert reward[0] == 0.0
    assert same(info["final_obs"][0], before[-1][0][0])
    assert (env.lost_episodes.tolist(), env.restarts.sum()) == ([1, 0], 1)
    for result, right in zip([(obs, reward), *play(env, moves[5:])], expected[4:], strict=True):
        assert same(result[0][2:], right[0][2:])
    assert env.lost_episodes.tolist() == [1, 0]


def test_a_state_fits_any_number_of_workers(make: Make) -> None:
    env = make(workers=2, horizon=7)
    moves = actions(env, 14)
    play(env, moves[:9])
    os.kill(pids(env)[1], signal.SIGKILL)
    state, expected = env.state(), play(env, moves[9:])
    for workers in (0, 1, 3):
        other = make(workers=workers, horizon=7)
        other.set_state(state)
        assert same(play(other, moves[9:]), expected)


def test_envs_of_this_very_program(make: Make) -> None:
    """Registered here and nowhere else, so that the worker cannot import it."""

    class Local(Odd):
        pass

    gymnasium.register("Local-v0", entry_point=Local)
    try:
        env, alone = make(["Local-v0"], workers=1), make([ODD], workers=0)
        moves = actions(env, 3)
        assert same(play(env, moves), play(alone, moves))
    finally:
        del gymnasium.registry["Local-v0"]


@pytest.mark.parametrize("workers", [0, 2])
def test_pictures(make: Make, workers: int) -> None:
    env = make([ODD, {"id": ODD, "does": "refuse"}], workers=workers)
    obs = env.step(actions(env, 1)[0])[0]
    picture = env.render_slot(1)
    assert picture.shape == (240, 320, 3)
    assert (picture == int(abs(obs[1, 0]) * 50) % 256).all()
    with pytest.raises(MedleyError, match="no paint"):
        env.render_slot(2)


def test_nothing_is_left_after_close(make: Make) -> None:
    env = make()
    processes, shared = pids(env), set(os.listdir("/dev/shm"))
    env.close()
    assert not any(map(is_alive, processes))
    dropped = GymEnv(PAIR, workers=2)
    processes = pids(dropped)
    del dropped
    assert not any(map(is_alive, processes))
    assert set(os.listdir("/dev/shm")) <= shared


PARENT = """
import sys
import numpy as np
from medley.envs.gym import GymEnv
env = GymEnv(["Pendulum-v1", {"id": "tests.envs.odd_envs:Odd-v0", "does": "hang", "at": int(sys.argv[1])}], workers=2)
env.reset()
print(*env.slots.processes(), flush=True)
while True:
    env.step(np.zeros((2, 2), dtype=np.float32))
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hangs", [False, True])
def test_workers_end_with_their_parent(signum: int, hangs: bool) -> None:
    command = [sys.executable, "-c", PARENT, "3" if hangs else "1000000"]
    parent = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        # What runs in the background of a shell is told to ignore Ctrl-C, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert parent.stdout is not None
    try:
        processes = [int(word) for word in parent.stdout.readline().split()]
        assert len(processes) == 2
        time.sleep(0.3)
        os.killpg(parent.pid, signum)  # as a terminal does it
        errors = parent.communicate(timeout=30)[1]
    finally:
        parent.kill()  # in case it did not end
    assert all_gone(processes)
    assert errors.count("Traceback") == (1 if signum == signal.SIGINT else 0)  # the parent's own alone


def test_arguments_of_one_task(make: Make) -> None:
    ids = ["Pendulum-v1", {"id": "Pendulum-v1", "g": 5.0}, {"id": "gymnasium:Pendulum-v1", "g": 5.0}]
    assert gym_tasks(GymConfig(ids=ids)) == ["Pendulum-v1", "Pendulum-v1:5.0", "Pendulum-v1:5.0#2"]
    env = make(ids[:2], workers=0)
    assert [slot.env.unwrapped.g for slot in env.slots._slots] == [10.0, 10.0, 5.0, 5.0]  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="neither a Gymnasium id"):
        gym_tasks(GymConfig(ids=[{"g": 5.0}]))
    with pytest.raises(ConfigError, match="Gymnasium does not know 'nowhere:Pendulum-v1'"):
        gym_tasks(GymConfig(ids=["nowhere:Pendulum-v1"]))


def test_the_metaworld_packages_own_envs(make: Make) -> None:
    """They ignore the seed of reset, and draw their goals from generators of their own and of NumPy."""
    ids = [{"id": "metaworld:Meta-World/MT1", "env_name": name} for name in ("reach-v3", "drawer-close-v3")]
    env, alone = make(ids, horizon=6), make(ids, workers=0, horizon=6)
    assert env.tasks == ("Meta-World/MT1:reach-v3", "Meta-World/MT1:drawer-close-v3")
    first, _ = env.reset(seed=3)
    assert same(alone.reset(seed=3)[0], first)
    for step, move in enumerate(actions(env, 10)):
        if step == 8:
            os.kill(pids(env)[0], signal.SIGKILL)
        result = env.step(move)
        assert same(result, alone.step(move)), f"step {step}"
    goals = result[0][:, -3:]
    assert not same(goals, first[:, -3:]), "the second episode has other goals"
    assert not same(goals[0], goals[1])
    assert env.restarts.sum() == 1
    assert not env.lost_episodes.any()
