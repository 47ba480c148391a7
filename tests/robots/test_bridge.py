"""The bridge to an arm elsewhere: what goes over it, what can go wrong with it, and what never reaches the arm."""

from __future__ import annotations

import ast
import contextlib
import re
import socket
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medley.config.load import load_config
from medley.envs.panda.config import PandaConfig, limits_of
from medley.errors import ConfigError
from medley.robots import bridge, bridge_server
from medley.robots.arm import ArmFault
from medley.robots.bridge import BridgeArm
from medley.robots.bridge_link import Link
from medley.robots.bridge_server import PLACE, SAMPLE, TARGET, Guard, Server
from medley.robots.env import RealTimeEnv
from tests.robots.bridge_arm import CONFIG, FILE, LEFT, LIMITS, START, Still, guard, serving, until


@pytest.fixture
def still() -> Still:
    return Still()


@pytest.fixture
def server(still: Still) -> Iterator[Server]:
    with serving(still) as server:
        yield server


@pytest.fixture
def arm(server: Server) -> Iterator[BridgeArm]:
    arm = BridgeArm(LIMITS, 0.1, server.address)
    yield arm
    arm.close()


# ---- the robot's side, as a file


def test_server_is_one_file_for_python_38() -> None:
    tree = ast.parse(FILE.read_text(), feature_version=(3, 8))
    names = {n.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for n in node.names}
    names |= {str(node.module).split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert names <= {"numpy"} | sys.stdlib_module_names
    later = {"zip(", "removeprefix", "removesuffix", "functools.cache", "math.lcm", "match "}  # or with new arguments
    assert not [word for word in later if word in FILE.read_text()]


def test_server_runs_without_medley(tmp_path: Path) -> None:
    alone = tmp_path / "bridge_server.py"
    alone.write_text(FILE.read_text())
    blocked = "import sys, runpy; sys.modules.update(medley=None, torch=None); sys.argv[0] = sys.argv[1]; "
    words = [sys.executable, "-c", blocked + "runpy.run_path(sys.argv.pop(1), run_name='__main__')", str(alone)]
    said = subprocess.run([*words, "--help"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (said.returncode, said.stderr) == (0, "")
    assert "--robot-ip" in said.stdout
    missing = subprocess.run([*words, "--polymetis"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert "import of torch halted" in missing.stderr  # it is looked for only where it is wanted


# ---- its limits


NUMBERS = st.one_of(
    st.floats(-1.0, 1.0),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e300, 0.3, 0.6, -0.15, 0.475]),
)
NEAR = st.tuples(*[st.floats(-0.06, 0.06)] * 3)
ASKED = st.one_of(
    st.tuples(st.just("far"), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("near"), NEAR),
    st.tuples(st.just("near"), st.tuples(*[st.floats(-0.025, 0.025)] * 3)),
    st.tuples(st.just("place"), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("start"), NEAR),
    st.tuples(st.just("kind"), st.tuples(st.integers(0, 70), NUMBERS, NUMBERS)),
)


class Lagging(Still):
    """It comes half of the way to what it is told."""

    def __init__(self, pace: float, clock: types.SimpleNamespace) -> None:
        super().__init__(pace)
        self.clock, self.times = clock, []

    def place(self, position: Any) -> None:
        super().place(position)
        self.moves, self.times = [np.array(position)], [self.clock.now]

    def move(self, target: Any) -> None:
        self.moves.append(np.array(target))
        self.times.append(self.clock.now)
        self.position = (self.position + target) / 2


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(ASKED, st.one_of(st.just(0.0), st.floats(0, 0.3))), max_size=25),
    st.sampled_from([0.02, 0.04, np.inf]),
)
def test_nothing_beyond_the_limits_reaches_the_arm(asked: list[Any], pace: float) -> None:
    clock = types.SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    arm, limits = Lagging(pace, clock), guard(dt=0.2)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(None):
        patch.setattr(bridge_server, "time", types.SimpleNamespace(monotonic=clock.monotonic))
        server = Server(arm, limits, 250.0, ("127.0.0.1", 0))
        try:
            for i, ((what, numbers), wait) in enumerate([(("start", (0.0, 0.0, 0.0)), 0.0), *asked]):
                place = np.array(numbers, dtype=float)
                if what in ("near", "start"):
                    place = place + (START if what == "start" else arm.moves[-1] if arm.moves else START)
                kind = {"far": TARGET, "near": TARGET, "kind": numbers[0]}.get(what, PLACE)
                server._answer(clock.now, kind, i + 1, np.concatenate([place, np.zeros(6)]))
                check(arm, limits, server._pieces)
                end = clock.now + wait
                while server._due < end:
                    clock.now = max(clock.now, server._due)
                    server._advance(clock.now)
                clock.now = end
                check(arm, limits, server._pieces)
        finally:
            server._listener.close()


def check(arm: Lagging, limits: Guard, pieces: int) -> None:
    """Of all that was sent since the last reset."""
    if not arm.moves:
        return
    sent = np.array(arm.moves)
    assert np.isfinite(sent).all()
    assert (sent >= limits.low - 1e-9).all()
    assert (sent <= limits.high + 1e-9).all()
    lengths = np.linalg.norm(np.diff(sent, axis=0), axis=1)
    assert (lengths <= limits.reach / pieces + 1e-8).all()
    for i in range(len(lengths)):  # however they are bundled: what the speed allows, and one step ahead of it
        allowed = limits.reach + limits.step / limits.dt * (np.array(arm.times[i + 1 :]) - arm.times[i])
        assert (np.cumsum(lengths[i:]) <= allowed + 1e-7).all()


def test_targets_that_come_too_fast_are_refused() -> None:
    limits = guard(dt=0.2)
    limits.begin(START, 0.0)
    near = START - [0.03, 0, 0]
    assert limits.admit(near, START, 0.0) == ""
    assert "too fast" in limits.admit(START, START, 0.01)
    assert limits.admit(START, START, 0.2) == ""
    assert "jump" in limits.admit(START - [0.06, 0, 0], START, 10.0)
    assert "away from the arm" in limits.admit(near, START + [0.04, 0, 0], 20.0)
    assert "away from the arm" in limits.admit(near, np.full(3, np.nan), 20.0)


def test_steps_are_sent_in_pieces(arm: BridgeArm, still: Still) -> None:
    arm.reset(START)
    arm.send_action(LEFT)
    until(lambda: len(still.moves) == 10)
    np.testing.assert_allclose(np.diff(still.moves, axis=0), np.tile([0, -0.004, 0], (9, 1)), atol=1e-9)
    np.testing.assert_allclose(still.moves[-1], arm.target)


# ---- the learner's side


def test_it_goes_where_it_is_sent(arm: BridgeArm, still: Still) -> None:
    first = arm.reset(START)
    np.testing.assert_allclose(first.values, START)
    receipt = arm.send_action(LEFT)
    assert receipt.fault == ""
    until(lambda: len(still.moves) == 10)
    seen = arm.read_observation(time.monotonic(), 1.0)
    np.testing.assert_allclose(seen.values, receipt.applied)
    assert first.seq < seen.seq
    assert receipt.t_send < seen.t_sample < seen.t_read


def test_times_are_those_of_this_side(monkeypatch: pytest.MonkeyPatch, still: Still) -> None:
    shifted = types.SimpleNamespace(monotonic=lambda: time.monotonic() - 5000.0)
    monkeypatch.setattr(bridge_server, "time", shifted)
    with serving(still) as server:
        arm = BridgeArm(LIMITS, 0.1, server.address)
        arm.reset(START)
        for _ in range(20):
            before = time.monotonic()
            seen = arm.read_observation(before, 1.0)
            assert before - 0.005 < seen.t_sample < seen.t_read + 0.005
        arm.close()


def test_env_over_the_bridge(server: Server, still: Still) -> None:
    env = RealTimeEnv(CONFIG, BridgeArm(LIMITS, 0.1, server.address), pause=0.0)
    env.reset(seed=0)
    for _ in range(3):
        _, _, _, _, info = env.step(LEFT[None].astype(np.float32))
        if info["dropped"][0]:
            pytest.skip(f"this machine is too busy: {env.faults}")
    row = env.drain()
    assert 0 < row["delay_p50_ms"] < 20
    still.fault = "the controller of the arm has stopped"
    _, _, terminated, truncated, info = env.step(LEFT[None].astype(np.float32))
    assert (truncated[0], terminated[0], info["dropped"][0]) == (True, False, True)
    assert env.restarts[0] == still.restarts == 1
    assert "stopped" in env.faults[0]
    env.close()


def test_refused_target_is_known_with_the_next_sample(arm: BridgeArm, still: Still) -> None:
    arm.reset(START)
    arm._transmit(START + [0.0, 0.06, 0.0])  # past this side's limits
    with pytest.raises(ArmFault, match="did not take its last target: the target would jump by 6"):
        arm.read_observation(time.monotonic(), 1.0)
    assert still.moves == []
    arm._transmit(START)  # nothing is obeyed before the next reset
    with pytest.raises(ArmFault, match="did not take"):
        arm.read_observation(time.monotonic(), 1.0)
    assert still.moves == []
    arm.reset(START)
    arm.send_action(LEFT)
    arm.read_observation(time.monotonic(), 1.0)


def test_errors_of_the_arm_come_back_in_words(arm: BridgeArm, still: Still) -> None:
    arm.reset(START)
    still.error = "gRPC: the robot\nis gone"
    time.sleep(bridge.FRESH + 0.05)  # or the last answer would still do
    assert arm.send_action(LEFT).fault == "gRPC: the robot is gone"
    with pytest.raises(ArmFault, match="could not be brought to its start: gRPC"):
        arm.reset(START)
    still.error = ""
    arm.reset(START)


def test_old_sample_is_stale(arm: BridgeArm, still: Still) -> None:
    arm.reset(START)
    still.frozen = True
    with pytest.raises(ArmFault, match="ms old"):
        arm.read_observation(time.monotonic() + 0.05)


def test_late_answer_is_a_fault(arm: BridgeArm, still: Still) -> None:
    arm.reset(START)
    still.delay = 0.1
    with pytest.raises(ArmFault, match="too late"):
        arm.read_observation(time.monotonic())
    still.delay = 0.7
    with pytest.raises(ArmFault, match="no answer in time"):
        arm.read_observation(time.monotonic())
    assert "no answer in time" in arm.health()
    arm.hold()  # never raises
    still.delay = 0.0
    arm.restart()
    assert arm.health() == ""
    arm.reset(START)


def test_server_that_was_lost_comes_back(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "RECONNECT_TIME", 0.3)
    with serving(still) as server:
        address = server.address
        arm = BridgeArm(LIMITS, 0.1, address)
        arm.reset(START)
    receipt = arm.send_action(LEFT)
    with pytest.raises(ArmFault, match="was lost" if not receipt.fault else ""):
        arm.read_observation(time.monotonic(), 1.0)
    arm.hold()
    arm.restart()
    assert "nothing answers" in arm.health()
    with serving(Still(), address):
        arm.restart()
        assert arm.health() == ""
        arm.reset(START)
        arm.close()
    with pytest.raises(ArmFault, match="closed"):
        arm.reset(START)


def test_nobody_there_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    with pytest.raises(ArmFault, match="nothing answers at"):
        BridgeArm(LIMITS, 0.1, address)


def test_versions_must_be_the_same(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medley.robots.bridge_link.VERSION", 2)
    with pytest.raises(ArmFault, match="speaks version 1 of the bridge, this side 2"):
        BridgeArm(LIMITS, 0.1, server.address)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n" * 20, b"MDLY\x09\x00", b"MDLY\x01\x00" + b"\0" * 200, b"M"])
def test_strangers_are_turned_away(server: Server, sent: bytes) -> None:
    with socket.create_connection(server.address, 2) as stranger:
        stranger.sendall(sent)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(1000):  # to the end
            pass
    BridgeArm(LIMITS, 0.1, server.address).close()


def test_one_learner_at_a_time(server: Server, arm: BridgeArm) -> None:
    arm.reset(START)
    with pytest.raises(ArmFault, match="somebody else moves the arm"):
        BridgeArm(LIMITS, 0.1, server.address)
    arm.read_observation(time.monotonic(), 1.0)


@pytest.mark.parametrize(
    ("limits", "dt", "says"),
    [
        (PandaConfig(box_low=[0.3, -0.3, 0.34]), 0.1, "its box is"),
        (PandaConfig(max_vel=0.4), 0.1, "it allows 0.4 m/s, not 0.8"),  # at twice the speed of real time
        (PandaConfig(stiffness=750.0), 0.1, "its stiffness is 250.0 N/m, not 750"),
        (PandaConfig(), 0.2, "its steps take 0.1 s, not 0.2"),
    ],
)
def test_limits_that_differ_are_refused_at_the_start(server: Server, limits: PandaConfig, dt: float, says: str) -> None:
    with pytest.raises(ArmFault, match=re.escape(says)):
        BridgeArm(limits_of(limits), dt, server.address)


def test_silence_makes_the_arm_hold(still: Still) -> None:
    with serving(still, silence=0.3) as server:
        arm = BridgeArm(LIMITS, 0.1, server.address)
        arm.reset(START)
        arm.send_action(LEFT)
        before = still.holds
        until(lambda: still.holds > before)
        count = len(still.moves)
        assert "nothing was heard" in server.guard.held
        arm._transmit(arm.target)
        with pytest.raises(ArmFault, match="nothing was heard of the learner"):
            arm.read_observation(time.monotonic(), 1.0)
        assert len(still.moves) == count
        arm.reset(START)
        assert server.guard.held == ""
        arm.close()
        until(lambda: server.guard.held == "the learner has gone")


def test_pieces_that_are_left_are_not_sent_when_the_learner_goes(still: Still) -> None:
    still.pace = 0.05
    with serving(still) as server:
        arm = BridgeArm(LIMITS, 0.1, server.address)
        arm.reset(START)
        arm.send_action(LEFT)
        until(lambda: still.moves)
        arm.close()
        until(lambda: server.guard.held)
        assert len(still.moves) == 1
        time.sleep(0.1)
        assert len(still.moves) == 1


def test_address_must_be_one() -> None:
    with pytest.raises(ConfigError, match="bridge_address='there' must be a host and a port"):
        load_config(["env=panda-reach", "env.bridge_address=there"])


def test_messages_are_numbered(server: Server) -> None:
    link = Link(server.address)
    link.ask(SAMPLE, seconds=1.0)
    link._number = 0
    with pytest.raises(ArmFault, match="was lost"):
        link.ask(SAMPLE, seconds=1.0)
