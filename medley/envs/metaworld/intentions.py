"""What else may be wanted in a Meta-World task: to reach its object, and to grasp it.

The package's own `near_object` and `grasp_success` mean something else in every task (a distance, a reward, always 1),
so both are judged here, by the observation alone. The object is `obs[4:7]`, in the newer of the two frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medley.envs.api import Array, Mask
from medley.errors import ConfigError, closest

NEAR = 0.03  # metres from the point between the finger tips to the object
LIFTED = 0.02  # metres above where the object lies
CLOSED = 0.5  # of the gripper's opening; closed on nothing it is 0.3
TIPS = np.array([0.0, 0.0, -0.045])  # from the hand, which points down, to the point between the finger tips


@dataclass(frozen=True)
class Thing:
    """The object of a task: the height at which it lies, if it can be lifted, and whether to grasp it at all."""

    rest: float | None = None
    grasp: bool = True


THINGS = {
    "drawer-open": Thing(),
    "drawer-close": Thing(grasp=False),  # its point is 5 cm above the handle
    "push": Thing(0.02),
    "pick-place": Thing(0.02),
    "bin-picking": Thing(0.03),
    "box-close": Thing(0.015),
}


def thing_of(task: str) -> Thing:
    if task not in THINGS:
        known = ", ".join(sorted(THINGS))
        raise ConfigError(f"metaworld-aux has no auxiliary tasks for {task!r}; it has for {known}.{_hint(task)}")
    return THINGS[task]


def _hint(task: str) -> str:
    hint = closest(task, THINGS)
    return hint if "Did you mean" in hint else ""


def to_object(obs: Array) -> Array:
    """How far the finger tips are from the object."""
    distance: Array = np.sqrt(np.square(obs[..., :3] + TIPS - obs[..., 4:7]).sum(-1))
    return distance


def reached(obs: Array) -> Mask:
    near: Mask = to_object(obs) <= NEAR
    return near


def grasped(obs: Array, thing: Thing) -> Mask:
    """At the object, and it is in the air; or, where it is fixed to something, the fingers are closed."""
    held = obs[..., 3] < CLOSED if thing.rest is None else obs[..., 6] > thing.rest + LIFTED
    held_near: Mask = reached(obs) & held
    return held_near


def distance_to_grasp(obs: Array, thing: Thing) -> Array:
    """What is left of the way, for rewards that report progress: to the object, then up or together."""
    if thing.rest is None:
        left = np.maximum(obs[..., 3] - CLOSED, 0.0) * 0.1  # in metres: an opening of 1 is 10 cm
    else:
        left = np.maximum(thing.rest + LIFTED - obs[..., 6], 0.0)
    total: Array = to_object(obs) + left
    return total


def act(obs: Array, grasp: Array, thing: Thing) -> Array:
    """A script for both, by the observation alone: over the object, down, and where a slot is to `grasp`, close and
    lift. It fails now and then, where an object lies against a wall."""
    apart = obs[:, 4:7] - obs[:, :3] - TIPS
    beside = np.sqrt(np.square(apart[:, :2]).sum(1)) > 0.02
    actions = np.zeros((len(obs), 4))
    actions[:, :3] = 10.0 * apart
    actions[beside, 2] += 1.0  # 10 cm above it
    actions[:, 3] = -1.0
    there = grasp & (np.sqrt(np.square(apart).sum(1)) < 0.02)
    actions[there, 3] = 1.0
    if thing.rest is not None:
        firm = there & (obs[:, 3] < 0.95) & (np.abs(obs[:, 3] - obs[:, 21]) < 0.005)  # the fingers have come to a stop
        actions[firm, 2] = np.where(obs[firm, 6] < thing.rest + 4 * LIFTED, 0.5, 0.0)
    return np.clip(actions, -1.0, 1.0).astype(np.float32)
