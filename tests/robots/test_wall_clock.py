"""An arm that moves by itself, and everything that can go wrong with it. Time passes up to five times as fast."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

if importlib.util.find_spec("gym_hil") is None:
    pytest.skip("needs gym-hil", allow_module_level=True)

from medley.envs.panda.config import PandaConfig, limits_of
from medley.robots.arm import ArmFault
from medley.robots.arm_process import Snapshot, Window
from medley.robots.env import RESTARTS, RealTimeEnv
from medley.robots.wall_clock import WallClockPanda

CONFIG = PandaConfig(randinit=False, horizon=8)
LEFT = np.array([[0.0, -1.0, 0.0]], dtype=np.float32)
STILL = np.zeros((1, 3), dtype=np.float32)


@pytest.fixture(scope="module")
def arm() -> Iterator[WallClockPanda]:
    arm = WallClockPanda(limits_of(CONFIG), rate=4.0)
    yield arm
    arm.close()


@pytest.fixture
def env(arm: WallClockPanda) -> Iterator[RealTimeEnv]:
    """An env over the one arm of this file, whatever the test before did to it."""
    yield RealTimeEnv(CONFIG, arm, pause=0.02)
    arm.trouble()
    for _ in range(RESTARTS + 2):
        arm.restart()


def test_readers_never_see_a_torn_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = sys.getswitchinterval()
    monkeypatch.setattr(Window, "PATIENCE", 10.0)
    sys.setswitchinterval(1e-6)  # threads take turns all the time
    try:
        _read_while_written()
    finally:
        sys.setswitchinterval(interval)


def _read_while_written() -> None:
    window = Window(multiprocessing.RawArray("d", Window.SIZE))
    done = threading.Event()

    def write() -> None:
        for i in range(10_000):
            window.write(Snapshot(i, i, i, i, np.full(3, float(i))))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen, last = 0, -1
    while not done.is_set():
        one = window.read()
        assert one.seq == one.t_sample == one.received == one.controller
        assert (one.position == one.seq).all()
        assert one.seq >= last
        last, seen = one.seq, seen + 1
    writer.join()
    assert seen > 10


def test_half_written_snapshot_is_not_read() -> None:
    window = Window(multiprocessing.RawArray("d", Window.SIZE))
    window._cells[0] = 1  # a writer is at it
    found: list[Snapshot] = []
    reader = threading.Thread(target=lambda: found.append(window.read()), daemon=True)
    reader.start()
    time.sleep(0.02)
    assert not found
    window._cells[0] = 2
    reader.join(1)
    assert len(found) == 1
    window._cells[0] = 3
    with pytest.raises(ArmFault, match="never finished"):
        window.read()


def test_it_moves_while_nobody_looks_and_then_holds(arm: WallClockPanda) -> None:
    first = arm.reset(np.array([0.5, -0.05, 0.4]))
    np.testing.assert_allclose(first.values, [0.5, -0.05, 0.4], atol=1e-3)
    receipt = arm.send_action(LEFT[0])
    assert (receipt.fault, receipt.limited) == ("", ())
    np.testing.assert_allclose(receipt.applied, [0.5, -0.09, 0.4], atol=1e-9)
    time.sleep(0.5)
    there = arm.read_observation(time.monotonic())
    np.testing.assert_allclose(there.values, receipt.applied, atol=2e-3)
    assert there.seq > first.seq + 20
    time.sleep(0.1)
    np.testing.assert_allclose(arm.read_observation(time.monotonic()).values, there.values, atol=1e-3)


def test_same_motion_as_the_simulated_env(env: RealTimeEnv) -> None:
    from medley.envs.panda.env import PandaReachEnv

    twin = PandaReachEnv(CONFIG)
    env.reset(seed=0)
    twin.reset(seed=0)
    for _ in range(6):
        ours, _, _, cut, _ = env.step(LEFT)
        theirs, *_ = twin.step(LEFT)
        if cut.any():
            pytest.skip(f"this machine is too busy: {env.faults}")
        np.testing.assert_allclose(ours, theirs, atol=0.02)  # 25 ms at 0.2 m/s and four times the speed
    assert env._score.distance[0, 0] < 0.25


def test_step_takes_its_time_and_can_be_split(env: RealTimeEnv) -> None:
    env.reset(seed=0)
    env.step(STILL)
    for _ in range(3):
        before = time.monotonic()
        env.send(STILL)
        time.sleep(0.02)  # what somebody learns meanwhile
        _, _, terminated, truncated, info = env.receive()
        if info["dropped"][0]:
            pytest.skip(f"this machine is too busy: {env.faults}")
        assert 0.02 < time.monotonic() - before < 0.5
        assert not (terminated | truncated).any()
    row = env.drain()
    assert 0 < row["delay_p50_ms"] < 20
    assert row["overruns"] == 0
    assert env.drain() == {}


def test_episode_is_cut_off_at_its_horizon(env: RealTimeEnv) -> None:
    env.reset(seed=0)
    ends = [env.step(STILL)[3][0] for _ in range(8)]
    assert ends[-1]
    env.send(STILL)  # the next one has begun


def cut_off(env: RealTimeEnv, words: str) -> None:
    _, reward, terminated, truncated, info = env.step(LEFT)
    assert truncated.all()
    assert not terminated.any()
    assert info["dropped"].all()
    assert reward[0] == 0
    assert any(words in fault for fault in env.faults), env.faults


def test_bad_action_is_never_sent(env: RealTimeEnv) -> None:
    env.reset(seed=0)
    before, number = env.arm.target, env.arm._number  # type: ignore[attr-defined]
    env.step(STILL)
    receipt = env.arm.send_action([np.nan, 0, 0])
    assert "finite" in receipt.fault
    np.testing.assert_array_equal(env.arm.target, before)
    assert env.arm._number == number + 1  # type: ignore[attr-defined]  # only the first one was sent
    _, _, _, truncated, info = env.step(np.full((1, 3), np.inf, dtype=np.float32))
    assert truncated[0]
    assert info["dropped"][0]


def test_frozen_samples_are_found_out(env: RealTimeEnv, arm: WallClockPanda) -> None:
    env.reset(seed=0)
    arm.trouble(freeze=0.3)
    time.sleep(0.02)
    cut_off(env, "old")
    assert not all(env.step(STILL)[4]["dropped"][0] for _ in range(3))  # it goes on once samples come again


def test_late_samples_are_found_out(env: RealTimeEnv, arm: WallClockPanda) -> None:
    env.reset(seed=0)
    arm.trouble(latency=0.08)
    time.sleep(0.15)
    with pytest.raises(ArmFault, match="ms old"):
        arm.read_observation(time.monotonic())
    arm.trouble(latency=0.005)
    time.sleep(0.1)
    arm.read_observation(time.monotonic())


def test_lost_target_is_found_out(env: RealTimeEnv, arm: WallClockPanda) -> None:
    env.reset(seed=0)
    arm.trouble(drop=1.0)
    time.sleep(0.02)
    cut_off(env, "did not receive")


def test_overrun_cuts_the_episode_off(env: RealTimeEnv) -> None:
    env.reset(seed=0)
    env.send(STILL)
    time.sleep(0.12)
    *_, truncated, info = env.receive()
    assert truncated[0]
    assert info["dropped"][0]
    assert env.drain()["overruns"] >= 1


def test_stopped_controller_is_restarted(env: RealTimeEnv, arm: WallClockPanda) -> None:
    env.reset(seed=0)
    arm.trouble(stop=3)
    time.sleep(0.02)
    assert "stopped" in arm.send_action(STILL[0]).fault  # nothing is sent to it
    cut_off(env, "stopped")
    assert env.restarts[0] == 3
    env.step(STILL)


def test_controller_that_stays_down_ends_the_run(env: RealTimeEnv, arm: WallClockPanda) -> None:
    env.reset(seed=0)
    arm.trouble(stop=100)
    time.sleep(0.02)
    with pytest.raises(ArmFault, match="restarted 5 times in vain: the controller"):
        env.step(STILL)
    for _ in range(100):
        arm.restart()


def test_nothing_is_sent_between_holding_and_the_next_reset(arm: WallClockPanda) -> None:
    arm.reset(np.array([0.5, 0.0, 0.4]))
    arm.hold()
    with pytest.raises(ArmFault, match="not reset"):
        arm.send_action(STILL[0])


def test_process_that_died_is_noticed_and_ends_with_its_owner() -> None:
    arm = WallClockPanda(limits_of(CONFIG), rate=4.0)
    arm.reset(np.array([0.5, 0.0, 0.4]))
    assert arm._process.pid is not None
    os.kill(arm._process.pid, signal.SIGKILL)
    arm._process.join(5)
    assert "ended" in arm.send_action(STILL[0]).fault
    arm.hold()  # never raises
    env = RealTimeEnv(CONFIG, arm, pause=0.0)
    with pytest.raises(ArmFault, match="in vain: the process of the arm has ended"):
        env.reset()
    arm.close()
    other = WallClockPanda(limits_of(CONFIG), rate=4.0)
    other.close()
    assert not other._process.is_alive()


def test_restored_env_begins_its_episode_again(env: RealTimeEnv) -> None:
    env.reset(seed=3)
    env.step(LEFT)
    state = env.state()
    env.step(LEFT)
    env.set_state(state)
    assert (env._elapsed[0], env._episode[0], env.seed) == (0, 0, 3)
    np.testing.assert_allclose(env._obs[0, :3], np.array(CONFIG.start) - CONFIG.goals["main"], atol=2e-3)
