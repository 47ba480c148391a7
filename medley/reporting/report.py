"""One HTML page about one run, or about many: figures, curves, tables, videos, and what was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from medley.errors import MedleyError
from medley.reporting import page
from medley.reporting.alignment import Aligned, align
from medley.reporting.comparison import differences_section, methods_section
from medley.reporting.curves import learning_curve, task_curves
from medley.reporting.losses import training_curves
from medley.reporting.masks import mask_picture
from medley.reporting.run_files import Video
from medley.reporting.runs import RunData, RunGroup, find_runs, group_runs
from medley.reporting.tables import comparison_table, final_table, group_table, interval

__all__ = ["VIDEO_BYTES", "final_table", "write_report"]

# A browser opens a page of this size at once; base64 adds a third to it.
VIDEO_BYTES = 40_000_000


def write_report(
    paths: Sequence[Path],
    out: Path | None = None,
    labels: Mapping[Path, str] | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write `report.html`, and `report/` beside it with every picture as PNG and CSV; returns the page.

    `paths` are run folders or folders above some. `out` is a folder, or a file ending in `.html`. Without it
    the page is written into the run's own folder, or for many runs into the folder that holds them all.
    `labels` are names for the configs of some run folders; `notes` stand at the top.
    """
    runs = find_runs(paths)
    if out is None:
        out = runs[0].path if len(runs) == 1 else Path(os.path.commonpath([run.path.resolve() for run in runs]))
        if out == Path(out.anchor) and len(runs) > 1:
            raise MedleyError("These runs have no folder in common: say where the report goes.")
    target = out if out.suffix == ".html" else out / "report.html"
    try:
        text = _report(runs, group_runs(runs, labels), notes, target.with_suffix(""))
        # Written beside, then renamed: a page that is open in a browser is never half of one.
        beside = target.with_name(f".{target.name}.part")
        beside.write_text(text, encoding="utf-8", errors="replace")
        beside.replace(target)
    except OSError as error:
        raise MedleyError(f"The report cannot be written to {target}: {error.strerror or error}.") from error
    return target


def _report(runs: list[RunData], groups: list[RunGroup], notes: Sequence[str], folder: Path) -> str:
    found = [(group, aligned) for group in groups if (aligned := align(group))]
    curves = [aligned for _, aligned in found]
    folder.mkdir(parents=True, exist_ok=True)

    title = " · ".join(dict.fromkeys(group.env for group in groups))
    if len(groups) == 1:
        title += f" · {groups[0].label}"
    if len(runs) == 1:
        title += f" · seed {runs[0].seed}"
    body = [_heading(title, runs, groups), *map(page.note, notes), *_notes(groups, curves)]
    if len(groups) == 1:
        body.append(_figures(runs, curves[0] if curves else None))
    elif len(curves) > 1:
        body += methods_section(found, folder)
    if curves:
        body.append("<h2>Learning curve</h2>")
        body.append(page.figure(learning_curve(curves, folder / "learning_curve"), "success and return over steps"))
        if len(curves) > 1:
            body += ["<h2>Comparison</h2>", comparison_table(curves), *differences_section(groups)]
        body.append("<h2>Final evaluation</h2>")
        for aligned in curves:
            where = f"step {int(aligned.steps[-1]):,}, mean over {_plural(len(aligned.seeds), 'seed')}"
            shown = group_table(aligned)
            if len(curves) == 1:
                body += [f'<p class="soft">At {where}.</p>', shown]
            else:
                body.append(f"<details><summary>{escape(aligned.label)}</summary><p>{where}</p>{shown}</details>")
        body.append("<h2>Task by task</h2>")
        body.append(page.figure(task_curves(curves, folder / "tasks"), "every task over steps"))
    training = training_curves(groups, folder / "training")
    if training:
        body += ["<h2>Training</h2>", page.figure(training, "losses, temperature and rewards over steps")]
    body += _masks(groups, folder)
    body += _videos(groups)
    body += ["<h2>What was run</h2>", *_asked(runs)]
    return page.document(title, body)


def _heading(title: str, runs: list[RunData], groups: list[RunGroup]) -> str:
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    known = ("finished", "running", "stopped", "failed")
    badges = " ".join(
        f'<span class="badge {status if status in known else "unknown"}">'
        f"{f'{count} × ' if len(runs) > 1 else ''}{escape(status)}</span>"
        for status, count in counts.items()
    )
    protocols = ", ".join(dict.fromkeys(run.protocol or "unknown" for run in runs))
    tasks = _plural(len({task for group in groups for task in group.tasks}), "task")
    about = f"{_plural(len(runs), 'run')}, {tasks}, protocol {protocols}"
    return f'<h1>{escape(title)}</h1><p>{badges} <span class="soft">{escape(about)}</span></p>'


def _notes(groups: list[RunGroup], curves: list[Aligned]) -> Iterable[str]:
    protocols = {run.protocol for group in groups for run in group.runs}
    if len(protocols) > 1:
        yield page.note("These runs were evaluated under different protocols: their figures do not compare.")
    if len({group.tasks for group in groups}) > 1:
        yield page.note("These runs have different tasks: their averages do not compare.")
    if len(curves) > 1 and len({int(aligned.steps[-1]) for aligned in curves}) > 1:
        yield page.note("The last common steps of the groups differ: final figures are at different steps.")
    for aligned in curves:
        yield from map(page.note, aligned.notes)
    for group in groups:
        for run in group.runs:
            if run.problems:
                yield page.note(f"{group.label}, seed {run.seed}: {'; '.join(run.problems)}.")


def _figures(runs: list[RunData], aligned: Aligned | None) -> str:
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
    return page.cards(items)


def _masks(groups: list[RunGroup], folder: Path) -> list[str]:
    """Of every group whose agent has masks."""
    shown: list[str] = []
    for index, group in enumerate(groups):
        picture = mask_picture(group, folder / ("masks" if len(groups) == 1 else f"masks_{index + 1}"))
        if picture is not None:
            name = [f"<h3>{escape(group.label)}</h3>"] if len(groups) > 1 else []
            shown += [*name, page.figure(picture, "how much of a network tasks share, and how alike they are")]
    return ["<h2>Masks</h2>", *shown] if shown else []


def _videos(groups: list[RunGroup]) -> list[str]:
    """The newest video of every task of every group, up to `VIDEO_BYTES` in all."""
    shown: list[str] = []
    used = skipped = 0
    for group in groups:
        # Seeds backwards, steps forwards: the first seed's newest video is the one that stays.
        newest = {video.task: (video, run) for run in reversed(group.runs) for video in run.videos}
        for video, run in sorted(newest.values(), key=lambda pair: _place(pair[0], group)):
            size = video.path.stat().st_size
            if used + size > VIDEO_BYTES:
                skipped += 1
                continue
            used += size
            shown.append(
                "<figure><video controls loop muted playsinline "
                f'src="{page.data_uri(video.path, "video/mp4")}"></video>'
                f"<figcaption>{escape(_caption(video, run, group, len(groups) > 1))}</figcaption></figure>"
            )
    if not shown and not skipped:
        return []
    left = [page.note(f"{_plural(skipped, 'video')} left out: the page would grow too large.")] if skipped else []
    return ["<h2>Videos</h2>", *left, f'<div class="clips">{"".join(shown)}</div>']


def _place(video: Video, group: RunGroup) -> int:
    return group.tasks.index(video.task) if video.task in group.tasks else len(group.tasks)


def _caption(video: Video, run: RunData, group: RunGroup, many: bool) -> str:
    text = f"{video.task}, step {video.step:,}, seed {run.seed}" + (f" ({group.label})" if many else "")
    for evaluation in run.evaluations:
        if evaluation.step == video.step and video.task in evaluation.per_task:
            score = evaluation.per_task[video.task]
            text += f": success {page.percent(score.success)}, return {page.plain(score.ret, 1)} on average"
    return text


def _asked(runs: list[RunData]) -> Iterable[str]:
    for run in runs:
        summary = f"{run.env} · {run.config_name} · seed {run.seed}"
        known = {key: run.info[key] for key in ("commit", "versions", "machine") if key in run.info}
        facts = json.dumps(known, indent=2, ensure_ascii=False, default=str)
        text = f"{run.info.get('command', 'command unknown')}\n\n{facts}\n\n{run.config or 'no configuration'}"
        yield page.details(summary, f"{run.path}\n\n{text}")


def _plural(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
