"""The live panel of a run on a terminal: progress, time left, rates, and the success of every task."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from medley.reporting.console import Console


class Panels(Console):
    """Progress bar, time left, rates, and the success of every task."""

    def __init__(self, title: str, tasks: tuple[str, ...], total: int, start: int) -> None:
        self.tasks, self.total, self.start, self.title = tasks, total, start, title
        self.step = start
        self.latest: dict[str, dict[str, Any]] = {}
        self.first_updates: int | None = None
        self.began = self.drawn = time.monotonic()
        self.rates = ""
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("steps ·"),
            TimeElapsedColumn(),
            TextColumn("· left"),
            TimeRemainingColumn(),
            expand=True,
        )
        self.bar_id = self.bar.add_task("training", total=total, completed=start)
        self.live = Live(self._draw(), console=RichConsole(), refresh_per_second=4, transient=False)
        self.live.start()

    def note(self, text: str) -> None:
        self.live.console.print(text, highlight=False, markup=False)

    def progress(self, step: int, updates: int, doing: str = "training") -> None:
        if self.first_updates is None:
            self.first_updates = updates
        self.step = step
        now = time.monotonic()
        if now - self.drawn < 0.25:  # a redraw costs a millisecond
            return
        self.drawn = now
        seconds = max(now - self.began, 1e-9)
        self.rates = (
            f"{(step - self.start) / seconds:,.0f} steps/s · {(updates - self.first_updates) / seconds:,.0f} updates/s"
        )
        self.bar.update(self.bar_id, completed=step, description=doing)
        self.live.update(self._draw())

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


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
