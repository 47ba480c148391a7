"""Examples of success, made by the simulator: nobody has to know how to get there.

Things are put where they are wanted and the hand about them, without touching; then time goes by. The fingers close
while a guiding force holds what would fall, the force goes away, and what is still fulfilled some steps later is an
example: a state that the physics has led to, at no moment one thing inside another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np

from medley.envs.adroit.hand import Hand
from medley.envs.adroit.scenes import PALM, Door, Hammer, Judged, Relocate
from medley.envs.api import Array
from medley.errors import MedleyError

MAIN, REACH, GRASP = range(3)
CLOSING, FREE = 30, 30  # control steps with help, and without: what is not held falls 40 cm meanwhile
PER_TRY, APART = 3, 3  # examples from one try, and the steps between them
PATIENCE = 40  # tries for each example, before giving up
_STIFFNESS, _DAMPING = np.repeat([150.0, 0.5], 3), np.repeat([8.0, 0.02], 3)  # of the guiding force: places, angles
_INSIDE = 0.003  # metres by which things may overlap when a try begins
# Joints of a fist that holds a ball and a handle alike, found by trying, and of an open hand.
_FINGERS = {f"{finger}J{i}": i for finger in ("FF", "MF", "RF", "LF") for i in range(3)}
_FIST = {j: (0.6, 0.9, 1.5)[i] for j, i in _FINGERS.items()} | {"THJ4": 0.4, "THJ3": 0.9, "THJ0": -1.1}
_OPEN = dict.fromkeys(_FINGERS, 0.15) | {"THJ4": 0.0, "THJ3": 0.0}
_IN_HAND = np.array([0.005, -0.015, -0.01])  # of a palm that looks down, from the thing that it holds best


class Plan(NamedTuple):
    """How one try begins."""

    palm: Array  # where the palm is to be
    away: dict[str, float]  # by how much joints of the arm begin elsewhere
    fist: float = 1.0  # how far the fingers close
    held: bool = False  # whether the thing would fall without help
    near: float = 0.07  # metres from palm to thing that are near enough at the end
    slack: float = 0.02  # metres by which the arm may miss its place
    wrist: bool = True  # whether the wrist bends for it


def make_examples(hand: Hand, intention: int, count: int, rng: np.random.Generator) -> Array:
    """Observations [count, dim] in which an intention is fulfilled."""
    found: list[Array] = []
    for _ in range(PATIENCE * (1 + count // PER_TRY)):
        if len(found) >= count:
            break
        found += _tried(hand, intention, rng)
    if len(found) < count:
        raise MedleyError(f"only {len(found)} of {count} examples of success could be made.")
    return np.array(found[:count])


def _tried(hand: Hand, intention: int, rng: np.random.Generator) -> list[Array]:
    hand.reset(rng)
    plan = _PLANS[type(hand.scene)](hand, intention, rng)
    arm = [j for j in hand.joints if j.startswith(("AR", "WR") if plan.wrist else "AR")]
    if _put_palm(hand, plan.palm, arm) > plan.slack:
        return []
    targets = {j: float(hand.data.joint(j).qpos[0]) for j in arm}
    for joint, shift in plan.away.items():
        low, high = hand.model.joint(joint).range
        hand.data.joint(joint).qpos[0] = np.clip(targets[joint] + shift, low, high)
    for joint, angle in _OPEN.items():
        hand.data.joint(joint).qpos[0] = angle
    fist = {joint: angle + rng.uniform(-0.1, 0.1) for joint, angle in _FIST.items()}
    held = hand.data.qpos[-6:].copy()
    mujoco.mj_forward(hand.model, hand.data)
    if min(hand.data.contact.dist, default=0.0) < -_INSIDE:
        return []
    found: list[Array] = []
    for t in range(CLOSING + FREE + PER_TRY * APART):
        closed = plan.fist * min(1.0, max(0.0, 2 * t / CLOSING - 0.5))
        fingers = {j: _OPEN.get(j, 0.0) * (1 - closed) + angle * closed for j, angle in fist.items()}
        hand.data.qfrc_applied[:] = 0.0
        if plan.held and t < CLOSING:
            pull = _STIFFNESS * (held - hand.data.qpos[-6:]) - _DAMPING * hand.data.qvel[-6:]
            hand.data.qfrc_applied[-6:] = pull + hand.data.qfrc_bias[-6:]
        if not hand.step(hand.holding(targets | fingers)):
            return []
        if t >= CLOSING + FREE and (t - CLOSING - FREE) % APART == 0 and _good(hand.scene.judge(), intention, plan):
            found.append(hand.scene.observe())
    return found


def _good(judged: Judged, intention: int, plan: Plan) -> bool:
    return bool(judged[1 + intention]) and judged.to_reach < plan.near


def _put_palm(hand: Hand, place: Array, arm: list[str]) -> float:
    """Joints of the arm for a place of the palm, by damped least squares; returns by how much it is missed."""
    model, data, site = hand.model, hand.data, hand.model.site(PALM).id
    dofs = np.array([model.joint(j).dofadr[0] for j in arm])
    low, high = model.jnt_range[[model.joint(j).id for j in arm]].T
    jacobian, far = np.zeros((3, model.nv)), np.inf
    for _ in range(30):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        error = place - data.site_xpos[site]
        far = float(np.linalg.norm(error))
        if far < 1e-4:
            break
        mujoco.mj_jacSite(model, data, jacobian, None, site)
        some = jacobian[:, dofs]
        step = some.T @ np.linalg.solve(some @ some.T + 1e-4 * np.eye(3), error)
        data.qpos[dofs] = np.clip(data.qpos[dofs] + step, low, high)
    return far


# ---- where things are put


def _door(hand: Hand, intention: int, rng: np.random.Generator) -> Plan:
    """Friction keeps hinge and latch where they are put."""
    if intention != REACH:
        hand.data.joint("latch").qpos[0] = rng.uniform(1.45, 1.75)
    if intention == MAIN:
        hand.data.joint("door_hinge").qpos[0] = rng.uniform(1.38, 1.54)
        hand.data.joint("ARRy").qpos[0] = -0.6  # round the edge of the open door
    mujoco.mj_kinematics(hand.model, hand.data)
    palm = hand.data.site("S_handle").xpos + rng.uniform(-0.02, 0.02, 3)
    near, slack = {MAIN: (0.2, 0.15), REACH: (0.045, 0.02), GRASP: (0.09, 0.02)}[intention]
    return Plan(palm, {"ARTz": -0.25}, rng.uniform(0.0, 0.8), near=near, slack=slack)


def _hammer(hand: Hand, intention: int, rng: np.random.Generator) -> Plan:
    data = hand.data
    if intention == REACH:
        data.joint("ARRx").qpos[0] = 0.2
        mujoco.mj_kinematics(hand.model, data)
        palm = data.body("Object").xpos + rng.uniform(-0.01, 0.01, 3)
        return Plan(palm, {"ARRx": -0.2}, rng.uniform(0.0, 1.0), near=0.035, slack=0.04, wrist=False)
    hammer = data.qpos[-6:]  # slides along x, z and -y of the world, and turns about x, z and -y
    if intention == GRASP:
        place = np.array([rng.uniform(-0.08, 0.08), -0.21, rng.uniform(0.08, 0.28)])
        hammer[4] = rng.uniform(-0.2, 0.2)
    else:
        data.joint("nail_dir").qpos[0] = rng.uniform(0.084, 0.09)
        hammer[4] = -rng.uniform(0.75, 1.1)
        mujoco.mj_kinematics(hand.model, data)
        to_head = data.site("tool").xpos - data.body("Object").xpos
        face = np.array([-to_head[1], to_head[0], 0.0])  # the head's other side
        place = data.site("S_target").xpos - to_head + 0.05 * face + rng.uniform(-0.01, 0.01, 3)
    mujoco.mj_kinematics(hand.model, data)
    shift = place - data.body("Object").xpos
    hammer[:3] += shift[0], shift[2], -shift[1]
    return Plan(place + _IN_HAND + rng.uniform(-0.005, 0.005, 3), {}, held=True, slack=0.03)


def _relocate(hand: Hand, intention: int, rng: np.random.Generator) -> Plan:
    data, scene = hand.data, hand.scene
    assert isinstance(scene, Relocate)
    for joint in ("ARRx", "ARRy", "ARRz"):
        data.joint(joint).qpos[0] = rng.uniform(-0.1, 0.1)
    if intention == REACH:
        palm = scene.ball + np.append(rng.uniform(-0.02, 0.02, 2), rng.uniform(0.0, 0.03))
        return Plan(palm, {"ARRx": -0.25}, rng.uniform(0.0, 0.5), near=0.045)
    if intention == GRASP:
        place = rng.uniform([-0.2, -0.2, 0.08], [0.2, 0.25, 0.35])
    else:
        place = scene.target + rng.uniform(-0.05, 0.05, 3)
    data.qpos[-6:-3] = place - scene.ball
    return Plan(place + _IN_HAND + rng.uniform(-0.01, 0.01, 3), {}, held=True)


_PLANS: dict[type, Callable[[Hand, int, np.random.Generator], Plan]] = {
    Door: _door,
    Hammer: _hammer,
    Relocate: _relocate,
}
