"""HiP-BMDP's families: an edit changes what it names and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from medley.config.load import load_config
from medley.envs import build, gl
from medley.envs.dmc.families import ATTRIBUTES, FamilyConfig, Member, evaluation_sets, family_tasks
from medley.envs.dmc.suite import import_suite
from medley.errors import ConfigError

# What a change of shape changes beside the shape itself.
MASSES = {
    "body_mass",
    "body_subtreemass",
    "body_inertia",
    "body_ipos",
    "body_iquat",
    "body_invweight0",
    "dof_invweight0",
    "dof_M0",
    "actuator_acc0",
    "geom_rbound",
    "geom_aabb",
    "bvh_aabb",
    "tendon_invweight0",
    "cam_poscom0",
    "cam_pos0",
    "light_poscom0",
    "light_pos0",
    "body_sameframe",
    "geom_sameframe",
    "site_sameframe",
    "body_simple",
    "dof_simplenum",
}


def load(attribute: str, k: int, family: str | None = None, floor: str = "blue") -> Any:
    suite = import_suite(gl.prepare_gl())
    return Member(attribute, family or next(iter(ATTRIBUTES[attribute].families)), k, floor).load(suite)


def original(attribute: str) -> Any:
    kind = ATTRIBUTES[attribute]
    return import_suite(gl.prepare_gl()).load(kind.domain, kind.task)


def changed(env: Any, other: Any) -> set[str]:
    """Fields of the compiled models that differ."""
    left, right = env.physics.model, other.physics.model
    names = [name for name in dir(left.ptr) if isinstance(getattr(left.ptr, name), np.ndarray)]
    return {name for name in names if not np.array_equal(getattr(left.ptr, name), getattr(right.ptr, name))}


@pytest.mark.parametrize(
    ("attribute", "family", "k"),
    [
        ("finger-size", "reference", 0),
        ("finger-size", "scaled", 4),
        ("cheetah-torso", "reference", 0),
        ("walker-friction", "reference", 0),
        ("walker-foot", "reference", 2),
    ],
)
def test_one_member_is_the_suites_own(attribute: str, family: str, k: int) -> None:
    env, theirs = load(attribute, k, family), original(attribute)
    assert changed(env, theirs) == set()
    assert env._step_limit == theirs._step_limit
    assert env.control_timestep() == theirs.control_timestep()
    assert type(env.task) is type(theirs.task)


def test_finger_scaled_changes_the_last_link_and_its_sensors() -> None:
    env, theirs = load("finger-size", 9), original("finger-size")
    model, before = env.physics.named.model, theirs.physics.named.model
    assert changed(env, theirs) - MASSES == {"geom_size", "site_size"}
    for name in ("distal", "fingertip"):
        np.testing.assert_allclose(model.geom_size[name, 0], 1.5 * before.geom_size[name, 0])
        assert model.geom_size[name, 1] == before.geom_size[name, 1]
    for name in ("proximal", "cap1", "cap2"):
        np.testing.assert_array_equal(model.geom_size[name], before.geom_size[name])
    for name in ("touchtop", "touchbottom"):
        np.testing.assert_allclose(model.site_size[name], 1.5 * before.site_size[name])
    assert model.body_mass["distal"] > 2 * before.body_mass["distal"]
    assert model.body_mass["proximal"] == before.body_mass["proximal"]


def test_finger_reference_changes_two_invisible_sensors() -> None:
    env, theirs = load("finger-size", 9, "reference"), original("finger-size")
    assert changed(env, theirs) == {"site_size"}
    for name in ("touchtop", "touchbottom"):
        np.testing.assert_allclose(env.physics.named.model.site_size[name], [0.25, 0.03, 0.025])
    np.testing.assert_array_equal(env.physics.named.model.site_size["tip"], theirs.physics.named.model.site_size["tip"])


def test_cheetah_torso_redistributes_mass() -> None:
    env, theirs = load("cheetah-torso", 7), original("cheetah-torso")
    model, before = env.physics.named.model, theirs.physics.named.model
    assert changed(env, theirs) - MASSES == {"geom_size"}
    np.testing.assert_allclose(model.geom_size["torso", :2], [0.046, 1.2])
    assert (model.geom_size["head"] == before.geom_size["head"]).all()
    np.testing.assert_allclose(model.body_mass[:].sum(), 14)
    assert model.body_mass["torso"] > 1.3 * before.body_mass["torso"]
    assert model.body_mass["bthigh"] < before.body_mass["bthigh"]
    np.testing.assert_array_equal(model.body_pos["bthigh"], [-0.5, 0, 0])


def test_walker_friction_is_every_geoms() -> None:
    env, theirs = load("walker-friction", 9), original("walker-friction")
    assert changed(env, theirs) == {"geom_friction"}
    np.testing.assert_allclose(env.physics.model.geom_friction[:, 0], 1.6)
    np.testing.assert_array_equal(env.physics.model.geom_friction[:, 1:], theirs.physics.model.geom_friction[:, 1:])


def test_walker_foot_is_the_left_ones() -> None:
    env, theirs = load("walker-foot", 9), original("walker-foot")
    model, before = env.physics.named.model, theirs.physics.named.model
    assert changed(env, theirs) - MASSES == {"geom_size"}
    np.testing.assert_allclose(model.geom_size["left_foot", :2], [0.05, 0.17])
    np.testing.assert_array_equal(model.geom_size["right_foot"], before.geom_size["right_foot"])
    assert model.body_mass["left_foot"] > before.body_mass["left_foot"]
    assert model.body_mass["right_foot"] == before.body_mass["right_foot"]


def test_grey_floor() -> None:
    env, theirs = load("walker-foot", 2, floor="grey"), original("walker-foot")
    assert changed(env, theirs) == {"tex_data"}
    texels = env.physics.model.tex_data.reshape(-1, 3)
    start = int(env.physics.model.tex_adr[env.physics.model.name2id("grid", "texture")]) // 3
    floor = texels[start : start + 300 * 300]
    assert (floor == floor[:, :1]).all()
    assert set(np.unique(floor)) == {25, 51}


def played(family: str, observation: str, members: list[int], steps: int) -> tuple[bool, Any]:
    """The same start and the same strokes for all members: whether they observed the same, and what each was paid."""
    cfg = FamilyConfig(
        family=family, members=members, observation=observation, image_size=24, render_profile="fast", workers=0
    )
    env = build(cfg, 1, 1)
    env.episode_rng = lambda slot: np.random.default_rng(1)  # type: ignore[method-assign]
    obs, _ = env.reset()
    rng, alike, paid = np.random.default_rng(1), True, []
    for step in range(steps):
        if step % 8 == 0:
            stroke = np.sign(rng.uniform(-1, 1, 2)).astype(np.float32)
        alike &= bool((obs == obs[:1]).all())
        obs, reward, *_ = env.step(np.tile(stroke, (len(members), 1)))
        paid.append(reward)
    env.close()
    return alike, np.stack(paid)


def test_reference_fingers_pay_alike() -> None:
    """H1: the original family is one task ten times, but for what its sensors feel; the scaled one is not."""
    _, paid = played("reference", "states", list(range(10)), 150)
    assert paid.any()
    np.testing.assert_array_equal(paid, np.broadcast_to(paid[:, :1], paid.shape))
    _, paid = played("scaled", "states", [0, 4, 9], 150)
    assert (paid != paid[:, :1]).any()


def test_reference_fingers_look_alike() -> None:
    if gl.find_gl() is None:
        pytest.skip(gl.how_to_draw())
    assert played("reference", "pixels", list(range(10)), 12)[0]
    assert not played("scaled", "pixels", [4, 9], 12)[0]


def test_sets_and_names() -> None:
    cfg = load_config(["env=hipbmdp-finger-size"]).env
    assert isinstance(cfg, FamilyConfig)
    assert family_tasks(cfg) == ["finger-size-3", "finger-size-4", "finger-size-7", "finger-size-8"]
    sets = {name: own.members for name, own in evaluation_sets(cfg).items()}
    assert sets == {"interpolation": [5, 6], "extrapolation": [2, 9]}
    assert family_tasks(evaluation_sets(cfg)["extrapolation"]) == ["finger-size-2", "finger-size-9"]
    without = evaluation_sets(dataclasses.replace(cfg, members=[2, 5, 6]))  # what is trained on is not unseen
    assert {name: own.members for name, own in without.items()} == {"extrapolation": [9]}
    assert family_tasks(load_config(["env=dmcontrol-finger-spin-distribution-v0"]).env) == family_tasks(cfg)
    for attribute in ATTRIBUTES:
        config = load_config([f"env=hipbmdp-{attribute}", "env.members=[2,9]"])
        assert config.setup.setup == "hipbmdp"
        assert family_tasks(config.env) == [f"{attribute}-2", f"{attribute}-9"]
    for options, message in (
        ({"attribute": "finger-sise"}, "Did you mean 'finger-size'"),
        ({"family": "scalled"}, "Did you mean 'scaled'"),
        ({"attribute": "walker-foot", "family": "scaled"}, "does not exist for walker-foot"),
        ({"members": [3, 10]}, "0 to 9"),
        ({"members": [3, 3]}, "each once"),
        ({"members": []}, "0 to 9"),
        ({"floor": "gray"}, "Did you mean 'grey'"),
        ({"observation": "state"}, "Did you mean 'states'"),
    ):
        with pytest.raises(ConfigError, match=message):
            family_tasks(FamilyConfig(**options))
