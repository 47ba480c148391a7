"""One simulated hand in its scene, from the model files of the `gymnasium-robotics` package.

Only its files are used: importing the package would load every robot it has.
"""

from __future__ import annotations

import copy
import logging
from functools import cache
from typing import Any

import mujoco
import numpy as np

from medley.envs.adroit.config import model_file
from medley.envs.adroit.scenes import SCENES
from medley.envs.api import Array

PHYSICS_STEPS = 5  # of 2 ms each, in a control step
CONTROL_HZ = 100.0
_INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION
_BROKEN = [mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC]

# Left alone, MuJoCo prints every instability and appends it to a file in the working directory.
mujoco.set_mju_user_warning(logging.getLogger(__name__).debug)


@cache
def _model(scene: str) -> Any:
    model = mujoco.MjModel.from_xml_path(str(model_file(scene)))
    # The files leave some of the fingers' gains to their users: these are what the package's envs set.
    for first, last, gain in (("A_WRJ1", "A_WRJ0", 10.0), ("A_FFJ3", "A_THJ0", 1.0)):
        some = slice(model.actuator(first).id, model.actuator(last).id + 1)
        model.actuator_gainprm[some, :3] = gain, 0.0, 0.0
        model.actuator_biasprm[some, :3] = 0.0, -gain, 0.0
    return model


class Hand:
    def __init__(self, scene: str) -> None:
        self.model = copy.copy(_model(scene))  # where things stand is part of it, and differs between slots
        self.data = mujoco.MjData(self.model)
        self.scene = SCENES[scene](self.model, self.data)
        low, high = self.model.actuator_ctrlrange.T
        self._middle, self._reach = (low + high) / 2, (high - low) / 2
        self.joints = [self.model.actuator(i).name.removeprefix("A_") for i in range(self.model.nu)]  # those that move
        self._gain, self._back = self.model.actuator_gainprm[:, 0], -self.model.actuator_biasprm[:, 1]
        self._physics = np.empty(mujoco.mj_stateSize(self.model, _INTEGRATION))

    @property
    def action_dim(self) -> int:
        return int(self.model.nu)

    def reset(self, rng: np.random.Generator) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.scene.arrange(rng)
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: Array) -> bool:
        """One control step towards the joints that `action` names. False: the physics broke down."""
        self.data.ctrl[:] = self._middle + np.clip(action, -1.0, 1.0) * self._reach
        before = self._warnings()
        # As in the package, what follows from the joints' positions is that of the last physics step's beginning.
        mujoco.mj_step(self.model, self.data, PHYSICS_STEPS)
        return self._warnings() == before

    def holding(self, targets: dict[str, float]) -> Array:
        """The action that draws joints to these positions, the others to 0, and makes up for gravity."""
        wanted = np.array([targets.get(joint, 0.0) for joint in self.joints])
        load = self.data.qfrc_bias[self.model.jnt_dofadr[self.model.actuator_trnid[:, 0]]]
        action: Array = ((self._back * wanted + load) / self._gain - self._middle) / self._reach
        return np.clip(action, -1.0, 1.0)

    def _warnings(self) -> int:
        return sum(int(self.data.warning[kind].number) for kind in _BROKEN)

    def state(self) -> Array:
        mujoco.mj_getState(self.model, self.data, self._physics, _INTEGRATION)
        return np.concatenate([self._physics, *self.scene.places()])

    def set_state(self, state: Array) -> None:
        physics, rest = np.array(state[: self._physics.size]), state[self._physics.size :]
        for place in self.scene.places():
            place[:], rest = rest[: place.size], rest[place.size :]
        mujoco.mj_setState(self.model, self.data, physics, _INTEGRATION)
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_setState(self.model, self.data, physics, _INTEGRATION)  # `mj_forward` renews the solver's warm start
