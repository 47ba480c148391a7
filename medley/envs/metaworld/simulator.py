"""Many slots of Meta-World tasks, stepped together in compiled code."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import mujoco
import numpy as np

from medley.envs.api import Array
from medley.envs.metaworld.engine import INTEGRATION, RESET, STEP, settle
from medley.envs.metaworld.models import lean_model
from medley.envs.metaworld.pool import Pool
from medley.envs.metaworld.references import References, function_address
from medley.envs.metaworld.slot import EPISODE, MAX_MOVED, SLOT, slot_type
from medley.envs.metaworld.tasks import TASKS
from medley.envs.metaworld.tasks.base import COMMON_REFS, SlotFunction, Task, compiler

_FUNCTIONS = {
    "mj_step": "mj_step",
    "mj_forward": "mj_forward",
    "mj_get_state": "mj_getState",
    "mj_set_state": "mj_setState",
    "mj_reset_data": "mj_resetData",
}


@cache
def native(function: SlotFunction) -> int:
    """The address of a task function, compiled for C callers (`void f(slot *)`)."""
    return compiler.c_function(function, slot_type)


class Simulator:
    """`len(tasks) * slots_per_task` slots, task-major. `slots` is the array of records (slot.py): write
    `slots["action"]`, call `step`, read `slots["obs"]`, `slots["reward"]` and the rest."""

    def __init__(
        self,
        tasks: Sequence[str],
        slots_per_task: int = 1,
        reward_versions: Sequence[str] | None = None,
        hide_goal: bool = False,
        threads: int | None = None,
    ) -> None:
        self.tasks = [TASKS.tasks[name] for name in tasks]
        self.slots_per_task = slots_per_task
        self.slots = np.zeros(len(self.tasks) * slots_per_task, SLOT)
        self.models: list[Any] = []
        self.datas: list[Any] = []
        self._settled: list[Array] = []
        self._settled_by_goal: dict[tuple[int, int, bytes], Array] = {}
        self._everyone = np.arange(len(self.slots))
        versions = reward_versions or ["v2"] * len(self.tasks)
        for index, (task, version) in enumerate(zip(self.tasks, versions, strict=True)):
            first = index * slots_per_task
            for slot in range(first, first + slots_per_task):
                self._build_slot(slot, task, version, hide_goal)
            size = mujoco.mj_stateSize(self.models[first], INTEGRATION)
            settle(self.slots[first])
            settled = np.empty(size)
            mujoco.mj_getState(self.models[first], self.datas[first], settled, INTEGRATION)
            self._settled.append(settled)
            self.slots["settled"][first : first + slots_per_task] = settled.ctypes.data
        self.pool = Pool(self.slots, threads)

    def _build_slot(self, slot: int, task: Task, version: str, hide_goal: bool) -> None:
        model = copy.copy(lean_model(task.model))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        self.models.append(model)
        self.datas.append(data)
        s = self.slots[slot]
        s["model"], s["data"] = model._address, data._address
        for field, name in _FUNCTIONS.items():
            s[field] = function_address(name)
        s["reset"], s["objects"] = native(task.reset), native(task.objects)
        s["evaluate"] = native(task.evaluate_v1 if version == "v1" else task.evaluate_v2)
        references = References(model, data)
        names = (*COMMON_REFS, *task.refs)
        s["refs"][: len(names)] = [references.address(name) for name in names]
        moved = [i for i, name in enumerate(names) if name.startswith("model_")]
        s["moved_count"] = len(moved)
        s["moved"][: len(moved)] = moved
        for row, ref in enumerate(moved):
            s["moved_base"][row] = self._moved(slot, ref)
        s["settles_by_goal"], s["hide_goal"] = task.settles_by_goal, hide_goal
        s["hand_init"], s["mocap_low"], s["mocap_high"] = task.hand_init, task.hand_low, task.hand_high
        hidden = np.zeros(3)
        s["goal_low"] = hidden if hide_goal else task.goal_low
        s["goal_high"] = hidden if hide_goal else task.goal_high

    def _moved(self, slot: int, ref: int) -> Array:
        """The place in the model that a reference names, as a live view."""
        address = int(self.slots[slot]["refs"][ref])
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_double)), (3,))

    def step(self, slots: Array | None = None) -> None:
        """One step of every slot, or of those given."""
        self.pool.run(STEP, self._everyone if slots is None else slots)

    def reset(self, slots: Array | None = None, known_as: Array | None = None) -> None:
        """Start the episodes of the goal vectors in `slots["goal"]`.

        `known_as` names the goals, one number per slot (-1: none). Where the hand comes to rest depends on the goal
        in some tasks; what was computed for a name is kept for the next time.
        """
        slots = self._everyone if slots is None else slots
        learnt = []
        for row, slot in enumerate(slots):
            if not self.slots["settles_by_goal"][slot]:
                continue
            name = -1 if known_as is None else int(known_as[row])
            key = (int(slot) // self.slots_per_task, name, self.slots["goal"][slot].tobytes())
            state = self._settled_by_goal.get(key)
            self.slots["settled_here"][slot] = 0 if state is None else state.ctypes.data
            self.slots["keep_settled"][slot] = 0
            if state is None and name >= 0:
                state = np.empty(mujoco.mj_stateSize(self.models[slot], INTEGRATION))
                self.slots["keep_settled"][slot] = state.ctypes.data
                learnt.append((key, state))
        self.pool.run(RESET, slots)
        self._settled_by_goal.update(learnt)

    # ---- restarts

    def state(self) -> dict[str, Array]:
        """Everything the future of the slots depends on."""
        out: dict[str, Array] = {f"episode.{name}": self.slots[name].copy() for name, *_ in EPISODE}
        moved = np.zeros((len(self.slots), MAX_MOVED, 3))
        for slot, ref, row in self._moved_places():
            moved[slot, row] = self._moved(slot, ref)
        out["moved"] = moved
        for slot, (model, data) in enumerate(zip(self.models, self.datas, strict=True)):
            physics = np.empty(mujoco.mj_stateSize(model, INTEGRATION))
            mujoco.mj_getState(model, data, physics, INTEGRATION)
            out[f"physics.{slot}"] = physics
        return out

    def set_state(self, state: dict[str, Array]) -> None:
        """Continue exactly as the simulator that gave `state` would have."""
        for name, *_ in EPISODE:
            self.slots[name] = state[f"episode.{name}"]
        for slot, ref, row in self._moved_places():
            self._moved(slot, ref)[:] = state["moved"][slot, row]
        for slot, (model, data) in enumerate(zip(self.models, self.datas, strict=True)):
            mujoco.mj_resetData(model, data)
            mujoco.mj_setState(model, data, state[f"physics.{slot}"], INTEGRATION)
            mujoco.mj_forward(model, data)  # positions, for those who look
            mujoco.mj_setState(model, data, state[f"physics.{slot}"], INTEGRATION)  # that moved the warm start

    def _moved_places(self) -> Iterator[tuple[int, int, int]]:
        for slot, record in enumerate(self.slots):
            for row in range(record["moved_count"]):
                yield slot, int(record["moved"][row]), row

    def close(self) -> None:
        self.pool.close()

    def __reduce__(self) -> Any:
        # The records hold addresses: a copy would step the original's physics.
        raise TypeError("a simulator cannot be copied or pickled; build another and use state() and set_state()")
