"""Step the simulator and the package side by side with the same actions, and measure how far apart they are.

`python -m tests.envs.metaworld.parity TASK...` prints a table for the tasks named (all if none).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from medley.envs.metaworld.engine import INTEGRATION
from medley.envs.metaworld.simulator import Simulator
from medley.envs.metaworld.tasks import TASKS
from tests.envs.metaworld.oracle import INFO, Array, Oracle, scripted_policy

TOLERANCE = 1e-9
GRIPS = (0.0, 0.05, 0.1, 0.5, 0.7, 0.8, 1.0, 1.2, -0.3)  # bounds of what counts as closing, among others
FINGERS_BELOW_HAND = np.array([0.0, 0.0, 0.045])


@dataclass
class Difference:
    """The largest distances seen, and the first step at which one was above the tolerance."""

    worst: dict[str, float] = field(default_factory=dict)
    first: str = ""
    successes: int = 0

    def note(self, where: str, name: str, ours: Any, theirs: Any) -> None:
        gap = float(np.max(np.abs(np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64))))
        self.worst[name] = max(self.worst.get(name, 0.0), gap)
        if not gap <= TOLERANCE and not self.first:
            self.first = (
                f"{where} {name}: ours {np.array2string(np.asarray(ours), max_line_width=200)}, theirs {theirs}"
            )

    @property
    def equal(self) -> bool:
        return not self.first


def goals_of(task: str, count: int, seed: int = 0) -> list[Array]:
    from medley.envs.metaworld.goals import GoalSpace

    rng = np.random.default_rng([seed, 7])
    space = GoalSpace.of(TASKS.tasks[task])
    return [space.draw(rng) for _ in range(count)]


def actions_for(kind: str, obs: Array, rng: np.random.Generator, policy: Any) -> Array:
    """`random`: anywhere, beyond the bounds too; `scripted`: the package's policy; `noisy`: a mixture; `chasing`: to
    the object, with odd grips."""
    if kind == "chasing":
        way = obs[4:7] - (obs[:3] - FINGERS_BELOW_HAND) + rng.normal(0, 0.01, 3)
        grip = rng.choice(GRIPS) if rng.random() < 0.5 else rng.uniform(-0.2, 1.1)
        return np.append(np.clip(10 * way, -1, 1), grip).astype(np.float32)
    if kind == "random" or (kind == "noisy" and rng.random() < 0.3):
        return rng.uniform(-1.2, 1.2, 4).astype(np.float32)
    return np.asarray(policy.get_action(obs), dtype=np.float32)


def copy_physics(env: Any, simulator: Simulator) -> None:
    """Put the only slot into the state of the package's env."""
    state = np.empty(mujoco.mj_stateSize(env.model, INTEGRATION))
    mujoco.mj_getState(env.model, env.data, state, INTEGRATION)
    mujoco.mj_setState(simulator.models[0], simulator.datas[0], state, INTEGRATION)


def compare(
    task: str,
    kinds: Sequence[str],
    versions: Sequence[str] = ("v1", "v2"),
    steps: int = 500,
    hide_goal: bool = False,
    seed: int = 0,
    disturb: Callable[[Any, np.random.Generator], None] | None = None,
) -> Difference:
    """Episodes one after another, one for each of `kinds`, in one package env and one slot per reward version.

    With two versions the package's env steps by the first and is then asked what the second would say. `disturb` may
    change the physics of the package's env before a step; the slots then go on from the same state.
    """
    rng = np.random.default_rng([seed, 1])
    difference = Difference()
    oracle = Oracle(task, versions[0], hide_goal)
    simulators = {version: Simulator([task], 1, [version], hide_goal, threads=1) for version in versions}
    policy = scripted_policy(task)
    for episode, (kind, goal) in enumerate(zip(kinds, goals_of(task, len(kinds), seed), strict=True)):
        obs = oracle.reset(goal)
        for simulator in simulators.values():
            simulator.slots["goal"][0, : len(goal)] = goal
            simulator.reset()
            difference.note(f"episode {episode} reset", "obs", simulator.slots["obs"][0], obs)
        succeeded = False
        for step in range(steps):
            if disturb is not None:
                disturb(oracle.env, rng)
                for simulator in simulators.values():
                    copy_physics(oracle.env, simulator)
            action = actions_for(kind, obs, rng, policy)
            obs, reward, info = oracle.step(action)
            succeeded |= bool(info["success"])
            for version, simulator in simulators.items():
                if version != versions[0]:
                    reward, info = oracle.evaluate(version, obs, action)
                slot = simulator.slots[0]
                slot["action"] = action
                simulator.step()
                where = f"episode {episode} ({kind}) step {step} {version}"
                difference.note(where, "obs", slot["obs"], obs)
                difference.note(where, "reward", slot["reward"], reward)
                for name in INFO:
                    difference.note(where, name, slot[name], info[name])
            if disturb is not None and any(simulator.slots["unstable"][0] for simulator in simulators.values()):
                break  # thrown too far; the package does not notice
        difference.successes += succeeded
    for simulator in simulators.values():
        simulator.close()
    return difference


def main(tasks: list[str]) -> int:
    bad = 0
    for task in tasks or sorted(TASKS.tasks):
        for versions in (("v1", "v2"), ("v1",), ("v2",)):
            d = compare(task, ["random", "scripted", "noisy", "scripted"], versions)
            worst = max(d.worst, key=lambda name: d.worst[name])
            print(
                f"{task:28s} {'+'.join(versions):6s} worst {worst} {d.worst[worst]:.1e} successes {d.successes}/4",
                "" if d.equal else f"  DIFFERS at {d.first}",
                flush=True,
            )
            bad += not d.equal
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
