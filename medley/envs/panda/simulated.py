"""One simulated arm: placed somewhere, then drawn to targets."""

from __future__ import annotations

import mujoco
import numpy as np

from medley.envs.api import Array
from medley.envs.panda.model import DOWN, HOME, PHYSICS_DT, TCP, physics_model

SUBTARGET_DT = 0.01  # a target moves on so often within a control step
_STEPS = round(SUBTARGET_DT / PHYSICS_DT)
_INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION
# The controller's frame is that of a tool pointing down; targets are in the world's.
_AXES = np.array([1.0, -1.0, -1.0])


class SimulatedArm:
    def __init__(self, stiffness: float) -> None:
        self.model = physics_model(stiffness)
        self.data = mujoco.MjData(self.model)
        self.target = np.zeros(3)
        self._tcp = self.model.site(TCP).id
        data = self.data  # views: looking them up anew for every 10 ms would take as long as the physics
        self._pull, self._applied = data.ctrl[:3], data.qfrc_applied
        self._bias, self._gravity, self._place = data.qfrc_bias, data.qfrc_gravcomp, data.site_xpos[self._tcp]

    @property
    def position(self) -> Array:
        return np.array(self._place)

    def place(self, position: Array) -> None:
        """At rest there, tool down, with nothing pulling anywhere else."""
        mujoco.mj_resetData(self.model, self.data)
        self._solve(np.asarray(position, dtype=np.float64))
        self.target = np.array(position, dtype=np.float64)
        self._pull[:] = _AXES * self.target
        mujoco.mj_forward(self.model, self.data)

    def draw_to(self, target: Array) -> None:
        """10 ms of physics with this target."""
        self.target = np.array(target, dtype=np.float64)
        np.multiply(_AXES, self.target, out=self._pull)
        # What is left of the bias without gravity, which the joints make up for: Coriolis and centrifugal forces. They
        # change so slowly that renewing them every 10 ms is within 0.02 mm of renewing them every 2 ms.
        np.subtract(self._bias, self._gravity, out=self._applied)
        mujoco.mj_step(self.model, self.data, _STEPS)

    def settle(self) -> None:
        """Bring what follows from positions and velocities up to date after the last `draw_to`."""
        mujoco.mj_forward(self.model, self.data)

    def state(self) -> Array:
        state = np.empty(mujoco.mj_stateSize(self.model, _INTEGRATION))
        mujoco.mj_getState(self.model, self.data, state, _INTEGRATION)
        return np.concatenate([state, self.target])

    def set_state(self, state: Array) -> None:
        physics, self.target = np.ascontiguousarray(state[:-3], dtype=np.float64), np.array(state[-3:])
        mujoco.mj_setState(self.model, self.data, physics, _INTEGRATION)
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_setState(self.model, self.data, physics, _INTEGRATION)  # `mj_forward` renews the solver's warm start

    def _solve(self, position: Array) -> None:
        """Joints for a place, by damped least squares from one and the same pose: equal places, equal joints."""
        model, data, jacobian, error = self.model, self.data, np.zeros((6, len(HOME))), np.zeros(6)
        data.qpos[:] = HOME
        quaternion, turn = np.zeros(4), np.zeros(4)
        for _ in range(100):
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            error[:3] = position - data.site_xpos[self._tcp]
            mujoco.mju_mat2Quat(quaternion, data.site_xmat[self._tcp])
            mujoco.mju_negQuat(quaternion, quaternion)
            mujoco.mju_mulQuat(turn, np.array(DOWN), quaternion)
            mujoco.mju_quat2Vel(error[3:], turn, 1.0)
            if np.abs(error).max() < 1e-10:
                break
            mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], self._tcp)
            data.qpos += jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-4 * np.eye(6), error)
