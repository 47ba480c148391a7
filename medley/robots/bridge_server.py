#!/usr/bin/env python
"""The robot's side of the bridge: one file for the machine beside an arm, which needs Python 3.8 and numpy, not medley.

    python bridge_server.py --polymetis --robot-ip 172.16.0.1 --gripper closed --listen 0.0.0.0:5757

A learner (`env.arm=bridge`) asks, this side answers: messages of fixed size over one TCP connection, each with a
magic word, a version and a growing number. Times are of this machine's monotonic clock; the learner translates them.
What it asks for passes limits of this side's own, and when it falls silent the arm holds its place.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NamedTuple

import numpy as np

MAGIC, VERSION = b"MDLY", 1
HEADER = struct.Struct("<4sH")  # what every version begins with
REQUEST = struct.Struct("<4sHHQ9d")  # magic, version, kind, number, nine numbers
REPLY = struct.Struct("<4sHHQdddQ3d120s")  # magic, version, status, number, in, out, sampled, sample, position, words
HELLO, SAMPLE, TARGET, PLACE, HOLD, RESTART = range(1, 7)  # kinds of requests
FINE, FAULT, REFUSED = range(3)  # the arm is well | something is wrong with it | this request was not obeyed

SLACK = 0.01  # metres by which a target may go beyond what speed and force allow: the learner's limits come first
ROUNDING = 1e-9
ANSWER_TIME = 1.0  # seconds that a learner may take to take an answer


class Sample(NamedTuple):
    position: Any  # of the tool's centre point, in metres from the arm's base
    t: float  # when it was there, of the monotonic clock
    seq: int  # grows with every sample


class Guard:
    """The second line of safety: what may be commanded, whatever a learner asks for.

    Targets lie in the box. One is no farther from the last than a step and `SLACK`, and all of them together come no
    faster than a step per `dt` beyond that. None is farther from the arm than `lead` and `SLACK`.
    """

    def __init__(self, low: Any, high: Any, step: float, dt: float, lead: float) -> None:
        self.low, self.high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        self.step, self.dt, self.lead = step, dt, lead
        self.reach = step + SLACK  # metres that one target may be away from the last
        self.held = "the arm was not reset"  # why no target is obeyed now
        self.target = np.full(3, np.nan)
        self._left, self._since = 0.0, 0.0  # metres that may be asked for, at what time

    def outside(self, position: Any) -> str:
        if not np.isfinite(position).all():
            return "the target is not finite"
        if (position < self.low - ROUNDING).any() or (position > self.high + ROUNDING).any():
            return "the target is outside the box"
        return ""

    def begin(self, position: Any, now: float) -> None:
        self.target, self.held, self._left, self._since = np.array(position), "", self.reach, now

    def admit(self, target: Any, measured: Any, now: float) -> str:
        """Why a target must not be sent; empty: it may, and counts as sent."""
        if why := self.held or self.outside(target):
            return why
        left = min(self.reach, self._left + (now - self._since) * self.step / self.dt)
        jump, ahead = float(np.linalg.norm(target - self.target)), float(np.linalg.norm(target - measured))
        if jump > self.reach + ROUNDING:
            return f"the target would jump by {100 * jump:.1f} cm"
        if jump > left + ROUNDING:
            return "targets come too fast"
        if not ahead <= self.lead + SLACK:
            return f"the target is {100 * ahead:.1f} cm away from the arm"
        self.target, self._left, self._since = np.array(target), left - jump, now
        return ""


class PolymetisArm:
    """A Franka arm under polymetis. Poses of polymetis are those of the flange; `tool` is the way from there to the
    tool's centre point, along the flange's axis. The orientation is the one that the home pose has."""

    def __init__(self, ip: str, gripper: str, stiffness: float, damping: float, tool: float, pace: float) -> None:
        import torch
        from polymetis import GripperInterface, RobotInterface  # type: ignore[import-not-found]

        self.pace, self._tool, self._tensor = pace, tool, torch.Tensor
        self._kx = torch.Tensor([stiffness] * 3 + [15.0] * 3)
        self._kxd = torch.Tensor([damping] * 3 + [2.0] * 3)
        self._robot = RobotInterface(ip_address=ip, enforce_version=True)
        self._orientation: Any = None
        self._stamp: Any = None
        self._last = Sample(np.full(3, np.nan), -math.inf, 0)
        self._error = 0
        if gripper != "none":
            hand = GripperInterface(ip_address=ip)
            hand.goto(width=0.0 if gripper == "closed" else 0.08, speed=0.05, force=10.0)
        self.restart()

    def sample(self) -> Sample:
        """From one state of the robot. A state that was seen before is no new sample: then the arm has gone silent."""
        now = time.monotonic()
        state = self._robot.get_robot_state()
        stamp = state.timestamp.seconds, state.timestamp.nanos
        self._error = state.error_code
        if stamp != self._stamp:
            place, orientation = self._robot.robot_model.forward_kinematics(self._tensor(state.joint_positions))
            position = np.asarray(place, dtype=float) + self._to_tool(orientation)
            self._stamp, self._last = stamp, Sample(position, now, self._last.seq + 1)
        return self._last

    def trouble(self) -> str:
        if self._error:
            return f"the arm reports error {self._error}"
        return "" if self._robot.is_running_policy() else "the controller of the arm has stopped"

    def place(self, position: Any) -> None:
        self._robot.go_home()
        self._orientation = self._robot.get_ee_pose()[1]
        flange = self._tensor(position - self._to_tool(self._orientation))
        if not self._robot.move_to_ee_pose(position=flange, orientation=self._orientation):
            raise RuntimeError("no joints were found for the start")
        self.restart()
        self.move(position)

    def move(self, target: Any) -> None:
        flange = self._tensor(target - self._to_tool(self._orientation))
        if self._robot.update_desired_ee_pose(position=flange, orientation=self._orientation) == -1:
            raise RuntimeError("no joints were found for the target")

    def hold(self) -> None:
        if self._robot.is_running_policy():
            self._robot.update_desired_joint_positions(self._robot.get_joint_positions())

    def restart(self) -> None:
        """A new controller begins with where the arm is. Errors of the arm are not cleared here."""
        self._robot.start_cartesian_impedance(Kx=self._kx, Kxd=self._kxd)

    def close(self) -> None:
        """Nothing: the controller goes on holding the arm."""

    def _to_tool(self, orientation: Any) -> Any:
        x, y, z, w = (float(v) for v in orientation)
        return self._tool * np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])


class Server:
    """Serves one learner with one arm. `backend` has what `PolymetisArm` has: `pace` (seconds between the pieces in
    which it wants a step), sample, trouble, place, move, hold, restart and close."""

    def __init__(self, backend: Any, guard: Guard, stiffness: float, address: Any, silence: float = 0.5) -> None:
        self.backend, self.guard, self._stiffness, self._silence = backend, guard, stiffness, silence
        self._listener = socket.create_server(address)
        self.address = self._listener.getsockname()[:2]
        self._learner: Any = None
        self._bytes, self._number, self._heard = b"", 0, -math.inf
        self._pieces = max(1, round(guard.dt / backend.pace))
        self._sent, self._stride, self._due = guard.target, 0.0, math.inf

    def serve(self, stop: Any = lambda: False) -> None:
        try:
            while not stop():
                self._turn()
        finally:
            self._hold("the bridge was closed")
            self._drop()
            self._listener.close()
            self.backend.close()

    def _turn(self) -> None:
        wait = min(0.05, max(0.0, self._due - time.monotonic()))
        ready = select.select([self._listener] + ([self._learner] if self._learner else []), [], [], wait)[0]
        if self._learner in ready:
            self._listen()
        if self._listener in ready:
            self._welcome()
        now = time.monotonic()
        if not self.guard.held and now - self._heard > self._silence:
            self._hold(f"nothing was heard of the learner for {now - self._heard:.2f} s")
        elif now >= self._due:
            try:
                self._advance(now)
            except Exception as e:  # of whatever library the backend stands on
                self._hold(words_of(e))

    def _welcome(self) -> None:
        new, _ = self._listener.accept()
        new.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        new.settimeout(ANSWER_TIME)
        if self._learner is not None and time.monotonic() - self._heard < self._silence:
            with contextlib.suppress(OSError), new:
                new.sendall(reply(REFUSED, 0, 0.0, "somebody else moves the arm"))
            return
        self._drop()
        self._learner, self._bytes, self._number, self._heard = new, b"", 0, time.monotonic()

    def _drop(self) -> None:
        if self._learner is not None:
            self._learner.close()
            self._learner = None
            self._hold("the learner has gone")

    def _listen(self) -> None:
        try:
            got = self._learner.recv(65536)
            arrived = time.monotonic()
            if not got:
                return self._drop()
            self._bytes += got
            for request in self._requests():
                self._heard = time.monotonic()
                self._learner.sendall(self._answer(arrived, *request))
                arrived = self._heard = time.monotonic()
        except (OSError, ValueError) as e:
            print(f"bridge: the learner is dropped: {e}", file=sys.stderr, flush=True)
            self._drop()

    def _requests(self) -> Any:
        while len(self._bytes) >= HEADER.size:
            magic, version = HEADER.unpack_from(self._bytes)
            if magic != MAGIC or version != VERSION:
                if magic == MAGIC:
                    self._learner.sendall(reply(REFUSED, 0, 0.0, f"this side speaks version {VERSION}"))
                raise ValueError(f"it does not speak version {VERSION} of the bridge")
            if len(self._bytes) < REQUEST.size:
                return
            _, _, kind, number, *numbers = REQUEST.unpack_from(self._bytes)
            self._bytes = self._bytes[REQUEST.size :]
            if number <= self._number:
                raise ValueError("its messages are out of order")
            self._number = number
            yield kind, number, np.array(numbers)

    def _answer(self, arrived: float, kind: int, number: int, numbers: Any) -> bytes:
        status, words, sample = FINE, "", None
        try:
            if words := self._obey(kind, numbers):
                status = REFUSED
            else:
                sample = self.backend.sample()
                status = FAULT if (words := self.backend.trouble()) else FINE
        except Exception as e:  # of whatever library the backend stands on: the learner is told
            status, words = FAULT, words_of(e)
            self._hold(words)
        return reply(status, number, arrived, words, sample)

    def _obey(self, kind: int, numbers: Any) -> str:
        """Why a request is not obeyed; empty: it was."""
        guard, place = self.guard, numbers[:3]
        if kind == HELLO:
            return self._differs(numbers)
        if kind == TARGET:
            if words := guard.admit(place, self.backend.sample().position, time.monotonic()):
                self._hold(words)
                return words
            self._stride = min(float(np.linalg.norm(place - self._sent)), guard.reach) / self._pieces
            self._advance(time.monotonic())
        elif kind == PLACE:
            if words := guard.outside(place):
                return words
            guard.held, self._due = "the arm was not brought to its start", math.inf
            self.backend.place(place)
            self._sent = np.array(place)
            guard.begin(place, time.monotonic())
        elif kind == HOLD:
            self._hold("the learner had the arm held")
        elif kind == RESTART:
            self._hold("the controller was restarted")
            print("bridge: the controller is restarted", file=sys.stderr, flush=True)
            self.backend.restart()
        elif kind != SAMPLE:
            return f"there is no request of kind {kind}"
        return ""

    def _differs(self, numbers: Any) -> str:
        """In what a learner's limits do not fit into those of this side."""
        guard, (dt, step, stiffness) = self.guard, numbers[6:]
        if guard.outside(numbers[:3]) or guard.outside(numbers[3:6]):
            return f"its box is {guard.low} to {guard.high}"
        if abs(dt - guard.dt) > 0.01 * guard.dt:
            return f"its steps take {guard.dt} s, not {dt:.3g}"
        if step > guard.step + ROUNDING:
            return f"it allows {guard.step / guard.dt:.3g} m/s, not {step / dt:.3g}"
        if abs(stiffness - self._stiffness) > 0.01 * self._stiffness:
            return f"its stiffness is {self._stiffness} N/m, not {stiffness:.4g}"
        return ""

    def _advance(self, now: float) -> None:
        """The next piece of the way to the target. It lies in the box as both ends do, and none is longer than
        `reach` by the number of pieces."""
        way = self.guard.target - self._sent
        length = float(np.linalg.norm(way))
        last = length <= self._stride + ROUNDING
        piece = self.guard.target if last else self._sent + way * (self._stride / length)
        self._due = math.inf if last else now + self.backend.pace
        self.backend.move(piece)
        self._sent = piece

    def _hold(self, why: str) -> None:
        if not self.guard.held:
            print(f"bridge: the arm holds its place: {why}", file=sys.stderr, flush=True)
        self.guard.held, self._due = why, math.inf
        with contextlib.suppress(Exception):  # an arm that is not well is not moved either
            self.backend.hold()


def reply(status: int, number: int, arrived: float, words: str, sample: Any = None) -> bytes:
    position, t, seq = sample or (np.full(3, np.nan), -math.inf, 0)
    text = words.encode()[:120].decode(errors="ignore").encode()
    return REPLY.pack(MAGIC, VERSION, status, number, arrived, time.monotonic(), t, seq, *position, text)


def words_of(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).replace("\n", " ")


def address_of(words: str) -> Any:
    host, _, port = words.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{words!r} is not HOST:PORT")
    return host, int(port)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="The robot's side of medley's bridge to an arm.")
    arm = parser.add_mutually_exclusive_group(required=True)
    arm.add_argument("--polymetis", action="store_true", help="a Franka arm under polymetis")
    arm.add_argument("--simulated", action="store_true", help="medley's simulated arm (medley must be installed)")
    add = parser.add_argument
    add("--listen", type=address_of, default=("127.0.0.1", 5757), metavar="HOST:PORT", help="where learners connect")
    add("--silence", type=float, default=0.5, help="seconds without the learner after which the arm holds its place")
    add("--box-low", type=float, nargs=3, default=[0.30, -0.15, 0.34], help="of the tool, in metres from the base")
    add("--box-high", type=float, nargs=3, default=[0.60, 0.15, 0.475], help="the learner's box must lie inside")
    add("--max-vel", type=float, default=0.2, help="m/s")
    add("--max-force", type=float, default=12.5, help="N by which the arm may be drawn to its target")
    add("--stiffness", type=float, default=250.0, help="N/m (Kx), the same as the learner's env.stiffness")
    add("--damping", type=float, default=37.0, help="N s/m (Kxd), polymetis only")
    add("--dt", type=float, default=0.2, help="seconds of a step")
    add("--pace", type=float, default=0.04, help="seconds between the pieces of a step, polymetis only")
    add("--robot-ip", default="localhost", help="of the machine that runs polymetis' server")
    add("--gripper", choices=("none", "open", "closed"), default="none", help="what it is brought to at the start")
    add("--tool-length", type=float, default=0.149, help="metres from the flange to the tool's centre point")
    add("--rate", type=float, default=1.0, help="simulated only: how much faster than real time")
    return parser


def main() -> None:
    a = options().parse_args()
    backend: Any
    if a.simulated:
        from medley.robots.bridge_simulated import SimulatedBackend

        backend = SimulatedBackend(a.box_low, a.box_high, a.stiffness, a.rate)
    else:
        a.rate = 1.0  # a real arm has no other
        backend = PolymetisArm(a.robot_ip, a.gripper, a.stiffness, a.damping, a.tool_length, a.pace)
    guard = Guard(a.box_low, a.box_high, a.max_vel * a.dt, a.dt / a.rate, a.max_force / a.stiffness)
    server = Server(backend, guard, a.stiffness, a.listen, a.silence)
    print("bridge: listening on {}:{}".format(*server.address), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # by way of `serve`, which has the arm held
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()


if __name__ == "__main__":
    main()
