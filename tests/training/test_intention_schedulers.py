"""What is wanted next, and what a scheduler learns of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from medley.errors import ConfigError
from medley.training.intention_schedulers import (
    KINDS,
    IntentionScheduler,
    IntentionSchedulerConfig,
    check_intention_scheduler,
)

ROWS = [[0.4, 0.4, 0.2], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def make(
    kind: str = "weighted", slots: int = 1, horizon: int = 50, seed: int = 0, **options: Any
) -> IntentionScheduler:
    given = {"first": ROWS[0], "after": ROWS} if kind == "conditional" else {}
    config = IntentionSchedulerConfig(kind=kind, **{**given, **options})
    check_intention_scheduler(config, 3)
    return IntentionScheduler(config, 3, slots, horizon, 0.9, seed)


def play(
    scheduler: IntentionScheduler, episodes: int, horizon: int, reward: Any = lambda wanted: 0.0
) -> list[list[int]]:
    """The sequences of so many episodes in the only slot."""
    seen = []
    for _ in range(episodes):
        for t in range(horizon):
            if t == horizon - 1:
                seen.append(scheduler.histories()[0])
            wanted = int(scheduler.current[0])
            scheduler.advance(np.array([reward(wanted)]), np.array([t == horizon - 1]))
    return seen


def test_a_period_of_25_gives_two_choices_in_50_steps() -> None:
    assert {len(one) for one in play(make(period=25), 20, 50)} == {2}
    assert {len(one) for one in play(make(), 20, 50)} == {2}  # half an episode is the default
    assert {len(one) for one in play(make(period=20), 20, 50)} == {3}


def test_the_chances_are_those_asked_for() -> None:
    choices = np.concatenate(play(make(period=1, main=0.6), 40, 50))
    np.testing.assert_allclose(np.bincount(choices, minlength=3) / len(choices), [0.6, 0.2, 0.2], atol=0.03)
    choices = np.concatenate(play(make("uniform", period=1), 40, 50))
    np.testing.assert_allclose(np.bincount(choices, minlength=3) / len(choices), 1 / 3, atol=0.03)
    assert set(np.concatenate(play(make("fixed", fixed=2, period=5), 5, 50))) == {2}


def test_conditional_choices_follow_from_the_one_before() -> None:
    for sequence in play(make("conditional", period=5), 30, 50):
        for before, after in pairwise(sequence):
            assert after in ({1: {2}, 2: {0}}.get(before, {0, 1, 2}))


def test_handcrafted_lists_are_followed_and_short_ones_go_on_with_their_last() -> None:
    lists = [[1, 2, 0], [0]]
    sequences = play(make(period=10, lists=lists, list_share=1.0), 40, 50)
    assert {tuple(one) for one in sequences} == {(1, 2, 0, 0, 0), (0, 0, 0, 0, 0)}
    free = play(make(period=10, lists=lists, list_share=0.5), 200, 50)
    share = np.mean([tuple(one) in {(1, 2, 0, 0, 0), (0, 0, 0, 0, 0)} for one in free])
    assert 0.4 < share < 0.7


def test_cycling_takes_whole_episodes_in_turn() -> None:
    sequences = play(make("cycle", period=10, episodes=[2, 1, 1]), 8, 50)
    assert [set(one) for one in sequences] == [{0}, {0}, {1}, {2}] * 2


def test_a_table_learns_discounted_rewards_by_history() -> None:
    scheduler = make("q_table", period=2, horizon=4, rate=0.5, temperature=1.0, temperature_decay=1.0)
    (sequence,) = play(scheduler, 1, 4, reward=lambda wanted: 1.0)
    first, second = sequence
    rows = {(): {first: 0.5 * (1 + 0.9 + 0.81 + 0.729)}, (first,): {second: 0.5 * 1.9}}
    for history, values in rows.items():
        for k in range(3):
            assert scheduler.table[history][k] == pytest.approx(values.get(k, 0.0))
    assert len(scheduler.table) == 2


def test_a_table_comes_to_want_what_helps_the_main_one() -> None:
    """Only where the second intention was first does the main one gain anything."""
    scheduler = make("q_table", period=2, horizon=4, temperature=1.0, temperature_decay=0.99, temperature_end=0.05)
    memory: list[int] = []

    def reward(wanted: int) -> float:
        memory.append(wanted)
        return float(memory[-3:-1] == [1, 1] and wanted == 0)

    play(scheduler, 300, 4, reward)
    assert np.argmax(scheduler.chances([])) == 1
    assert np.argmax(scheduler.chances([1])) == 0
    assert scheduler.temperature == 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_on_exactly(kind: str) -> None:
    options: dict[str, Any] = {"lists": [[1, 0]], "list_share": 0.3} if kind != "fixed" else {}
    one, other = (make(kind, slots=2, period=3, seed=s, **options) for s in (0, 5))
    random = np.random.default_rng(0)
    steps = [(random.normal(size=2), random.random(2) < 0.1) for _ in range(60)]
    for reward, ended in steps[:31]:
        one.advance(reward, ended)
    other.set_state(one.state())
    for reward, ended in steps[31:]:
        np.testing.assert_array_equal(one.advance(reward, ended), other.advance(reward, ended))
        np.testing.assert_array_equal(one.current, other.current)
    assert one.table == other.table
    assert one.histories() == other.histories()


def test_switches_are_where_something_else_is_wanted() -> None:
    scheduler = make("conditional", period=2)
    before = scheduler.current.copy()
    for t in range(1, 41):
        switched = scheduler.advance(np.zeros(1), np.array([t == 40]))
        assert switched[0] == (scheduler.current[0] != before[0] or t == 40)
        before = scheduler.current.copy()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "uniforn"}, "uniform"),
        ({"period": 0}, "period=0"),
        ({"main": 1.5}, "main=1.5"),
        ({"lists": [[0, 3]]}, "from 0 to 2"),
        ({"kind": "conditional"}, "first"),
        ({"episodes": [1, 1]}, "3 numbers"),
        ({"temperature": 0.0}, "positive"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_intention_scheduler(IntentionSchedulerConfig(**options), 3)
