"""What stands at the top of a page, as plain text: what these runs are, what does not compare, the key figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from medley.reporting import page
from medley.reporting.alignment import Aligned
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.tables import interval

_KNOWN = ("finished", "running", "stopped", "failed")


def title(runs: Sequence[RunData], groups: Sequence[RunGroup]) -> str:
    words = [" · ".join(dict.fromkeys(group.env for group in groups))]
    words += [groups[0].label] if len(groups) == 1 else []
    words += [f"seed {runs[0].seed}"] if len(runs) == 1 else []
    return " · ".join(words)


def badges(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    """Statuses as (class, text)."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    many = len(runs) > 1
    return [
        (status if status in _KNOWN else "unknown", f"{count} × {status}" if many else status)
        for status, count in counts.items()
    ]


def about(runs: Sequence[RunData], groups: Sequence[RunGroup]) -> str:
    protocols = ", ".join(dict.fromkeys(run.protocol or "unknown" for run in runs))
    tasks = plural(len({task for group in groups for task in group.tasks}), "task")
    return f"{plural(len(runs), 'run')}, {tasks}, protocol {protocols}"


def notes(groups: Sequence[RunGroup], curves: Sequence[Aligned]) -> Iterable[str]:
    protocols = {run.protocol for group in groups for run in group.runs}
    if len(protocols) > 1:
        yield "These runs were evaluated under different protocols: their figures do not compare."
    if len({group.tasks for group in groups}) > 1:
        yield "These runs have different tasks: their averages do not compare."
    if len(curves) > 1 and len({int(aligned.steps[-1]) for aligned in curves}) > 1:
        yield "The last common steps of the groups differ: final figures are at different steps."
    for aligned in curves:
        yield from aligned.notes
    drawn = {aligned.label for aligned in curves}
    for group in groups:
        if group.label not in drawn:
            yield from group.notes
    for group in groups:
        for run in group.runs:
            if run.problems:
                yield f"{group.label}, seed {run.seed}: {'; '.join(run.problems)}."


def figures(runs: Sequence[RunData], aligned: Aligned | None) -> list[tuple[str, str, str]]:
    """Of one group, as (what, value, remark)."""
    items = []
    if aligned:
        band = aligned.success_band
        at = f"at step {int(aligned.steps[-1]):,}"
        span = interval(float(band.mean_low[-1]), float(band.mean_high[-1]))
        items.append(("mean success", page.percent(float(band.mean[-1])), f"95 %: {span}" if span else at))
        if aligned.success[..., -1].size >= 4:  # fewer have no middle half
            span = interval(float(band.iqm_low[-1]), float(band.iqm_high[-1]))
            remark = f"95 %: {span}" if span else "interquartile mean"
            items.append(("IQM success", page.percent(float(band.iqm[-1])), remark))
        items.append(("mean return", page.plain(float(aligned.return_band.mean[-1]), 1), at))
    for key, name, digits in (("step", "steps", 0), ("frames", "frames", 0), ("updates", "updates", 0)):
        items.append((name, page.plain(max(run.progress(key) for run in runs), digits), ""))
    minutes = [run.progress("minutes") for run in runs]
    items.append(("minutes", page.plain(sum(minutes) / len(minutes), 1), "per run" if len(runs) > 1 else ""))
    return items


def plural(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
