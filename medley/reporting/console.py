"""What a person sees while a run goes: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Any

from medley.config.schema import MetricsConfig


def format_line(kind: str, row: dict[str, Any], columns: dict[str, str]) -> str:
    """`| train | E: 1 | S: 1000 | D: 0.8 s | R: 0.0000 | BR: 0.0000 | ALOSS: 0.0000 | CLOSS: 0.0000`"""
    cells = [f"| {kind}"]
    for key, short in columns.items():
        value = row.get(key, 0.0)
        if key == "duration":
            cells.append(f"{short}: {value:.1f} s")
        elif isinstance(value, int) or key in ("step", "episode"):
            cells.append(f"{short}: {int(value)}")
        else:
            cells.append(f"{short}: {value:.4f}")
    return " | ".join(cells)


class Console:
    """Base: says nothing. `note` is for sentences, `progress` is called every chunk and must cost nothing."""

    def note(self, text: str) -> None:
        pass

    def progress(self, step: int, updates: int, doing: str = "training") -> None:
        pass

    def write(self, kind: str, row: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def _tell(text: str) -> None:
    """Whoever reads may go away, as a `tee` that is killed: a training does not end with that."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (AttributeError, OSError, ValueError):  # it is no file
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115


# ANSI colours of a line's first word, on a terminal only.
_COLOURS = {"train": "33", "eval": "32"}


class Lines(Console):
    def __init__(self, metrics: MetricsConfig) -> None:
        self.columns = {"train": metrics.train, "eval": metrics.eval}
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def note(self, text: str) -> None:
        _tell(text)

    def write(self, kind: str, row: dict[str, Any]) -> None:
        line = format_line(kind, row, self.columns[kind])
        if self.coloured:
            line = line.replace(kind, f"\033[{_COLOURS[kind]}m{kind}\033[0m", 1)
        _tell(line)


def make_console(
    how: str, metrics: MetricsConfig, title: str, tasks: tuple[str, ...], total: int, start: int
) -> Console:
    if how == "none":
        return Console()
    if how == "panel" or (how == "auto" and sys.stdout.isatty()):
        try:
            from medley.reporting.panel import Panels  # here, so that a bare machine without rich still gets lines
        except ImportError:
            return Lines(metrics)
        return Panels(title, tasks, total, start)
    return Lines(metrics)
