"""What to want next: how an episode is divided between intentions (Riedmiller et al. 2018; Ablett et al. 2023, 2024).

An episode is cut into periods; at the start of each an intention is chosen, the main one being number 0. The history h
of an episode is what was chosen in it so far.

    weighted     the main one with a chance of its own, the others alike
    uniform      all alike
    fixed        always the same
    conditional  by what was chosen before
    q_table      softmax(Q(h, .) / temperature); at the end of an episode Q(h, k) moves towards the discounted main
                 reward from that period's start on (SAC-Q)
    cycle        whole episodes of one intention after another

With `lists`, an episode follows one of some handcrafted sequences with a certain chance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.config.options import opt
from medley.errors import ConfigError, closest

Array = npt.NDArray[Any]
KINDS = ("weighted", "uniform", "fixed", "conditional", "q_table", "cycle")


@dataclass
class IntentionSchedulerConfig:
    kind: str = opt("weighted", "how the next intention is chosen: " + " | ".join(KINDS))
    period: int | None = opt(None, "steps between two choices; null: half an episode")
    main: float = opt(0.5, "kind=weighted: the chance of the main intention")
    fixed: int = opt(0, "kind=fixed: the number of the intention, the main one being 0")
    lists: list[list[int]] = opt([], "handcrafted sequences of intentions; a short one goes on with its last")
    list_share: float = opt(0.5, "with `lists`: the chance that an episode follows one of them")
    first: list[float] = opt([], "kind=conditional: the chance of each intention at the start of an episode")
    after: list[list[float]] = opt([], "kind=conditional: row i: the chances after intention i")
    temperature: float = opt(360.0, "kind=q_table: at the start; the larger, the more alike all intentions are")
    temperature_decay: float = opt(0.9995, "kind=q_table: factor per choice")
    temperature_end: float = opt(0.1, "kind=q_table: the least temperature")
    rate: float = opt(0.6, "kind=q_table: how far Q moves towards what an episode gave")
    episodes: list[int] = opt([], "kind=cycle: episodes of each intention in turn; empty: one of each")


class IntentionScheduler:
    """`current` [slots]: what every slot wants now. Everything it knows is in `state`."""

    def __init__(
        self, options: IntentionSchedulerConfig, intentions: int, slots: int, horizon: int, discount: float, seed: int
    ) -> None:
        self.options, self.intentions, self.discount = options, intentions, discount
        self.period = options.period or max(1, -(-horizon // 2))
        self.random = np.random.default_rng(seed)
        self.current = np.zeros(slots, dtype=np.int64)
        self.temperature = options.temperature
        self.table: dict[tuple[int, ...], list[float]] = {}  # rows are made when a history is met
        self._history: list[list[int]] = [[] for _ in range(slots)]
        self._rewards: list[list[float]] = [[] for _ in range(slots)]  # the main one's, in this episode
        self._list: list[list[int] | None] = [None] * slots
        self._begun = [0] * slots  # episodes
        for slot in range(slots):
            self._begin(slot)

    def histories(self) -> list[list[int]]:
        """What was chosen in the episode of every slot so far."""
        return [list(history) for history in self._history]

    def advance(self, main_reward: Array, ended: Array) -> Array:
        """A step was taken in every slot; says where what is wanted has changed, or the episode ended."""
        switched = np.array(ended, dtype=np.bool_)
        for slot, reward in enumerate(main_reward):
            self._rewards[slot].append(float(reward))
            if ended[slot]:
                self._learn(slot)
                self._begin(slot)
            elif len(self._rewards[slot]) % self.period == 0:
                before = self.current[slot]
                self._choose(slot)
                switched[slot] = self.current[slot] != before
        return switched

    def break_off(self, slots: Array) -> None:
        """Episodes begin anew there; nothing is learnt from the ones before."""
        for slot in slots:
            self._begin(int(slot))

    def _begin(self, slot: int) -> None:
        o = self.options
        self._history[slot], self._rewards[slot], self._list[slot] = [], [], None
        if o.lists and self.random.random() < o.list_share:
            self._list[slot] = list(o.lists[self.random.integers(len(o.lists))])
        self._choose(slot)
        self._begun[slot] += 1

    def _choose(self, slot: int) -> None:
        history, planned = self._history[slot], self._list[slot]
        if planned is not None:
            chosen = planned[min(len(history), len(planned) - 1)]
        elif self.options.kind == "fixed":
            chosen = self.options.fixed
        elif self.options.kind == "cycle":
            chosen = self._in_turn(slot)
        else:
            chosen = int(self.random.choice(self.intentions, p=self.chances(history)))
            if self.options.kind == "q_table":
                o = self.options
                self.temperature = max(o.temperature_end, self.temperature * o.temperature_decay)
        history.append(chosen)
        self.current[slot] = chosen

    def chances(self, history: Sequence[int]) -> Array:
        """Of every intention, after these."""
        o, n = self.options, self.intentions
        if n == 1 or o.kind == "uniform":
            return np.full(n, 1 / n)
        if o.kind == "conditional":
            row = np.array(o.after[history[-1]] if history else o.first, dtype=np.float64)
            return np.asarray(row / row.sum())
        if o.kind == "q_table":
            q = np.array(self.table.get(tuple(history), [0.0] * n)) / self.temperature
            weights = np.exp(q - q.max())
            return np.asarray(weights / weights.sum())
        return np.array([o.main, *[(1 - o.main) / (n - 1)] * (n - 1)])

    def _in_turn(self, slot: int) -> int:
        counts = self.options.episodes or [1] * self.intentions
        place = self._begun[slot] - bool(self._history[slot])  # within an episode it has been counted already
        place %= sum(counts)
        return int(np.searchsorted(np.cumsum(counts), place, side="right"))

    def _learn(self, slot: int) -> None:
        if self.options.kind != "q_table":
            return
        rewards, history = np.array(self._rewards[slot]), self._history[slot]
        for i, chosen in enumerate(history):
            rest = rewards[i * self.period :]
            gained = float((self.discount ** np.arange(len(rest)) * rest).sum())
            row = self.table.setdefault(tuple(history[:i]), [0.0] * self.intentions)
            row[chosen] += self.options.rate * (gained - row[chosen])

    # ---- saving

    def state(self) -> Array:
        """As bytes of JSON, since sequences have any length."""
        table = [[list(key), row] for key, row in self.table.items()]
        slots = [self._history, self._rewards, self._list, self._begun, self.current.tolist()]
        whole = {"random": self.random.bit_generator.state, "t": self.temperature, "table": table, "slots": slots}
        return np.frombuffer(json.dumps(whole).encode(), dtype=np.uint8).copy()

    def set_state(self, state: Array) -> None:
        whole = json.loads(state.tobytes().decode())
        self.random.bit_generator.state = whole["random"]
        self.temperature = whole["t"]
        self.table = {tuple(key): row for key, row in whole["table"]}
        self._history, self._rewards, self._list, self._begun, current = whole["slots"]
        self.current = np.array(current, dtype=np.int64)


def check_intention_scheduler(options: IntentionSchedulerConfig, intentions: int) -> None:
    o = options
    if o.kind not in KINDS:
        raise ConfigError(f"agent.scheduler.kind={o.kind!r} does not exist.{closest(o.kind, KINDS)}")
    if o.period is not None and o.period < 1:
        raise ConfigError(f"agent.scheduler.period={o.period} must be at least 1.")
    for key, share in (("main", o.main), ("list_share", o.list_share), ("rate", o.rate)):
        if not 0 <= share <= 1:
            raise ConfigError(f"agent.scheduler.{key}={share} must lie in [0, 1].")
    for key, used in (("lists", [k for one in o.lists for k in one]), ("fixed", [o.fixed])):
        if any(not 0 <= k < intentions for k in used) or any(not one for one in o.lists):
            raise ConfigError(f"agent.scheduler.{key} names intentions by numbers from 0 to {intentions - 1}.")
    if o.temperature <= 0 or o.temperature_end <= 0 or not 0 < o.temperature_decay <= 1:
        raise ConfigError("agent.scheduler: temperatures must be positive, their decay in (0, 1].")
    if o.episodes and (len(o.episodes) != intentions or min(o.episodes) < 0 or not sum(o.episodes)):
        raise ConfigError(f"agent.scheduler.episodes={o.episodes} must be {intentions} numbers, one per intention.")
    if o.kind == "conditional":
        rows = [o.first, *o.after]
        if len(rows) != intentions + 1 or any(len(r) != intentions or min(r) < 0 or not sum(r) for r in rows):
            raise ConfigError(
                f"agent.scheduler.kind=conditional needs `first` and one row of `after` for each of the {intentions} "
                f"intentions, {intentions} chances each."
            )
