"""Pictures of the statistics, after those of rliable: averages, profiles, improvement, sample efficiency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from medley.reporting import style
from medley.reporting.aggregates import AGGREGATES, Interval, performance_profile
from medley.reporting.scores import Scored
from medley.reporting.statistics import Band, Floats, bootstrap_band
from medley.reporting.style import Picture

THRESHOLDS = np.linspace(0.0, 1.0, 101)
_MINUTES = 60  # points of a curve over time
_MOST_PAIRS = 28  # in one picture


class Pair(NamedTuple):
    """How likely `x` is better than `y` at a step that both have."""

    x: str
    y: str
    step: int
    probability: Interval


def aggregate_picture(groups: Sequence[Scored], figures: Sequence[Mapping[str, Interval]], stem: Path) -> Picture:
    """A row for every group and a panel for every average."""
    figure = style.new_figure(9.8, 1.0 + 0.42 * len(groups))
    panels = figure.subplots(1, len(AGGREGATES), sharey=True)
    for axes, name in zip(panels, AGGREGATES, strict=True):
        style.dress(axes, name)
        for index, own in enumerate(figures):
            _interval(axes, index, own[name], style.colour(index))
        _zoom(axes, [value for own in figures for value in own[name]])
        axes.set_xlabel(f"{'less' if name == 'optimality gap' else 'more'} is better", fontsize=7.5, color=style.INK)
        _names(axes, [group.label for group in groups])
    header = ["group", "score", "aggregate", "value", "low", "high"]
    rows = [
        [group.label, group.measure, name, *own[name]]
        for group, own in zip(groups, figures, strict=True)
        for name in AGGREGATES
    ]
    caption = f"Final {_measures(groups)} over runs and tasks. {_about(groups)} The panels' axes differ."
    return style.save(figure, stem, caption, header, rows)


def profile_picture(groups: Sequence[Scored], stem: Path) -> Picture:
    """For every score, the share of runs and tasks that have more."""
    figure = style.new_figure(7.4, 3.5 + style.legend_height(7.4, _labels(groups)))
    axes = figure.subplots()
    style.dress(axes, f"performance profile of {_measures(groups)}")
    rows: list[list[Any]] = []
    for index, group in enumerate(groups):
        profile = performance_profile(group.final, THRESHOLDS)
        shade = style.colour(index)
        axes.step(profile.thresholds, profile.share, where="post", color=shade, linestyle=style.dash(index), lw=1.9)
        axes.fill_between(
            profile.thresholds, profile.low, profile.high, step="post", color=shade, alpha=_faint(groups), linewidth=0
        )
        columns = zip(profile.thresholds, profile.share, profile.low, profile.high, strict=True)
        rows += [[group.label, group.measure, *map(float, column)] for column in columns]
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    style.percent_axis(axes)
    axes.set_xlabel("threshold", fontsize=8.5, color=style.INK)
    axes.set_ylabel("share of runs × tasks above it", fontsize=8.5, color=style.INK)
    _legend(figure, groups)
    caption = f"The share of runs and tasks whose final score is above a threshold. {_about(groups, 'Band')}"
    return style.save(figure, stem, caption, ["group", "score", "threshold", "share", "low", "high"], rows)


def improvement_picture(pairs: Sequence[Pair], best: str, stem: Path) -> Picture:
    """A row for every pair: how likely the left one is better than the right one."""
    of_best = [pair for pair in pairs if best in (pair.x, pair.y)]
    drawn = pairs if len(pairs) <= _MOST_PAIRS else of_best or pairs[:_MOST_PAIRS]
    figure = style.new_figure(9.0, 1.0 + 0.42 * len(drawn))
    axes = figure.subplots()
    style.dress(axes, "how likely the left one is better than the right one")
    for index, pair in enumerate(drawn):
        _interval(axes, index, pair.probability, style.COLOURS[0])
    axes.axvline(0.5, color=style.INK, linewidth=0.9, linestyle=(0, (3, 2)))
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    _names(axes, [pair.x for pair in drawn])
    other = axes.twinx()
    other.spines[:].set_visible(False)
    other.tick_params(length=0, colors=style.INK)
    _names(other, [pair.y for pair in drawn])
    caption = (
        "Probability that a run of one group scores more than a run of the other on the same task, averaged over tasks "
        "(Mann and Whitney; a tie counts half), with its 95 % bootstrap interval. At 50 % neither is better."
    )
    if len(drawn) < len(pairs):
        which = f"the pairs with {best}" if of_best else f"the first {len(drawn)} pairs"
        caption += f" Only {which} are drawn; the table has all {len(pairs)}."
    rows = [[pair.x, pair.y, pair.step, *pair.probability] for pair in pairs]
    return style.save(figure, stem, caption, ["x", "y", "step", "probability", "low", "high"], rows)


def efficiency_picture(groups: Sequence[Scored], stem: Path) -> Picture:
    """IQM over steps, and over minutes of training where all logs have them."""
    curves = {"environment steps per task": [(g.env_steps, bootstrap_band(g.values)) for g in groups]}
    timed = [_over_minutes(group) for group in groups]
    if all(timed):
        curves["minutes of training"] = [curve for curve in timed if curve]
    width = 4.9 * len(curves)
    figure = style.new_figure(width, 3.3 + style.legend_height(width, _labels(groups)))
    rows: list[list[Any]] = []
    for axes, (against, lines) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        style.dress(axes, f"IQM of {_measures(groups)}")
        for index, (group, (x, band)) in enumerate(zip(groups, lines, strict=True)):
            marker = "o" if len(group.aligned.steps) <= 12 and "steps" in against else None
            dashes, shade = style.dash(index), style.colour(index)
            axes.plot(x, band.iqm, color=shade, linestyle=dashes, linewidth=1.9, marker=marker, markersize=3)
            axes.fill_between(x, band.iqm_low, band.iqm_high, color=shade, alpha=_faint(groups), linewidth=0)
            columns = zip(x, band.iqm, band.iqm_low, band.iqm_high, strict=True)
            rows += [[group.label, group.measure, against, *map(float, column)] for column in columns]
        style.step_axis(axes)
        if "minutes" in against:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        style.percent_axis(axes)
        axes.set_xlabel(against, fontsize=8.5, color=style.INK)
    ends = [float(band.iqm[-1]) for _, band in curves["environment steps per task"]]
    _legend(figure, groups, sorted(range(len(groups)), key=lambda index: -ends[index]))
    caption = f"The interquartile mean over runs and tasks as training goes on. {_about(groups, 'Band')}"
    if len(curves) > 1:
        caption += " Minutes are without evaluations"
        caption += ", and of machines that differ." if _machines(groups) > 1 else "."
    return style.save(figure, stem, caption, ["group", "score", "against", "x", "iqm", "low", "high"], rows)


def _over_minutes(group: Scored) -> tuple[Floats, Band] | None:
    """Scores at equal times, within what all runs of the group cover."""
    minutes = group.minutes
    if minutes is None or len(group.aligned.steps) < 2 or minutes[:, 0].max() >= minutes[:, -1].min():
        return None
    at = np.linspace(minutes[:, 0].max(), minutes[:, -1].min(), _MINUTES)
    runs = [[np.interp(at, own, task) for task in run] for own, run in zip(minutes, group.values, strict=True)]
    return at, bootstrap_band(np.array(runs))


def _interval(axes: Any, row: int, interval: Interval, shade: str) -> None:
    value, low, high = interval
    if not math.isnan(low):
        axes.barh(row, high - low, left=low, height=0.5, color=shade, alpha=0.35, linewidth=0)
    axes.plot([value, value], [row - 0.25, row + 0.25], color=shade, linewidth=2.2)


def _zoom(axes: Any, values: Sequence[float]) -> None:
    """To where the figures are, but never so far that a per cent looks like much."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    middle, half = (min(known) + max(known)) / 2, max(0.06, 0.6 * (max(known) - min(known)))
    axes.set_xlim(middle - half, middle + half)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def _names(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [style.wrapped(label) for label in labels], fontsize=8, parse_math=False)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _legend(figure: Any, groups: Sequence[Scored], order: Sequence[int] = ()) -> None:
    """In the given order, or that of the groups: of many lines, the best should be found first."""
    order, labels = order or range(len(groups)), _labels(groups)
    lines = [Line2D([], [], color=style.colour(i), linestyle=style.dash(i), lw=1.9) for i in order]
    style.legend(figure, lines, [labels[i] for i in order])


def _labels(groups: Sequence[Scored]) -> list[str]:
    counted = [(style.shortened(group.label, 60), len(group.aligned.runs)) for group in groups]
    return [f"{label} ({count} run{'s' if count > 1 else ''})" for label, count in counted]


def _faint(groups: Sequence[Scored]) -> float:
    """How dense bands are: many on top of one another would hide the lines."""
    return 0.16 if len(groups) <= 4 else 0.07


def _measures(groups: Sequence[Scored]) -> str:
    return " or ".join(dict.fromkeys(group.measure for group in groups))


def _machines(groups: Sequence[Scored]) -> int:
    runs = [run for group in groups for run in group.aligned.runs]
    return len({str((run.info.get("machine"), run.info.get("device"))) for run in runs})


def _about(groups: Sequence[Scored], what: str = "Bar") -> str:
    if all(len(group.aligned.runs) == 1 for group in groups):
        return "One run each: nothing can be said about other seeds."
    return f"{what}: 95 % stratified bootstrap interval over runs, with tasks as strata."
