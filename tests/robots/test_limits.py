"""Whatever a policy says, and wherever the arm is: no command that breaks a limit is ever sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medley.robots.limits import Limits

LIMITS = Limits((0.30, -0.15, 0.34), (0.60, 0.15, 0.475))
LOW, HIGH = np.array(LIMITS.low), np.array(LIMITS.high)
NOTHING = np.zeros(3)

number = (
    st.floats(width=64) | st.floats(-3, 3) | st.sampled_from([1e300, -1e300, 1.0, -1.0, 0.0, np.inf, -np.inf, np.nan])
)
actions: Any = st.one_of(
    st.lists(number, min_size=3, max_size=3),
    st.lists(number, max_size=5),
    st.lists(st.lists(number, min_size=3, max_size=3), max_size=2),
    st.sampled_from([None, "left", 1.0, [None, 0, 0], [[0], [0, 0]]]),
)
in_box = st.tuples(*(st.floats(a, b) for a, b in zip(LIMITS.low, LIMITS.high, strict=True)))
nearby = st.tuples(*(st.floats(-0.06, 0.06),) * 3)
anywhere = st.lists(number, min_size=3, max_size=3)


@settings(max_examples=600, deadline=None)
@given(actions, in_box, st.one_of(nearby, anywhere))
@np.errstate(all="ignore")
def test_nothing_forbidden_is_sent(action: Any, target: Any, offset: Any) -> None:
    target = np.array(target)
    measured = target + np.array(offset)
    command = LIMITS.command(action, target, measured)
    if command.target is None:
        assert command.fault
        return
    sent = command.target
    assert not command.fault
    assert np.shape(action) == (3,)
    assert np.isfinite(np.asarray(action, dtype=float)).all()
    assert (sent >= LOW).all()
    assert (sent <= HIGH).all()
    moved = np.linalg.norm(sent - target)
    assert moved <= 0.05 + 1e-8  # 4 cm by speed and 1 of slack
    if "force" not in command.limited:
        assert moved <= 0.04 + 1e-8
    assert np.linalg.norm(sent - measured) <= 0.05 + 1e-8  # 12.5 N at 250 N/m


@settings(max_examples=100, deadline=None)
@given(st.lists(actions, max_size=12), st.floats(0, 1))
@np.errstate(all="ignore")
def test_limits_hold_all_the_way(moves: list[Any], following: float) -> None:
    """A whole episode with an arm that follows more or less well."""
    target = measured = np.array([0.5, -0.1, 0.4])
    for action in moves:
        sent = LIMITS.command(action, target, measured).target
        if sent is not None:
            assert np.linalg.norm(sent - target) <= 0.05 + 1e-8
            assert np.linalg.norm(sent - measured) <= 0.05 + 1e-8
            assert ((sent >= LOW) & (sent <= HIGH)).all()
            target = sent
        measured = measured + following * (target - measured)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), in_box)
def test_what_is_allowed_is_sent_as_it_is(action: Any, target: Any) -> None:
    """Limits that refuse everything would pass the other tests."""
    target = np.array(target)
    move = 0.04 * np.array(action)
    move = move * min(1.0, 0.04 / max(np.linalg.norm(move), 1e-12))
    command = LIMITS.command(action, target, target)
    assert command.target is not None
    np.testing.assert_allclose(command.target, np.clip(target + move, LOW, HIGH), atol=1e-12)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), in_box, st.lists(st.floats(-1, 1), min_size=3, max_size=3))
def test_arm_that_follows_is_never_refused(action: Any, target: Any, offset: Any) -> None:
    """Also where it has overshot and is a little outside the box."""
    measured = np.array(target) + np.array(offset) * 0.05 / np.sqrt(3)
    measured = np.clip(measured, LOW - 0.009, HIGH + 0.009)
    assert LIMITS.command(action, np.array(target), measured).target is not None


@pytest.mark.parametrize(
    ("action", "target", "measured", "limited"),
    [
        ([0.5, 0, 0], [0.45, 0, 0.4], [0.45, 0, 0.4], ()),
        ([2, 0, 0], [0.45, 0, 0.4], [0.45, 0, 0.4], ("action",)),
        ([1, 1, 0], [0.45, 0, 0.4], [0.45, 0, 0.4], ("speed",)),
        ([1, 0, 0], [0.59, 0, 0.4], [0.59, 0, 0.4], ("box",)),
        ([1, 0, 0], [0.45, 0, 0.4], [0.42, 0, 0.4], ("force",)),
    ],
)
def test_what_was_limited_is_said(action: Any, target: Any, measured: Any, limited: tuple[str, ...]) -> None:
    assert LIMITS.command(action, np.array(target), np.array(measured)).limited == limited


@pytest.mark.parametrize(
    ("action", "measured", "words"),
    [
        ([0, 0], [0.45, 0, 0.4], "shape"),
        ([0, np.nan, 0], [0.45, 0, 0.4], "not finite"),
        ([np.inf, 0, 0], [0.45, 0, 0.4], "not finite"),
        ("left", [0.45, 0, 0.4], "numbers"),
        ([0, 0, 0], [0.45, np.nan, 0.4], "not known"),
        ([0, 0, 0], [0.45, 0.4, 0.4], "away"),
        ([0, 0, 0], [0.58, 0.0, 0.4], "jump"),
    ],
)
def test_faults_say_why(action: Any, measured: Any, words: str) -> None:
    command = LIMITS.command(action, np.array([0.45, 0.0, 0.4]), np.array(measured))
    assert command.target is None
    assert words in command.fault


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ([0.45, 0.0, np.nan], "not finite"),
        ([0.45, 0.0, 0.3399], "outside"),
        ([0.6001, 0.0, 0.4], "outside"),
        ([0.45, 0.051, 0.4], "away"),
        ([0.45, 0.0, 0.4], ""),
    ],
)
def test_last_look_finds_what_the_rest_let_through(new: Any, words: str) -> None:
    middle = np.array([0.45, 0.0, 0.4])
    near = np.clip(middle, np.array(new) - 0.01, np.array(new) + 0.01) if words == "outside" else middle
    assert words in LIMITS.broken(np.array(new), near, near)
    assert bool(LIMITS.broken(np.array(new), near, near)) == bool(words)
