"""The live panel of a run on a terminal: progress, time left, rates, and the success of every task."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from medley.reporting.console import Console

RECENT = 30.0  # seconds over which speeds are told


class Panels(Console):
    """Progress bar, time left, rates, and the success of every task."""

    def __init__(self, title: str, tasks: tuple[str, ...], total: int, start: int) -> None:
        self.tasks, self.total, self.title = tasks, total, title
        self.step = start
        self.latest: dict[str, dict[str, Any]] = {}
        self.recent: deque[tuple[float, int, int]] = deque()  # when, step, updates
        self.drawn = time.monotonic()
        self.rates = ""
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("steps ·"),
            TimeElapsedColumn(),
            TextColumn("· left"),
            TextColumn("{task.fields[left]}"),
            expand=True,
        )
        self.bar_id = self.bar.add_task("training", total=total, completed=start, left=_duration(None))
        self.live = Live(self._draw(), console=RichConsole(), refresh_per_second=4, transient=False)
        self.live.start()

    def note(self, text: str) -> None:
        self.live.console.print(text, highlight=False, markup=False)

    def progress(self, step: int, updates: int, doing: str = "training") -> None:
        self.step = step
        now = time.monotonic()
        if now - self.drawn < 0.25 and self.recent:  # a redraw costs a millisecond
            return
        self.drawn = now
        steps, learnt = self._speed(now, step, updates)
        self.rates = f"{steps:,.0f} steps/s · {learnt:,.0f} updates/s"
        left = max(self.total - step, 0) / steps if steps and learnt else None  # random steps say nothing of the others
        self.bar.update(self.bar_id, completed=step, description=doing, left=_duration(left))
        self.live.update(self._draw())

    def _speed(self, now: float, step: int, updates: int) -> tuple[float, float]:
        """Steps and updates per second, of late; since learning began, once it has."""
        if len(self.recent) > 1 and self.recent[0][2] == self.recent[-1][2] < updates:
            self.recent.clear()
        self.recent.append((now, step, updates))
        while len(self.recent) > 2 and now - self.recent[1][0] > RECENT:
            self.recent.popleft()
        then, from_step, from_updates = self.recent[0]
        seconds = max(now - then, 1e-9)
        return (step - from_step) / seconds, (updates - from_updates) / seconds

    def write(self, kind: str, row: dict[str, Any]) -> None:
        self.latest[kind] = row
        self.live.update(self._draw())

    def close(self) -> None:
        self.bar.update(self.bar_id, completed=self.step, description="done" if self.step >= self.total else "stopped")
        self.live.update(self._draw())
        self.live.stop()

    def _draw(self) -> Panel:
        table = Table(box=None, pad_edge=False, expand=True)
        for column in ("task", "success, training", "success, evaluated", "return, evaluated"):
            table.add_column(column, justify="left" if column == "task" else "right")
        train, evaluated = self.latest.get("train", {}), self.latest.get("eval", {})
        shown = self.tasks if len(self.tasks) <= 12 else ()
        for i, task in enumerate(shown):
            table.add_row(
                task,
                _percent(train.get(f"success_env_index_{i}")),
                _percent(evaluated.get(f"success_env_index_{i}")),
                _number(evaluated.get(f"episode_reward_env_index_{i}")),
            )
        table.add_row(
            f"mean of {len(self.tasks)} tasks",
            _percent(train.get("success")),
            _percent(evaluated.get("success")),
            _number(evaluated.get("episode_reward")),
            style="bold",
        )
        return Panel(Group(self.bar, self.rates, table), title=self.title, border_style="cyan")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-:--:--"
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
