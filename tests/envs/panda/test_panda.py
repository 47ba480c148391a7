"""The simulated arm: where it goes, what it says, and that it goes on exactly where it was."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medley.config.load import load_config
from medley.envs import build, env_kind
from medley.envs.gl import how_to_draw, prepare_gl
from medley.envs.panda.config import PandaConfig, observations_held, panda_intentions
from medley.errors import ConfigError

if importlib.util.find_spec("gym_hil") is None:
    pytest.skip("needs gym-hil", allow_module_level=True)

from medley.envs.panda import model
from medley.envs.panda.env import PandaReachEnv
from medley.envs.panda.simulated import SimulatedArm

MAIN, AUX = [0.33, -0.12, 0.35], [0.57, 0.12, 0.47]
TWO = {"main": MAIN, "aux": AUX}


def make(**options: Any) -> PandaReachEnv:
    slots, each = options.pop("slots", 1), options.pop("each", False)
    return PandaReachEnv(PandaConfig(**options), slots, seed=1, each=each)


def towards(env: PandaReachEnv, goal: int = 0) -> np.ndarray[Any, Any]:
    """What a policy that knows where to go does."""
    return env.expert_actions(env._obs, np.full(env.num_envs, goal))


def test_observations_and_stack() -> None:
    env = make(goals=TWO, randinit=False)
    assert env.single_observation_space.shape == (12,)
    obs, _ = env.reset()
    start = np.array([0.528, -0.1, 0.436])
    np.testing.assert_allclose(obs[0, :6], np.concatenate([start - MAIN, start - AUX]), atol=1e-6)
    np.testing.assert_array_equal(obs[0, :6], obs[0, 6:])
    second, *_ = env.step(np.ones((1, 3), dtype=np.float32))
    np.testing.assert_array_equal(second[0, :6], obs[0, 6:])  # the oldest first
    assert (second[0, 6:] != obs[0, 6:]).all()
    single = make()
    assert (single.single_observation_space.shape, single.intentions) == ((6,), ("main",))


def test_random_starts_differ_and_stay_where_they_belong() -> None:
    env = make(slots=8)
    env.reset()
    places = env._positions(np.arange(8))
    assert len(np.unique(places.round(6), axis=0)) == 8
    assert (places > [0.45 - 1e-6, -0.15 - 1e-6, 0.35 - 1e-6]).all()
    assert (places < [0.55 + 1e-6, -0.05 + 1e-6, 0.45 + 1e-6]).all()


def test_goal_is_reached_and_must_be_held() -> None:
    env = make(goals=TWO)
    env.reset()
    near, flags = 0, []
    for _ in range(49):
        _, _, terminated, _, info = env.step(towards(env))
        near = near + 1 if env._score.distance[0, 0] <= 0.02 else 0
        flags.append(bool(info["success"][0]))
        assert flags[-1] == (near >= 4 or any(flags[:-1]))
        assert not terminated.any()
    assert flags[-1]
    assert env._score.distance[0, 0] < 0.005
    for _ in range(20):  # latched within an episode, and forgotten in the next
        _, _, _, truncated, info = env.step(towards(env, 1))
        if truncated[0]:
            assert info["final_info"]["episode"]["s"][0]
            break
        assert info["success"][0]
    assert not env._score.reached.any()


def test_rewards_add_up_to_the_way_made() -> None:
    env = make(goals=TWO, slots=2, each=True)
    assert env.tasks == ("main", "aux")
    env.reset()
    before, total = env._score.distance.copy(), np.zeros((4, 2))
    for _ in range(10):
        _, reward, _, _, info = env.step(towards(env))
        np.testing.assert_array_equal(reward, info["rewards"][np.arange(4), [0, 0, 1, 1]])
        total += info["rewards"]
    np.testing.assert_allclose(total, before - env._score.distance, atol=1e-12)
    assert (total[:, 0] > 0.1).all()


@pytest.mark.parametrize(("hold", "count"), [(0.0, 1), (0.5, 4), (0.4, 4), (0.1, 2), (1.0, 7)])
def test_observations_that_span_a_hold(hold: float, count: int) -> None:
    assert observations_held(hold) == count
    assert count == 1 or (count - 1) * 0.2 > hold >= (count - 2) * 0.2


def test_it_never_leaves_the_box() -> None:
    env = make()
    env.reset()
    rng, push = np.random.default_rng(0), np.ones(3)
    low, high = np.array(env._cfg.box_low) - 0.005, np.array(env._cfg.box_high) + 0.005
    for i in range(300):
        push = rng.choice([-1.0, 0.0, 1.0], 3) if i % 7 == 0 else push
        *_, truncated, _ = env.step(push[None].astype(np.float32))
        assert truncated[0] == ((i + 1) % 50 == 0)  # and nothing is refused at its walls
        place = env._arms[0].position
        assert (place > low).all(), place
        assert (place < high).all(), place


def test_controller_is_the_impedance_it_claims_to_be() -> None:
    """Against the formula, evaluated in Python at every physics step with plain torque motors."""
    import mujoco

    arm = SimulatedArm(250.0)
    arm.place(np.array([0.45, 0.0, 0.4]))
    plain, site = arm.model.__copy__(), arm.model.site("pinch").id
    plain.body_gravcomp[:] = 0
    plain.actuator_gainprm[:] = plain.actuator_biasprm[:] = 0
    data = mujoco.MjData(plain)
    data.qpos[:] = arm.data.qpos
    mujoco.mj_forward(plain, data)
    jacobian, error, turn, now = np.zeros((6, 7)), np.zeros(6), np.zeros(4), np.zeros(4)
    target = arm.target.copy()
    for i in range(60):
        target = target + np.array([0.002, -0.001, 0.001]) * (1 if i < 30 else -1)
        arm.draw_to(target)
        for _ in range(5):
            mujoco.mj_step1(plain, data)
            mujoco.mj_jacSite(plain, data, jacobian[:3], jacobian[3:], site)
            error[:3] = target - data.site_xpos[site]
            mujoco.mju_mat2Quat(now, data.site_xmat[site])
            mujoco.mju_negQuat(now, now)
            mujoco.mju_mulQuat(turn, np.array(model.DOWN), now)
            mujoco.mju_quat2Vel(error[3:], turn, 1.0)
            pull = np.repeat([250.0, 15.0], 3) * error - np.repeat([37.0, 2.0], 3) * (jacobian @ data.qvel)
            data.qfrc_applied[:] = jacobian.T @ pull + data.qfrc_bias
            mujoco.mj_step2(plain, data)
        mujoco.mj_kinematics(plain, data)
        arm.settle()
        np.testing.assert_allclose(arm.position, data.site_xpos[site], atol=1e-4)  # metres
    assert np.linalg.norm(arm.position - target) < 0.05  # it followed


def test_stiffness_reaches_the_controller() -> None:
    soft, stiff = make(stiffness=125.0, randinit=False), make(randinit=False)
    for env in (soft, stiff):
        env.reset()
        for _ in range(3):
            env.step(np.array([[-1, 0, 0]], dtype=np.float32))
    assert stiff._arms[0].position[0] < soft._arms[0].position[0] - 0.005


def test_state_is_exact_in_the_middle_of_everything() -> None:
    one, other = make(goals=TWO, slots=2), make(goals=TWO, slots=2)
    one.reset()
    other.reset()
    rng = np.random.default_rng(3)
    for _ in range(33):
        one.step(towards(one))
    other.set_state(one.state())
    for _ in range(30):  # over the end of the episode
        action = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
        for a, b in zip(one.step(action)[:4], other.step(action)[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        for key, value in one.state().items():
            np.testing.assert_array_equal(value, other.state()[key], err_msg=key)


def test_examples_are_places_that_can_be() -> None:
    env = make(goals=TWO)
    for intention, goal in enumerate((MAIN, AUX)):
        examples = env.success_examples(intention, 500, np.random.default_rng(0))
        assert examples.shape == (500, 6)
        place = examples[:, :3] + MAIN
        np.testing.assert_allclose(place, examples[:, 3:] + AUX, atol=1e-6)  # one place, not two
        assert (np.linalg.norm(place - goal, axis=1) <= 0.02).all()
        assert place.std(0).min() > 0.003


def test_action_that_no_arm_may_have_holds_and_cuts_the_episode_off() -> None:
    env = make(slots=2)
    env.reset()
    before = env._arms[0].position
    moves = np.array([[np.nan, 0, 0], [1, 0, 0]], dtype=np.float32)
    _, _, terminated, truncated, info = env.step(moves)
    assert truncated.tolist() == [True, False]
    assert not terminated.any()
    ended = before - MAIN
    np.testing.assert_allclose(info["final_obs"][0, -3:], ended, atol=1e-3)


@pytest.mark.parametrize("goal", [0, 1])
def test_script_reaches_every_goal_from_everywhere(goal: int) -> None:
    env = make(goals=TWO, slots=12)
    env.reset(seed=goal)
    for _ in range(env.horizon - 1):
        info = env.step(towards(env, goal))[-1]
    assert env._score.reached[:, goal].all()
    assert info["successes"][:, goal].all(), "it stays there"
    assert not env._score.reached[:, 1 - goal].any()


def test_script_shows_how_to_do_it(tmp_path: Path) -> None:
    from medley.data.demos import demos
    from medley.data.examples import Recorded

    files = demos(["env=panda-reach-multitask", "examples=5", "demos=2", f"out={tmp_path / 'reach'}"])
    examples, shown = (Recorded.load(f, env="panda-reach-multitask") for f in files)
    assert [len(examples.of_task(name)) for name in ("main", "aux")] == [5, 5]
    assert len(np.unique(shown.episode_id)) == 4
    assert shown.about.success_rate == {"main": 1.0, "aux": 1.0}


def test_names_and_bad_options() -> None:
    config = load_config(["env=panda-reach-multitask"]).env
    assert isinstance(config, PandaConfig)
    kind = env_kind("panda")
    assert (kind.tasks(config), kind.intentions(config)) == (["main"], ["main", "aux"])
    assert kind.build_each is not None
    assert kind.build_each(config, 1, 0).tasks == ("main", "aux")
    assert build(load_config(["env=panda-reach"]).env, 1, 0).tasks == ("main",)
    for options, words in (
        ({"goals": {"main": [0.0, 0.0, 0.0]}}, "outside the box"),
        ({"goals": {}}, "no place"),
        ({"start": [0.4, 0.0]}, "three numbers"),
        ({"max_vel": 0.0}, "positive"),
        ({"frame_stack": 0}, "frame_stack"),
        ({"box_high": [0.44, 0.15, 0.475], "start": [0.4, 0.0, 0.4]}, "randinit"),
    ):
        with pytest.raises(ConfigError, match=words):
            panda_intentions(PandaConfig(**options))


def test_package_is_found_and_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from medley.envs.panda.config import PandaConfig; from medley.envs.panda.env import PandaReachEnv;"
        "PandaReachEnv(PandaConfig()).reset(); sys.exit('gym_hil' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install --no-deps gym-hil"):
        model.model_file()


def test_picture_shows_the_arm_and_its_goals() -> None:
    if prepare_gl() is None:
        pytest.skip(how_to_draw())
    env = make(goals=TWO)
    env.reset()
    picture = env.render_slot(0, 64, 48)
    env.step(np.ones((1, 3), dtype=np.float32))
    moved = env.render_slot(0, 64, 48)
    env.close()
    assert (picture.shape, picture.dtype) == ((48, 64, 3), np.uint8)
    assert (picture != moved).any()
