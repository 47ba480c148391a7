"""An arm as an env with one slot, so that everything in medley can use it; and in two halves, so that one can learn
between sending an action and seeing what came of it.

Whatever goes wrong with the arm, it holds its place and the episode is cut off, never ended truly: an agent must not
learn that a broken cable is the end of the world. A transition whose last observation missed its deadline is marked
as `dropped`.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np

from medley.envs.api import Array, MultiTaskEnv, StepResult
from medley.envs.panda.config import HORIZON, RATE, PandaConfig, panda_intentions
from medley.envs.panda.env import ReachScore, reach_space, start_of
from medley.robots.arm import Arm, ArmFault, Observation, Receipt
from medley.robots.clock import Clock
from medley.robots.delays import Delays

RESTARTS = 5  # of the controller, one after the other, before giving up
PAUSE = 1.0  # seconds before each of them


class RealTimeEnv(MultiTaskEnv):
    """`step(actions)` is `send(actions)` and then `receive()`."""

    control_hz = float(RATE)

    def __init__(self, cfg: PandaConfig, arm: Arm, seed: int = 0, pause: float = PAUSE) -> None:
        names = panda_intentions(cfg)
        space, actions = reach_space(cfg), gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        super().__init__(names[:1], 1, space, actions, cfg.horizon or HORIZON, seed, cfg.terminate_on_success)
        self.intentions = tuple(names)
        self.arm, self.clock, self.delays = arm, Clock(arm.dt), Delays()
        self.faults: list[str] = []  # since the last training line
        self._cfg, self._score, self._pause = cfg, ReachScore(cfg, 1), pause
        self._seen: Observation | None = None  # what the next action answers to
        self._first = True  # whether the next action is the first of an episode
        self._sent: tuple[Array, Receipt] | None = None

    def send(self, actions: Array) -> Receipt:
        """Send the action of a step that `receive` ends. Nothing else should stand between it and the observation."""
        assert self._seen is not None, "reset comes first"
        receipt = self.arm.send_action(np.asarray(actions)[0])
        if self._first:
            self.clock.start()
            self._first = False
        else:
            self.delays.host.append(receipt.t_send - self._seen.t_read)
            self.delays.age.append(receipt.t_send - self._seen.t_sample)
        self._sent = np.asarray(actions), receipt
        return receipt

    def receive(self) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Wait for the end of the step and look at the arm: what `step` returns."""
        assert self._sent is not None, "nothing was sent"
        return self.step(self._sent[0])

    def drain(self) -> dict[str, float]:
        row = self.delays.take().summary()
        if self.faults:
            row["faults"] = len(self.faults)
        self.faults = []
        return row

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        if self._sent is None:
            self.send(actions)
        assert self._sent is not None
        receipt, self._sent = self._sent[1], None
        try:
            if receipt.fault:
                raise ArmFault(receipt.fault)
            wait = self.clock.wait()
            self.delays.slept.append(max(wait.slept, 0.0))
            self.delays.late.append(wait.late)
            self.delays.overruns += wait.skipped
            if wait.skipped:
                raise ArmFault(f"{wait.skipped} steps were missed")
            self._seen = self.arm.read_observation(wait.deadline)
        except ArmFault as fault:
            return self._cut_off(slots, receipt, str(fault))
        position = self._seen.values[None]
        rewards, newest = self._score.observe(slots, position), self._score.differences(position)
        obs = np.concatenate([self._obs[:, newest.shape[1] :], newest], axis=1, dtype=np.float32)
        return self._result(obs, rewards, receipt, dropped=False)

    def _cut_off(self, slots: Array, receipt: Receipt, fault: str) -> StepResult:
        self.arm.hold()
        self.faults.append(fault)
        return self._result(self._obs, np.zeros((1, len(self.intentions))), receipt, dropped=True)

    def _result(self, obs: Array, rewards: Array, receipt: Receipt, dropped: bool) -> StepResult:
        successes = self._score.reached.copy()
        extra = {"rewards": rewards, "successes": successes, "target": receipt.applied[None]}
        extra["dropped"] = cut = np.array([dropped])
        return StepResult(obs, rewards[:, 0], np.zeros(1, dtype=np.bool_), successes[:, 0], extra, cut)

    def _reset_slots(self, slots: Array) -> Array:
        start = start_of(self._cfg, self.episode_rng(0))
        self._sent, self._first = None, True
        self._seen = self._bring_to(start)
        position = self._seen.values[None]
        self._score.begin(slots, position)
        return np.tile(self._score.differences(position), self._cfg.frame_stack).astype(np.float32)

    def _bring_to(self, start: Array) -> Observation:
        """Restarts a controller that stopped, a few times and never in silence."""
        for attempt in range(RESTARTS + 1):
            try:
                if fault := self.arm.health():
                    raise ArmFault(fault)
                return self.arm.reset(start)
            except ArmFault as e:
                fault = str(e)
            if attempt < RESTARTS:
                time.sleep(self._pause)
                self.restarts[0] += 1
                self.faults.append(fault)
                self.arm.restart()
        self.arm.hold()
        raise ArmFault(f"the arm was restarted {RESTARTS} times in vain: {fault}. Look at it, then `medley resume`.")

    def _dynamics_state(self) -> dict[str, Array]:
        return {}

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        """No arm can be put into the middle of an episode: the one that it was in begins again."""
        self._start(np.arange(1))

    def close_extras(self, **kwargs: Any) -> None:
        self.arm.close()
