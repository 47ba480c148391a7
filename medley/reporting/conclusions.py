"""What the runs show together: averages with intervals, profiles, who is better than whom; as a page and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import combinations
from pathlib import Path

import numpy as np

from medley.reporting import apart, page, verdicts
from medley.reporting.aggregates import AGGREGATES, Interval, aggregates, probability_of_improvement
from medley.reporting.alignment import Aligned
from medley.reporting.comparison import FEW
from medley.reporting.formats import Cell, Table, words, write_table
from medley.reporting.runs import RunGroup
from medley.reporting.scores import Scored, scored
from medley.reporting.statistics import bootstrap_band
from medley.reporting.verdicts import Pair

Found = Sequence[tuple[RunGroup, Aligned]]
Figures = Sequence[Mapping[str, Interval]]


def statistics_section(found: Found, folder: Path) -> list[str]:
    """The pieces of a page; writes the tables `summary.*` and `summary_tasks.*` and the pictures into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    groups, reasons = scored(found)
    if not groups:
        why = " ".join(["There are no statistics.", *(reasons or ["No run has an evaluation."])])
        (folder / "summary.md").write_text(f"{why}\n", encoding="utf-8")
        return ["<h2>Statistics</h2>", page.note(why)]
    figures = [aggregates(group.final) for group in groups]
    pairs, incomparable = _pairs(groups)
    told = dict.fromkeys(note for group in groups for note in group.aligned.notes)
    said = [_about(groups), *told, *reasons, *incomparable]
    summary = _summary(groups, figures, said)
    write_table(folder / "summary", summary)
    write_table(folder / "summary_tasks", _by_task(groups))
    header, rows = summary.shown()
    body = [
        "<h2>Statistics</h2>",
        *map(page.note, [*reasons, *incomparable]),
        f'<p class="soft">{escape(f"{summary.caption}. {_about(groups)}")}</p>',
        page.table(header, [[page.cell(words(cell)) for cell in row] for row in rows]),
        _downloads(folder),
    ]
    return body + _pictures(groups, figures, pairs, folder)


def _pictures(groups: Sequence[Scored], figures: Figures, pairs: Sequence[Pair], folder: Path) -> list[str]:
    if sum(len(group.aligned.runs) for group in groups) < 2:
        return []  # nothing here says more about one run than its own curves
    pictures = [
        (verdicts.aggregate_picture(groups, figures, folder / "aggregates"), "averages with their intervals"),
        (verdicts.profile_picture(groups, folder / "profiles"), "share of runs and tasks above every score"),
    ]
    if pairs:
        best = groups[int(np.nanargmax([np.nan_to_num(own["IQM"].value, nan=-1.0) for own in figures]))].label
        drawn = verdicts.improvement_picture(pairs, best, folder / "improvement")
        pictures.append((drawn, "probability that one group is better than another"))
    if any(len(group.aligned.steps) > 1 for group in groups):
        drawn = verdicts.efficiency_picture(groups, folder / "sample_efficiency")
        pictures.append((drawn, "interquartile mean over steps and over minutes"))
    return [page.figure(picture, alt) for picture, alt in pictures]


def _summary(groups: Sequence[Scored], figures: Figures, notes: Sequence[str]) -> Table:
    measures = dict.fromkeys(group.measure for group in groups)
    # Runs that were pooled may share seeds: both are told then.
    pooled = any(len(set(group.aligned.seeds)) < len(group.aligned.seeds) for group in groups)
    obvious = [*["score"] * (len(measures) == 1), *["runs"] * (not pooled)]
    header = ["group", "score", "runs", "seeds", "tasks", "step", *AGGREGATES]
    rows: list[list[Cell]] = [
        [
            group.label,
            group.measure,
            len(group.aligned.seeds),
            len(set(group.aligned.seeds)),
            len(group.aligned.tasks),
            group.step,
            *(own[name] for name in AGGREGATES),
        ]
        for group, own in zip(groups, figures, strict=True)
    ]
    return Table(f"Final {' or '.join(measures)} in %, with 95 % intervals", header, rows, notes, obvious)


def _about(groups: Sequence[Scored]) -> str:
    runs = [len(group.aligned.runs) for group in groups]
    if max(runs) == 1:
        return "One run says nothing about other seeds: there are no intervals."
    text = "Intervals: stratified bootstrap over runs, tasks are strata. The optimality gap is what lacks to 100 %."
    few = min(count for count in runs if count > 1)
    return f"{text} Those of {few} runs are too narrow: differences of their size may be chance." if few < FEW else text


def _by_task(groups: Sequence[Scored]) -> Table:
    """A row per task, a column per group."""
    tasks = dict.fromkeys(task for group in groups for task in group.aligned.tasks)
    rows: list[list[Cell]] = [[task, *(_of_task(group, task) for group in groups)] for task in tasks]
    caption = f"Final {' or '.join(dict.fromkeys(g.measure for g in groups))} by task in %, with 95 % intervals"
    return Table(caption, ["task", *(group.label for group in groups)], rows)


def _of_task(group: Scored, task: str) -> Interval:
    if task not in group.aligned.tasks:
        return Interval(np.nan)
    index = group.aligned.tasks.index(task)
    band = bootstrap_band(group.final[:, index : index + 1, None])
    return Interval(float(band.mean[0]), float(band.mean_low[0]), float(band.mean_high[0]))


def _pairs(groups: Sequence[Scored]) -> tuple[list[Pair], list[str]]:
    """All pairs of one protocol, and why the others are not compared."""
    pairs, reasons = [], []
    for x, y in combinations(groups, 2):
        why = apart.reasons([x.group.runs, y.group.runs])
        both = np.intersect1d(x.aligned.steps, y.aligned.steps)
        if why:
            told = "; ".join(f"{option} is {values[0]} and {values[1]}" for option, values in why[:3])
            reasons.append(f"{x.label} and {y.label} are not compared: {told}.")
        elif not both.size:
            reasons.append(f"{x.label} and {y.label} are not compared: they were never evaluated at the same step.")
        else:
            a, b = (group.values[..., group.aligned.steps.tolist().index(both[-1])] for group in (x, y))
            order = [y.aligned.tasks.index(task) for task in x.aligned.tasks]
            pairs.append(Pair(x.label, y.label, int(both[-1]), probability_of_improvement(a, b[:, order])))
    return pairs, reasons if len(reasons) <= 6 else [*reasons[:6], f"{len(reasons) - 6} more pairs are not compared."]


def _downloads(folder: Path) -> str:
    kinds = {"md": "text/markdown", "tex": "application/x-tex", "csv": "text/csv"}
    files = [folder / f"{stem}.{kind}" for stem in ("summary", "summary_tasks") for kind in kinds]
    links = (
        f'<a download="{file.name}" href="{page.data_uri(file, kinds[file.suffix[1:]])}">{file.name}</a>'
        for file in files
    )
    return f'<p class="soft">As tables: {", ".join(links)}</p>'
