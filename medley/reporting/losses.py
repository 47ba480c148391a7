"""A picture of what training reported while it ran: losses, temperature, rewards."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from medley.reporting import style
from medley.reporting.run_files import number
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.style import Picture
from medley.reporting.thinning import binned

_FIRST = ("success", "episode_reward", "batch_reward", "critic_loss", "actor_loss", "alpha_value")
_LINEAR = ("success", "episode_reward", "batch_reward")
_MOST_PANELS = 9
_BINS = 120


def training_curves(groups: Sequence[RunGroup], stem: Path) -> Picture | None:
    """One panel per quantity, one thin line per seed in its group's colour; None where no run logged any.

    A log has a row per episode: rows are averaged in 120 bins of steps, or a picture would show only noise.
    """
    keys = _quantities([run for group in groups for run in group.runs])
    if not keys:
        return None
    columns = min(3, len(keys))
    lines = math.ceil(len(keys) / columns)
    figure = style.new_figure(3.3 * columns, 2.2 * lines + (0.4 if len(groups) > 1 else 0.0))
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    table: list[list[Any]] = []
    shaded = _has_alphas(groups)
    lowest = dict.fromkeys(keys, math.inf)
    highest = dict.fromkeys(keys, -math.inf)
    for index, group in enumerate(groups):
        for run in group.runs:
            steps, values = binned(run, keys, _BINS)
            for axes, key, line in zip(panels, keys, values.T, strict=False):
                axes.plot(
                    steps,
                    line,
                    color=style.colour(index),
                    linestyle=style.dash(index),
                    linewidth=1.1,
                    alpha=0.8,
                )
                if key == "alpha_value" and shaded:
                    _alpha_range(axes, run, index)
                finite = line[np.isfinite(line)]
                if finite.size:
                    lowest[key], highest[key] = (
                        min(lowest[key], finite.min()),
                        max(highest[key], finite.max()),
                    )
            table.extend(
                [group.label, run.seed, int(step), *map(float, row)] for step, row in zip(steps, values, strict=True)
            )
    for axes, key in zip(panels, keys, strict=False):
        name = f"training {key}" if key in ("success", "episode_reward") else key
        style.dress(axes, style.clean(name.replace("_", " "), 32))
        style.step_axis(axes)
        # Losses that span decades show only their peak on a linear axis.
        if key not in _LINEAR and lowest[key] > 0 and highest[key] > 50 * lowest[key]:
            axes.set_yscale("log")
    for axes in panels[len(keys) :]:
        axes.set_visible(False)
    if len(groups) > 1:
        handles = [Line2D([], [], color=style.colour(i), linestyle=style.dash(i)) for i in range(len(groups))]
        style.legend(figure, handles, [style.clean(group.label) for group in groups])
    caption = "What training reported, averaged in bins of steps; one line per seed"
    caption += ", shaded: the range over tasks." if shaded else "."
    return style.save(figure, stem, caption, ["group", "seed", "step", *keys], table)


def _quantities(runs: Sequence[RunData]) -> list[str]:
    found: dict[str, None] = {}
    for run in runs:
        # The first row may come before the first update: look at the last ones too.
        for row in run.train[:1] + run.train[-20:]:
            for key, value in row.items():
                if math.isfinite(number(value)) and (key in _FIRST or key.endswith("_loss")):
                    found[key] = None
    known = [key for key in _FIRST if key in found]
    return (known + sorted(key for key in found if key not in _FIRST))[:_MOST_PANELS]


def _alpha_keys(run: RunData) -> list[str]:
    return [key for key in (run.train[-1] if run.train else {}) if re.fullmatch(r"alpha_\d+", key)]


def _has_alphas(groups: Sequence[RunGroup]) -> bool:
    """Whether the range over tasks is drawn: bands of many seeds would hide everything."""
    runs = [run for group in groups for run in group.runs]
    return len(runs) <= 2 and any(len(_alpha_keys(run)) > 1 for run in runs)


def _alpha_range(axes: Any, run: RunData, index: int) -> None:
    """Between the coldest and the hottest task."""
    keys = _alpha_keys(run)
    if len(keys) < 2:
        return
    steps, values = binned(run, keys, _BINS)
    known = ~np.isnan(values).any(axis=1)
    low, high = values[known].min(axis=1), values[known].max(axis=1)
    axes.fill_between(steps[known], low, high, color=style.colour(index), alpha=0.13, linewidth=0)
