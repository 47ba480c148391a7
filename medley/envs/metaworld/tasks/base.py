"""What a task is: a model, where its goals lie, and four small functions over a slot. What they are made of is in
shared.py and rewards.py; examples/metaworld_task.py adds a task from outside this package.

    reset(s)        place objects for the goal vector `s.goal`, the hand having come to rest; set `s.target`
    objects(s)      write the objects' positions and quaternions, `s.obs[4:18]`
    evaluate_v1(s)  reward, success and the info fields of reward version 1
    evaluate_v2(s)  the same for version 2

They are ordinary Python functions of numbers and tuples, compiled by Numba when a simulator first needs them.
MuJoCo's memory is reached through references: `refs` names them, and task code calls them by index,

    HANDLE, DOOR = range(FIRST, FIRST + 2)
    REFS = ("geom handle", "model_body door")

A reference is one of: `body NAME`, `geom NAME`, `site NAME` (world position); `body_mat`, `geom_mat`, `site_mat`
(rotation matrix, nine numbers); `body_quat` (w, x, y, z); `joint NAME` (first of its positions), `joint_vel NAME`;
`model_body NAME`, `model_site NAME` (position in the model, which a reset may move; put back before every reset);
`geom_id NAME` (the number of a geom, for `touching`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import mujoco
import numpy as np

from medley.envs.metaworld.names import register_name
from medley.envs.metaworld.slot import MAX_GOAL, MAX_MOVED, MAX_REFS
from medley.errors import ConfigError
from medley.native.compiling import Compiler

compiler = Compiler(Path(__file__).parents[1], depends_on=mujoco.__version__)
_F = TypeVar("_F", bound=Callable[..., Any])

# The references every task has, in this order.
COMMON_REFS = (
    "body hand",
    "body leftclaw",
    "body rightclaw",
    "body leftpad",
    "body rightpad",
    "site leftEndEffector",
    "site rightEndEffector",
    "geom_id leftpad_geom",
    "geom_id rightpad_geom",
    "qpos",
    "qvel",
    "ctrl",
    "mocap_pos",
    "mocap_quat",
    "warnings",
    "contact_count",
    "contacts",
    "constraint_forces",
)
(
    HAND,
    LEFT_CLAW,
    RIGHT_CLAW,
    LEFT_PAD,
    RIGHT_PAD,
    LEFT_TIP,
    RIGHT_TIP,
    LEFT_PAD_GEOM,
    RIGHT_PAD_GEOM,
    QPOS,
    QVEL,
    CTRL,
    MOCAP_POS,
    MOCAP_QUAT,
    WARNINGS,
    CONTACT_COUNT,
    CONTACTS,
    CONSTRAINT_FORCES,
) = range(len(COMMON_REFS))
FIRST = len(COMMON_REFS)  # index of a task's first own reference

SlotFunction = Callable[[Any], None]


def compiled(function: _F) -> _F:
    """For helpers of task functions: compiled when first called; the package's own are kept on disk between runs."""
    made: _F = compiler(function)
    return made


def single_precision(*numbers: float) -> tuple[float, ...]:
    """Numbers that the package holds in single precision."""
    return tuple(float(np.float32(x)) for x in numbers)


Triple = tuple[float, float, float]
HAND_LOW, HAND_HIGH = (-0.5, 0.40, 0.05), (0.5, 1.0, 0.5)  # where the hand may go in most tasks


@dataclass(frozen=True)
class Task:
    """One task. For the fifty, the numbers are those of the package's env of that name."""

    name: str
    # An MJCF file among the package's assets, without folder and ending; or the path of one of your own, with `.xml`,
    # relative to the file that adds the task. It needs what COMMON_REFS name: the package's arm.
    model: str
    refs: tuple[str, ...]
    reset: SlotFunction
    objects: SlotFunction
    evaluate_v1: SlotFunction
    evaluate_v2: SlotFunction
    hand_init: Sequence[float]  # where the hand starts
    goal_low: Sequence[float]  # bounds of the goal in the observation
    goal_high: Sequence[float]
    reset_low: Sequence[float]  # bounds of the goal vector, which decides objects and target of an episode
    reset_high: Sequence[float]
    hand_low: Triple = HAND_LOW  # where the hand may go
    hand_high: Triple = HAND_HIGH
    # A draw is repeated while object and target are closer than this in the plane.
    min_distance: float = 0.0
    fixed_target: tuple[float, float] | None = None  # a target that does not move; None: the vector's second half
    # Where the hand comes to rest depends on the goal (it, or a joint, moves against something that was placed).
    settles_by_goal: bool = False


def _check(task: Task) -> None:
    """Refuse what a slot has no room for."""

    def demand(condition: bool, what: str) -> None:
        if not condition:
            raise ConfigError(f"the task {task.name!r} {what}")

    for name in ("hand_init", "hand_low", "hand_high", "goal_low", "goal_high"):
        demand(len(getattr(task, name)) == 3, f"needs three numbers as {name}")
    size = len(task.reset_low)
    demand(size == len(task.reset_high), "needs as many numbers in reset_low as in reset_high")
    demand(size <= MAX_GOAL, f"has a goal vector of {size} numbers; {MAX_GOAL} is the most")
    apart = task.min_distance > 0 and task.fixed_target is None
    demand(not apart or size >= 5, "has a min_distance, and no target in its goal vector (places 3 and 4)")
    refs = MAX_REFS - FIRST
    demand(len(task.refs) <= refs, f"has {len(task.refs)} references; {refs} is the most")
    moved = sum(ref.startswith("model_") for ref in task.refs)
    demand(moved <= MAX_MOVED, f"moves {moved} places of its model; {MAX_MOVED} is the most")
    demand(not task.model.endswith(".xml") or Path(task.model).is_file(), f"has no model at {task.model}")


@dataclass
class TaskRegistry:
    """Tasks by name."""

    tasks: dict[str, Task] = field(default_factory=dict)

    def add(self, task: Task) -> Task:
        """Make a task known: from now on `env.tasks=[its-name]` means it. For modules of any package."""
        if task.name in self.tasks:
            raise ConfigError(f"there is a Meta-World task {task.name!r} already; choose another name")
        if task.model.endswith(".xml"):
            caller = Path(sys._getframe(1).f_code.co_filename)
            task = replace(task, model=str(caller.resolve().parent / task.model))
        _check(task)
        register_name(task.name)
        self.tasks[task.name] = task
        return task


TASKS = TaskRegistry()
