"""Pictures of learning: all tasks together, task by task, and what training itself reported.

How seeds that were evaluated at different steps are brought together is `alignment.align`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from medley.reporting import style
from medley.reporting.alignment import Aligned
from medley.reporting.statistics import Band
from medley.reporting.style import Picture

_BAND = ("mean", "mean_low", "mean_high", "iqm", "iqm_low", "iqm_high")


def learning_curve(groups: Sequence[Aligned], stem: Path) -> Picture:
    """Success and return over steps, one line per group."""
    kinds = [name for name in ("success", "return") if any(_known(group, name) for group in groups)] or ["success"]
    figure = style.new_figure(4.9 * len(kinds), 3.5)
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    # Fewer than four scores have no middle half: the dashed line would only hide the solid one.
    middle = any(group.success.shape[0] * group.success.shape[1] >= 4 for group in groups)
    for axes, kind in zip(panels, kinds, strict=True):
        style.dress(axes, "mean success" if kind == "success" else "mean return")
        for index, group in enumerate(groups):
            band = _band(group, kind)
            _draw(axes, group, band, index)
            if middle:
                axes.plot(group.steps, band.iqm, color=style.colour(index), linewidth=1.0, linestyle=":")
        _finish(axes, kind)
        axes.set_xlabel("steps", fontsize=8.5, color=style.INK)
    handles, labels = _keys(groups)
    if middle:
        handles.append(Line2D([], [], color=style.INK, linewidth=1.0, linestyle=":"))
        labels.append("interquartile mean")
    style.legend(figure, handles, labels)

    header = ["group", "step", "seeds", "tasks"] + [f"{kind}_{part}" for kind in kinds for part in _BAND]
    rows = (
        [group.label, int(step), len(group.seeds), len(group.tasks)]
        + [float(getattr(_band(group, kind), part)[point]) for kind in kinds for part in _BAND]
        for group in groups
        for point, step in enumerate(group.steps)
    )
    caption = "Mean over seeds and tasks" + (", dotted: the mean of the middle half. " if middle else ". ")
    caption += _about_band(groups, "tasks are strata")
    return style.save(figure, stem, caption, header, rows)


def task_curves(groups: Sequence[Aligned], stem: Path) -> Picture:
    """Small multiples: one panel per task, with the same axes for all, and every group in each."""
    tasks = list(dict.fromkeys(task for group in groups for task in group.tasks))
    kind = "success" if any(_known(group, "success") for group in groups) else "return"
    columns = min(len(tasks), 5) if len(tasks) <= 20 else 6
    rows = math.ceil(len(tasks) / columns)
    width, height = (2.0, 1.75) if columns <= 5 else (1.7, 1.35)
    figure = style.new_figure(max(4.9, width * columns), max(2.6, height * rows + 0.5))
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=kind == "success").ravel()
    table: list[list[Any]] = []
    for axes, task in zip(panels, tasks, strict=False):
        style.dress(axes, style.clean(task, 26), size=8.5 if columns <= 5 else 7.5)
        for index, group in enumerate(groups):
            if task in group.tasks:
                band = group.task_band(task, returns=kind == "return")
                _draw(axes, group, band, index, linewidth=1.4)
                columns_of = (band.mean, band.mean_low, band.mean_high)
                for step, *values in zip(group.steps, *columns_of, strict=True):
                    table.append([group.label, task, int(step), len(group.seeds), *map(float, values)])
        _finish(axes, kind, small=True)
    for axes in panels[len(tasks) :]:
        axes.set_visible(False)
    # With shared axes only the lowest row is labelled; a column that ends earlier is labelled where it ends.
    for axes in panels[max(0, len(tasks) - columns) : len(tasks)]:
        axes.tick_params(labelbottom=True)
    if len(groups) > 1:
        style.legend(figure, *_keys(groups))
    header = ["group", "task", "step", "seeds", f"{kind}_mean", f"{kind}_mean_low", f"{kind}_mean_high"]
    caption = f"Mean {kind} of each task over steps. " + _about_band(groups, "one task at a time")
    return style.save(figure, stem, caption, header, table)


def _known(group: Aligned, kind: str) -> bool:
    return bool(np.isfinite(group.success if kind == "success" else group.returns).any())


def _band(group: Aligned, kind: str) -> Band:
    return group.success_band if kind == "success" else group.return_band


def _draw(axes: Any, group: Aligned, band: Band, index: int, linewidth: float = 1.9) -> None:
    shade = style.colour(index)
    # A curve of one or two points would be invisible or look like a trend: show the points themselves.
    marker = "o" if len(group.steps) <= 12 else None
    axes.plot(
        group.steps,
        band.mean,
        color=shade,
        linestyle=style.dash(index),
        linewidth=linewidth,
        marker=marker,
        markersize=linewidth * 1.6,
    )
    if band.known:
        axes.fill_between(group.steps, band.mean_low, band.mean_high, color=shade, alpha=0.16, linewidth=0)


def _finish(axes: Any, kind: str, small: bool = False) -> None:
    style.step_axis(axes, 6.5 if small else 7.5)
    if kind == "success":
        style.percent_axis(axes)
        if small:
            axes.set_yticks([0, 0.5, 1.0], ["0", "50", "100 %"])
            axes.tick_params(labelsize=6.5)


def _keys(groups: Sequence[Aligned]) -> tuple[list[Any], list[str]]:
    """Handles and labels of the legend."""
    return [_line(index) for index in range(len(groups))], list(_labels(groups))


def _line(index: int) -> Line2D:
    return Line2D([], [], color=style.colour(index), linestyle=style.dash(index), linewidth=1.9)


def _labels(groups: Sequence[Aligned]) -> Iterator[str]:
    for group in groups:
        count = len(group.seeds)
        yield f"{style.clean(group.label)} ({count} seed{'s' if count > 1 else ''})"


def _about_band(groups: Sequence[Aligned], strata: str) -> str:
    if all(len(group.seeds) == 1 for group in groups):
        return "One seed: no band, for one seed says nothing about others."
    return f"Band: 95 % bootstrap interval of the mean over seeds ({strata})."
