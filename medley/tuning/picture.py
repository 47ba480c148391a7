"""What a search has found so far: `trials.png`, with its numbers in `trials.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator, NullFormatter

from medley.reporting import style
from medley.tuning.study import Tried, best_of

COLUMNS = 3


def write(folder: Path, trials: Sequence[Tried], space: dict[str, Any], objective: str, seeds: Sequence[int]) -> Path:
    """The value of every trial in order, and over each of the options that were searched."""
    each = [f"seed_{seed}" for seed in seeds]
    header = ["trial", "state", objective, *(each if len(each) > 1 else []), *space, "folder"]
    rows = [
        [t.number, t.state, t.value, *(t.seeds.get(s) for s in each if len(each) > 1)]
        + [t.params.get(name) for name in space]
        + [t.folder.name]
        for t in trials
    ]
    scored = [t for t in trials if t.value is not None]
    columns = min(COLUMNS, 1 + len(space))
    lines = -(-(1 + len(space)) // columns)
    figure = style.new_figure(3.4 * columns, 2.7 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True).flat
    first = next(panels)
    _history(first, scored, objective)
    for name, axes in zip(space, panels, strict=False):
        _over(axes, scored, name, space[name])
    for axes in panels:
        axes.set_visible(False)
    return style.save(figure, folder / "trials", "", header, rows).csv


def _history(axes: Any, scored: Sequence[Tried], objective: str) -> None:
    style.dress(axes, "trials, and the best so far")
    _dots(axes, scored, [t.number for t in scored])
    best: list[float] = []
    for i in range(len(scored)):
        now = best_of(list(scored[: i + 1]))
        best.append(float("nan") if now is None or now.value is None else now.value)
    axes.step([t.number for t in scored], best, where="post", color=style.INK, linewidth=1.0)
    axes.set_ylabel(objective, fontsize=8.5, color=style.INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _over(axes: Any, scored: Sequence[Tried], name: str, distribution: Any) -> None:
    style.dress(axes, style.clean(name.removeprefix("agent.")))
    own = [t for t in scored if name in t.params]
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        _dots(axes, own, [choices.index(t.params[name]) for t in own])
        axes.set_xticks(range(len(choices)), [style.clean(str(c), 16) for c in choices])
        axes.set_xlim(-0.5, len(choices) - 0.5)
        return
    low, high, kind = distribution.low, distribution.high, type(distribution).__name__
    if "Log" in kind:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", which="minor", color=style.FAINT)
        axes.set_xlim(low * 0.8, high * 1.25)
    else:
        axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer="Int" in kind))
    _dots(axes, own, [t.params[name] for t in own])


def _dots(axes: Any, trials: Sequence[Tried], places: Sequence[Any]) -> None:
    best = best_of(list(trials))
    for trial, x in zip(trials, places, strict=True):
        chosen, pruned = trial == best, trial.state == "pruned"
        colour = style.colour(1 if chosen else 0)
        face = "white" if pruned else colour
        axes.plot([x], [trial.value], "o", markersize=6 if chosen else 4.5, color=colour, markerfacecolor=face)
