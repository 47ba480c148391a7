"""What tasks with a tool share: the hand holds a handle, and the tool's head has to get somewhere."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import Triple, compiled
from medley.envs.metaworld.tasks.rewards import cage, plus, rounded
from medley.envs.metaworld.tasks.shared import vec


@compiled
def cage_handle(s: Any, handle: Triple, half_length: float, average: int) -> tuple[float, bool]:
    """`cage` for a handle along x: any place of it is as good as the middle."""
    x = s.obs[0] if abs(handle[0] - s.obs[0]) < half_length else handle[0]
    return cage(s, (x, handle[1], handle[2]), vec(s.obj_init), radius=0.015, pad_reach=0.02, average=average)


@compiled
def tool_reward(grasp: float, single: bool, in_place: float, aligned: float) -> float:
    """The parts together; a tool that is turned over earns nothing."""
    return rounded(plus(2 * grasp, 6 * in_place, single) * rounded(aligned, single), single)
