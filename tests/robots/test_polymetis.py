"""Polymetis, by an imitation of its interface."""

from __future__ import annotations

import sys
import time
import types
from typing import Any

import numpy as np
import pytest

from medley.robots import bridge
from medley.robots.arm import ArmFault
from medley.robots.bridge import BridgeArm
from medley.robots.bridge_server import PolymetisArm
from tests.robots.bridge_arm import LEFT, LIMITS, START, serving, until


class Robot:
    """What `RobotInterface` has. Its joints are the flange's place, and its home points the tool down."""

    def __init__(self, ip_address: str, enforce_version: bool) -> None:
        import torch

        assert (ip_address, enforce_version) == ("nuc", True)
        self.torch, self.calls = torch, []
        self.joints, self.running, self.stamp, self.error, self.solvable = (
            torch.tensor([0.5, 0.0, 0.6]),
            False,
            0,
            0,
            True,
        )
        self.robot_model = types.SimpleNamespace(forward_kinematics=lambda q: (q, torch.tensor([1.0, 0.0, 0.0, 0.0])))

    def get_robot_state(self) -> Any:
        stamp = types.SimpleNamespace(seconds=0, nanos=self.stamp)
        return types.SimpleNamespace(timestamp=stamp, joint_positions=self.joints.tolist(), error_code=self.error)

    def get_joint_positions(self) -> Any:
        return self.joints

    def get_ee_pose(self) -> Any:
        return self.robot_model.forward_kinematics(self.joints)

    def is_running_policy(self) -> bool:
        return self.running

    def go_home(self) -> list[int]:
        self.calls.append("home")
        self.joints, self.running = self.torch.tensor([0.5, 0.0, 0.6]), False
        return [1]

    def move_to_ee_pose(self, position: Any, orientation: Any) -> list[int]:
        self.calls.append("go")
        self.running = False
        if self.solvable:
            self.joints = position
        return [1] if self.solvable else []

    def start_cartesian_impedance(self, Kx: Any, Kxd: Any) -> None:
        assert (Kx.tolist(), Kxd.tolist()) == ([250.0] * 3 + [15.0] * 3, [37.0] * 3 + [2.0] * 3)
        self.calls.append("start")
        self.running = True

    def update_desired_ee_pose(self, position: Any, orientation: Any) -> int:
        assert orientation.tolist() == [1.0, 0.0, 0.0, 0.0]
        if not self.running:
            raise RuntimeError("no controller is running")
        if self.solvable:
            self.joints, self.stamp = position, self.stamp + 1
        return 0 if self.solvable else -1

    def update_desired_joint_positions(self, positions: Any) -> int:
        self.calls.append("stay")
        return 0


@pytest.fixture
def franka(monkeypatch: pytest.MonkeyPatch) -> PolymetisArm:
    class Gripper:
        def __init__(self, ip_address: str) -> None: ...

        def goto(self, width: float, speed: float, force: float) -> None:
            assert width == 0

    monkeypatch.setitem(sys.modules, "polymetis", types.SimpleNamespace(RobotInterface=Robot, GripperInterface=Gripper))
    return PolymetisArm("nuc", "closed", 250.0, 37.0, 0.149, 0.02)


def test_polymetis_is_told_where_the_flange_goes(franka: PolymetisArm) -> None:
    franka.place(START)
    assert franka._robot.calls == ["start", "home", "go", "start"]
    np.testing.assert_allclose(franka._robot.joints.numpy(), START + [0, 0, 0.149], atol=1e-6)
    np.testing.assert_allclose(franka.sample().position, START, atol=1e-6)
    assert franka.trouble() == ""


def test_polymetis_behind_the_bridge(franka: PolymetisArm) -> None:
    with serving(franka) as server:
        arm = BridgeArm(LIMITS, 0.1, server.address)
        arm.reset(START)
        assert arm.send_action(LEFT).fault == ""
        until(lambda: franka._robot.joints[1] < -0.139)
        np.testing.assert_allclose(arm.read_observation(time.monotonic(), 1.0).values, arm.target, atol=1e-6)
        with pytest.raises(ArmFault, match="ms old"):  # no new state of the robot: it has gone silent
            arm.read_observation(time.monotonic() + 0.05)
        franka._robot.running = False
        time.sleep(bridge.FRESH + 0.05)
        assert arm.health() == "the controller of the arm has stopped"
        arm.restart()
        assert arm.health() == ""
        franka._robot.solvable = False
        with pytest.raises(ArmFault, match="no joints were found for the start"):
            arm.reset(START)
        franka._robot.error = 7
        franka._robot.running = True
        time.sleep(bridge.FRESH + 0.05)
        assert arm.health() == "the arm reports error 7"
        arm.hold()
        assert franka._robot.calls[-1] == "stay"
        arm.close()
