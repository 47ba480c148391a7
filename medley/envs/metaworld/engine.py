"""The compiled loops: one step of one slot, one reset of one slot.

The order of MuJoCo's calls is the package's own, down to the `mj_forward` after a step, which also renews the
solver's warm start: without it trajectories drift once there is contact.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from medley.envs.metaworld.tasks.base import (
    CTRL,
    HAND,
    LEFT_CLAW,
    MOCAP_POS,
    MOCAP_QUAT,
    RIGHT_CLAW,
    WARNINGS,
    compiled,
)
from medley.envs.metaworld.tasks.shared import distance, load, load1, put, store, store1, tcp, vec
from medley.native.intrinsics import call1, call2, call4, load_int32, record_address

PHYSICS_STEPS = 5  # per step of the env
SETTLE_STEPS = 50  # steps of the env that a reset gives the hand to come to rest
ACTION_SCALE = np.float32(1.0 / 100)
HAND_LOW = (-0.525, 0.348, -0.0525)  # bounds of the hand in the observation
HAND_HIGH = (0.525, 1.025, 0.7)

INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_FIRST_BAD, _LAST_BAD = int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC)

STEP, RESET, PHYSICS = 0, 1, 2  # what a pool can do to slots


@compiled
def _clip(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


@compiled
def _hold_mocap(s: Any) -> None:
    store1(s, MOCAP_QUAT, 0, 1.0)
    store1(s, MOCAP_QUAT, 1, 0.0)
    store1(s, MOCAP_QUAT, 2, 1.0)
    store1(s, MOCAP_QUAT, 3, 0.0)


@compiled
def _apply_action(s: Any) -> None:
    """The action moves the point that the hand is tied to, and drives the fingers."""
    for i in range(3):
        move = min(max(s.action[i], np.float32(-1.0)), np.float32(1.0)) * ACTION_SCALE
        store1(s, MOCAP_POS, i, _clip(load1(s, MOCAP_POS, i) + move, s.mocap_low[i], s.mocap_high[i]))
    _hold_mocap(s)
    store1(s, CTRL, 0, s.action[3])
    store1(s, CTRL, 1, -s.action[3])


@compiled
def _broke_down(s: Any) -> bool:
    """MuJoCo puts a simulation that blew up back to its start and only counts a warning."""
    count = 0
    for kind in range(_FIRST_BAD, _LAST_BAD + 1):
        count += load_int32(s.refs[WARNINGS] + 8 * kind)
    return count != 0


@compiled
def _observe(s: Any) -> None:
    """Hand, gripper, objects; the same of the step before; the goal."""
    put(s.obs, load(s, HAND))
    s.obs[3] = _clip(distance(load(s, RIGHT_CLAW), load(s, LEFT_CLAW)) / 0.1, 0.0, 1.0)
    for i in range(4, 18):
        s.obs[i] = 0.0
    call1(s.objects, record_address(s))
    for i in range(18):
        s.obs[18 + i] = s.previous[i]
        s.previous[i] = s.obs[i]
    for i in range(3):
        s.obs[36 + i] = 0.0 if s.hide_goal else s.target[i]


@compiled
def _clip_observation(s: Any) -> None:
    for i in range(3):
        s.obs[i] = _clip(s.obs[i], HAND_LOW[i], HAND_HIGH[i])
        s.obs[18 + i] = _clip(s.obs[18 + i], HAND_LOW[i], HAND_HIGH[i])
        s.obs[36 + i] = _clip(s.obs[36 + i], s.goal_low[i], s.goal_high[i])


@compiled
def move_slot(s: Any) -> None:
    """The physics of one step of the env, and nothing else."""
    _apply_action(s)
    for _ in range(PHYSICS_STEPS):
        call2(s.mj_step, s.model, s.data)
    call2(s.mj_forward, s.model, s.data)


@compiled
def step_slot(s: Any) -> None:
    """One step of the env; `s.unstable` if the physics broke down."""
    move_slot(s)
    s.unstable = 0
    if _broke_down(s):
        _give_up(s)
        return
    _observe(s)
    _clip_observation(s)
    call1(s.evaluate, record_address(s))
    finite = math.isfinite(s.reward)
    for i in range(39):
        finite = finite and math.isfinite(s.obs[i])
    if not finite:
        _give_up(s)


@compiled
def _give_up(s: Any) -> None:
    s.unstable = 1
    s.reward = s.success = s.near_object = s.grasp_success = 0.0
    s.grasp_reward = s.in_place_reward = s.obj_to_target = s.unscaled_reward = 0.0


@compiled
def _place_objects(s: Any) -> None:
    put(s.init_tcp, tcp(s))
    call1(s.reset, record_address(s))


@compiled
def settle(s: Any) -> None:
    """From MuJoCo's initial state, draw the hand to its start with the gripper open, up to one physics step before
    it counts as being at rest."""
    call2(s.mj_reset_data, s.model, s.data)
    for _ in range(PHYSICS_STEPS * SETTLE_STEPS - 1):
        store(s, MOCAP_POS, vec(s.hand_init))
        _hold_mocap(s)
        store1(s, CTRL, 0, -1.0)
        store1(s, CTRL, 1, 1.0)
        call2(s.mj_step, s.model, s.data)


@compiled
def _restore_settled(s: Any, state: int) -> None:
    # The last physics step is done again: it leaves positions as the package's reset finds them, computed before
    # that step moved the joints.
    call4(s.mj_set_state, s.model, s.data, state, INTEGRATION)
    call2(s.mj_step, s.model, s.data)


@compiled
def reset_slot(s: Any) -> None:
    """Start the episode of goal vector `s.goal`. The package resets twice: what counts is that the second time the
    hand settles in a model that the first has moved."""
    call2(s.mj_reset_data, s.model, s.data)  # clears the warnings of an episode that broke down
    for i in range(s.moved_count):
        store(s, s.moved[i], vec(s.moved_base[i]))
    _restore_settled(s, s.settled)
    _place_objects(s)
    if s.settles_by_goal:
        if s.settled_here:
            _restore_settled(s, s.settled_here)
        else:
            settle(s)
            if s.keep_settled:
                call4(s.mj_get_state, s.model, s.data, s.keep_settled, INTEGRATION)
            call2(s.mj_step, s.model, s.data)
        _place_objects(s)
    s.unstable = 0
    _observe(s)
    for i in range(18):
        s.obs[18 + i] = s.obs[i]
