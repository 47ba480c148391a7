"""Pictures as observations, and what draws them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from medley.envs import MultiTaskEnv, build, gl
from medley.envs.dmc.config import DMCConfig
from medley.envs.dmc.env import DMCEnv, _open
from medley.envs.dmc.names import TESTBED
from medley.envs.dmc.slot import DMCRecipe
from medley.envs.workers import WorkerSlots
from medley.errors import ConfigError, MedleyError
from tests.envs.dmc.test_dmc import Make
from tests.envs.test_api import actions, play, same


@pytest.fixture
def make() -> Iterator[Make]:
    if gl.find_gl() is None:
        pytest.skip(gl.how_to_draw())
    made: list[MultiTaskEnv] = []

    def make(*tasks: str, slots: int = 1, seed: int = 1, **options: Any) -> DMCEnv:
        given = {"workers": 0, "image_size": 20, "render_profile": "fast", **options}
        env = build(DMCConfig(tasks=list(tasks), **given), slots, seed)
        made.append(env)
        assert isinstance(env, DMCEnv)
        return env

    yield make
    for env in made:
        env.close()


def test_frames_are_stacked_oldest_first(make: Make) -> None:
    env = make("finger-spin", frame_stack=3)
    assert env.single_observation_space.shape == (9, 20, 20)
    assert env.single_observation_space.dtype == np.uint8
    assert env.frame_channels == 3
    first, _ = env.reset()
    assert first[0, :3].std() > 0
    frames = [first[0, :3]] * 3
    np.testing.assert_array_equal(first[0], np.concatenate(frames))
    for obs, *_ in play(env, actions(env, 4)):
        frames = [*frames[1:], obs[0, 6:]]
        np.testing.assert_array_equal(obs[0], np.concatenate(frames))
        assert not np.array_equal(frames[-1], frames[-2])
    assert make("finger-spin", observation="states").frame_channels is None


@pytest.mark.parametrize("task", ["cheetah-run", "reacher-easy"])
def test_exact_is_dm_controls_own_picture(make: Make, task: str) -> None:
    """Bit for bit, after an action repeat, at the benchmark's size."""
    env = make(task, image_size=84, render_profile="exact", action_repeat=2)
    from dm_control import suite

    obs, _ = env.reset()
    theirs = suite.load(*task.split("-"), task_kwargs={"random": int(env._reset_seeds[0])})
    theirs.reset()
    for move in [None, *actions(env, 2)]:
        if move is not None:
            obs = env.step(move)[0]
            for _ in range(2):
                theirs.step(move[0])
        picture = theirs.physics.render(84, 84, camera_id=0)
        np.testing.assert_array_equal(obs[0, 6:], picture.transpose(2, 0, 1))
    theirs.physics.free()


def test_fast_is_close_to_exact(make: Make) -> None:
    envs = [make("walker-walk", "cup-catch", image_size=84, render_profile=profile) for profile in ("exact", "fast")]
    moves = actions(envs[0], 3)
    pictures = []
    for env in envs:
        env.reset()
        pictures.append(np.stack([obs for obs, *_ in play(env, moves)]).astype(int))
    difference = np.abs(pictures[0] - pictures[1]).mean()
    assert 0 < difference < 2


def test_restart_and_workers_give_the_same_pictures(make: Make) -> None:
    """A restart in the middle of an episode, from a process to another."""
    tasks, options = ("cartpole-swingup", "pendulum-swingup"), {"horizon": 6, "slots": 2}
    env, other = make(*tasks, **options), make(*tasks, workers=2, seed=9, **options)
    env.reset()
    other.reset()
    moves = actions(env, 11)
    play(env, moves[:4])
    play(other, moves[:2])
    state = env.state()
    other.set_state(state)
    assert same(play(other, moves[4:]), play(env, moves[4:]))
    assert same(other.state(), env.state())
    assert other.renderer == env.renderer != ""
    # A picture for a video brings back a worker that died meanwhile.
    assert isinstance(other.slots, WorkerSlots)
    os.kill(other.slots.processes()[1], signal.SIGKILL)
    np.testing.assert_array_equal(other.render_slot(1, 32, 24), env.render_slot(1, 32, 24))
    assert other.restarts.sum() == 1
    assert same(play(other, moves[:2]), play(env, moves[:2]))


def test_a_replay_draws_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("pendulum-swingup")
    env.reset()
    play(env, actions(env, 3))
    state = env.state()

    def draw(self: Any) -> Any:
        raise AssertionError("drawn")

    monkeypatch.setattr("medley.envs.dmc.rendering.Camera.take", draw)
    env.set_state(state)
    with pytest.raises(AssertionError, match="drawn"):
        env.step(actions(env, 1)[0])


def test_videos_and_threads(make: Make) -> None:
    """Pictures for videos have their own size, and any thread may ask for them; what is observed does not notice."""
    env, twin = make("cartpole-swingup"), make("cartpole-swingup")
    env.reset()
    twin.reset()
    pictures = [env.render_slot(0, 64, 48)]
    thread = threading.Thread(target=lambda: pictures.append(env.render_slot(0, 64, 48)))
    thread.start()
    thread.join()
    assert pictures[0].shape == (48, 64, 3)
    np.testing.assert_array_equal(*pictures)
    moves = actions(env, 2)
    assert same(play(env, moves), play(twin, moves))
    assert not np.array_equal(env.render_slot(0, 64, 48), pictures[0])
    states = make("cartpole-swingup", observation="states")
    states.reset()
    np.testing.assert_array_equal(states.render_slot(0, 64, 48), pictures[0])


def test_what_cannot_be_drawn(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cameras 0 to 1"):
        make("cartpole-swingup", camera=2)
    assert make("pendulum-swingup", image_size=700).single_observation_space.shape == (9, 700, 700)
    monkeypatch.setattr("medley.envs.dmc.env.prepare_gl", lambda: None)
    with pytest.raises(MedleyError, match="apt-get install libegl1"):
        make("cartpole-swingup")


@pytest.mark.parametrize("platform", ["", "glx"])
def test_dm_control_may_be_there_before(platform: str) -> None:
    """It then has chosen how to draw by itself; and a setting of another library may be in the way."""
    if gl.find_gl() is None:
        pytest.skip(gl.how_to_draw())
    code = """if not __import__("os").environ.get("PYOPENGL_PLATFORM"): import dm_control.suite
import gymnasium, medley
env = gymnasium.make_vec("medley/DMC", tasks=["pendulum-swingup"], image_size=16)
print(env.reset()[0].std() > 0)"""
    settings = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    settings |= {"PYOPENGL_PLATFORM": platform} if platform else {}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=100)
    assert done.stdout == "True\n", done.stderr


def test_states_need_nothing_that_draws() -> None:
    """Not even quadrupeds, whose terrain is sent to what draws."""
    code = """import gymnasium, medley
for observation in ("states", "pixels"):
    try:
        env = gymnasium.make_vec("medley/DMC", tasks=["quadruped-escape"], observation=observation)
        env.reset()
        print(env.step(env.action_space.sample())[0].shape)
        env.render()
    except medley.errors.MedleyError as error:
        print(error)"""
    settings = {**os.environ, "MUJOCO_GL": "disabled"}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=100)
    *before, last = done.stdout.splitlines()
    assert before == ["(1, 101)", gl.HOW_TO_GET_VIDEOS], done.stderr
    assert gl.PACKAGES in last
    assert "MUJOCO_GL=disabled is set" in last


def test_software_is_recognised() -> None:
    assert gl.is_software("llvmpipe (LLVM 15.0.6, 256 bits)")
    assert not gl.is_software("NVIDIA H200/PCIe/SSE2")
    assert gl.software_note("NVIDIA H200/PCIe/SSE2") is None
    assert "render_profile=fast" in (gl.software_note("llvmpipe") or "")
    assert "render_profile" not in (gl.software_note("llvmpipe", fast=True) or "render_profile")


@pytest.mark.long
@pytest.mark.parametrize("task", TESTBED)
def test_fast_is_close_to_exact_everywhere(make: Make, task: str) -> None:
    envs = [make(task, image_size=84, render_profile=profile) for profile in ("exact", "fast")]
    moves = actions(envs[0], 20)
    pictures = []
    for env in envs:
        env.reset()
        pictures.append(np.stack([obs[:, 6:] for obs, *_ in play(env, moves)]).astype(int))
    assert np.abs(pictures[0] - pictures[1]).mean() < 2


def test_osmesa_gets_a_process_for_every_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its contexts draw into one another within a process."""
    asked: list[int] = []
    monkeypatch.setattr("medley.envs.workers.WorkerSlots", lambda recipes, workers, timeout: asked.append(workers))
    recipe = DMCRecipe("cartpole-balance", "cartpole", "balance", True, 1, 20, 0, "fast", None, "osmesa")
    for slots, workers in ((3, 0), (3, 2), (4, None)):
        _open([recipe], slots, workers, 1.0)
    assert asked == [3, 3, 4]


def test_a_picture_that_does_not_fit_is_refused(make: Make) -> None:
    env = make("cartpole-balance")
    env.reset()
    assert env.render_slot(0, 640, 480).shape == (480, 640, 3)
    with pytest.raises(ConfigError, match="1280x720 does not fit: the model draws up to 640x480"):
        env.render_slot(0, 1280, 720)
