"""The measurement of real time measures what it says."""

from __future__ import annotations

import importlib.util
import time
from types import SimpleNamespace
from typing import Any

import pytest

from medley.bench.realtime import Looks, bench


class Arm:
    """Is looked at by somebody who falls behind."""

    dt = 0.2

    def __init__(self) -> None:
        self.now = 0.0

    def reset(self, position: Any) -> None:
        self.read_observation(0.0)  # a reset looks, too

    def send_action(self, action: Any) -> Any:
        return SimpleNamespace(t_send=self.now)

    def read_observation(self, *arguments: Any) -> None:
        pass


def test_drift_is_found_and_resets_are_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for behind in (0.0, 1e-4):  # seconds per step, five steps a second: 0 or 30 ms per minute
        arm: Any = Arm()
        looks = Looks(arm)
        monkeypatch.setattr(time, "monotonic", lambda arm=arm: arm.now)
        for _ in range(3):
            arm.reset(None)
            for _ in range(50):
                arm.send_action(None)
                arm.now += 0.2 + behind
                arm.read_observation(0.0)
            arm.now += 5.0
        monkeypatch.undo()
        assert looks.drift() == pytest.approx(behind * 300_000, abs=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("gym_hil") is None, reason="needs gym-hil")
def test_both_ways_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    result = bench(
        8.0, True, ["env.rate=5", "env.horizon=10", "agent.critic.hidden_dim=16", "agent.actor.hidden_dim=16"]
    )
    assert result["steps"] == 40
    for mode in ("during_step", "at_step"):
        row = result[mode]
        assert 0 < row["delay_p50_ms"] <= row["delay_p95_ms"] <= row["delay_p99_ms"]
        assert row["updates"] + row["missed_updates"] == 4 * (90 - 49)
    assert '"within_targets"' in capsys.readouterr().out.splitlines()[-1]
