"""The simulator on its own: threads, forks, models, resets."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from medley.envs.metaworld import models
from medley.envs.metaworld.config import MetaworldConfig
from medley.envs.metaworld.env import MetaworldEnv
from medley.envs.metaworld.models import full_model, lean_model
from medley.envs.metaworld.simulator import Simulator
from medley.envs.metaworld.tasks import TASKS

SOME = ["pick-place", "door-lock", "button-press"]


def play(env: MetaworldEnv, steps: int) -> list[Any]:
    env.reset(seed=1)
    return play_on(env, steps)


def play_on(env: MetaworldEnv, steps: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [env.step(rng.uniform(-1, 1, (env.num_envs, 4)).astype(np.float32))[:4] for _ in range(steps)]


def same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))


def make(threads: int | None, **options: Any) -> MetaworldEnv:
    return MetaworldEnv(MetaworldConfig(tasks=SOME, horizon=20, threads=threads, **options), 3, seed=1)


def test_the_number_of_threads_changes_nothing() -> None:
    one = play(make(1), 45)
    for threads in (2, 5, None):
        assert same(one, play(make(threads), 45))
    assert make(99).simulator.pool.threads == 9  # never more than slots


def test_threads_leave_when_the_simulator_does() -> None:
    before = threading.active_count()
    env = make(4)
    play(env, 2)
    assert threading.active_count() == before + 3
    env.close()
    other = make(3)
    play(other, 2)
    del other
    gc.collect()
    for thread in [t for t in threading.enumerate() if t.name.startswith("medley-")]:
        thread.join(5)
    assert threading.active_count() <= before


def test_a_closed_env_can_be_stepped_again_and_none_can_be_copied() -> None:
    env = make(3)
    expected = play(env, 3)
    env.close()
    env.reset(seed=1)
    assert same(expected, play_on(env, 3))
    with pytest.raises(TypeError, match="set_state"):
        copy.deepcopy(env)
    with pytest.raises(TypeError, match="set_state"):
        pickle.dumps(env)


def _child(env: MetaworldEnv, queue: Any) -> None:
    queue.put([np.asarray(x) for x in play(env, 3)[-1]])


def test_a_fork_gets_threads_of_its_own() -> None:
    env = make(2)
    expected = play(env, 3)[-1]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(env, queue))
    child.start()
    got = queue.get(timeout=60)
    child.join(60)
    assert same([expected], [got])
    assert same([expected], [play(env, 3)[-1]])  # and the parent keeps its own


def test_python_runs_while_slots_are_stepped() -> None:
    """The interpreter lock is free: a busy Python thread gets on while resets of new goals (long calls) run."""
    env = make(1, goals="fresh")
    env.reset()
    counts, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    progress = []
    for episode in range(20):
        before = counts[0]
        env.reset(options={"episode": np.full(9, episode)})
        progress.append(counts[0] - before)
    stop.set()
    thread.join()
    assert np.median(progress) > 1000


@pytest.mark.parametrize("task", ["drawer-open", "assembly", "shelf-place"])
def test_lean_models_move_like_full_ones(task: str) -> None:
    """Bit for bit, in contact."""
    name = TASKS.tasks[task].model
    pair = [lean_model(name), full_model(name)]
    assert mujoco.mj_sizeModel(pair[0]) < mujoco.mj_sizeModel(pair[1]) / 4
    assert pair[0].ntex == pair[0].nmat == 0
    datas = [mujoco.MjData(model) for model in pair]
    rng, point, contacts = np.random.default_rng(0), np.array([0, 0.6, 0.2]), 0
    for step in range(200):
        move = rng.uniform(-1, 1, 4) - [0, 0, 0.3 if step < 100 else -0.1, 0]
        point = np.clip(point + move[:3] * 0.03, [-0.3, 0.4, 0.02], [0.3, 0.9, 0.4])
        for model, data in zip(pair, datas, strict=True):
            data.mocap_pos[0], data.mocap_quat[0], data.ctrl[:] = point, [1, 0, 1, 0], [move[3], -move[3]]
            mujoco.mj_step(model, data, 5)
        contacts += datas[0].ncon
        np.testing.assert_array_equal(datas[0].qpos, datas[1].qpos)
    assert contacts > 100


def test_cached_models_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = TASKS.tasks["reach"].model
    build = models.lean_model.__wrapped__
    fresh = build(name)
    (file,) = models.model_folder().iterdir()
    content = file.read_bytes()
    monkeypatch.setattr(models, "_lean", lambda _: pytest.fail("the cache was not used"))
    cached = build(name)
    np.testing.assert_array_equal(cached.body_inertia, fresh.body_inertia)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for damage in (content[:-7], content[:50_000] + b"x" + content[50_001:], b""):
        file.write_bytes(damage)
        np.testing.assert_array_equal(build(name).body_inertia, fresh.body_inertia)
        assert file.read_bytes() == content  # built again and kept
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    assert build(name).nq == fresh.nq  # nowhere to keep it


def test_a_goal_met_before_is_not_settled_again() -> None:
    """door-lock's hand comes to rest by the goal; what is kept gives the same start as the physics."""
    simulator = Simulator(["door-lock"], threads=1)
    goals = np.array([TASKS.tasks["door-lock"].reset_low, TASKS.tasks["door-lock"].reset_high])
    first = {}
    for turn in range(2):
        for number, goal in enumerate(goals):
            simulator.slots["goal"][0, :3] = goal
            simulator.reset(None, np.array([number]))
            state = simulator.state()
            if turn == 0:
                first[number] = state
            assert (simulator.slots["settled_here"][0] != 0) == (turn == 1)
            for key, value in state.items():
                np.testing.assert_array_equal(value, first[number][key], err_msg=key)
    assert not np.array_equal(first[0]["physics.0"], first[1]["physics.0"])


def test_unknown_references_are_refused() -> None:
    from medley.envs.metaworld.references import References

    model = lean_model(TASKS.tasks["reach"].model)
    references = References(model, mujoco.MjData(model))
    with pytest.raises(ValueError, match="unknown reference"):
        references.address("planet mars")
    with pytest.raises(KeyError, match="mars"):
        references.address("body mars")
