"""Deadlines on a clock that the test moves, and a few on the real one."""

from __future__ import annotations

import random
import time

import pytest

from medley.robots.clock import SPIN, Clock
from medley.robots.delays import Delays


class FakeTime:
    """Every look at it takes a little; sleeps end late."""

    def __init__(self, look: float = 1e-6, oversleep: float = 0.0) -> None:
        self.now, self.look, self.oversleep, self.sleeps = 100.0, look, oversleep, 0

    def monotonic(self) -> float:
        self.now += self.look
        return self.now

    def sleep(self, seconds: float, /) -> None:
        assert seconds > 0
        self.sleeps += 1
        self.now += seconds + self.oversleep


def test_no_drift_however_long_the_work_takes() -> None:
    source, rng = FakeTime(oversleep=4e-4), random.Random(0)
    clock = Clock(0.2, source)
    clock.start()
    start = clock._start
    for j in range(500):
        source.now += rng.uniform(0, 0.19)
        wait = clock.wait()
        assert wait.deadline == pytest.approx(start + (j + 1) * 0.2, abs=1e-9)
        assert 0 <= wait.late < 1e-5  # it spun for the last millisecond, and so woke in time
        assert wait.skipped == 0
    assert source.now - (start + 100.0) < 1e-5


def test_overrun_skips_whole_slots_and_never_bursts() -> None:
    source = FakeTime()
    clock = Clock(0.2, source)
    clock.start()
    start = clock._start
    source.now += 0.5  # two deadlines, at 0.2 and 0.4, have passed
    wait = clock.wait()
    assert (wait.skipped, wait.deadline) == (2, pytest.approx(start + 0.6))
    assert 0.05 < wait.slept <= 0.1 + 1e-9
    following = clock.wait()
    assert (following.skipped, following.deadline) == (0, pytest.approx(start + 0.8))


def test_sleep_then_spin() -> None:
    source = FakeTime(look=1e-5)
    clock = Clock(0.2, source)
    clock.start()
    source.now += 0.2 - SPIN / 2
    clock.wait()
    assert source.sleeps == 0
    clock.wait()
    assert source.sleeps == 1


def test_left_is_the_time_to_the_deadline() -> None:
    source = FakeTime(look=0.0)
    clock = Clock(0.2, source)
    clock.start()
    source.now += 0.15
    assert clock.left() == pytest.approx(0.05)


def test_real_clock() -> None:
    clock = Clock(0.01)
    clock.start()
    start = time.monotonic()
    waits = [clock.wait() for _ in range(30)]
    slots = 30 + sum(w.skipped for w in waits)
    assert 0.01 * slots - 0.001 < time.monotonic() - start < 0.01 * slots + 0.2  # another process may be in the way
    assert sorted(w.late for w in waits)[15] < 0.005  # half a step: how late exactly, `medley bench probe` says


def test_delays_are_summed_up_and_start_anew() -> None:
    delays = Delays(host=[0.001 * i for i in range(1, 101)], slept=[0.1, 0.2], overruns=3)
    row = delays.summary()
    assert row["delay_p50_ms"] == pytest.approx(50.5)
    assert row["delay_p99_ms"] == pytest.approx(99.01)
    assert (row["slept_ms"], row["overruns"]) == (pytest.approx(150.0), 3)
    whole = Delays()
    whole.add(delays.take())
    assert delays.summary() == {}
    assert whole.summary() == row
