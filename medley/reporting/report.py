"""One HTML page about one run, or about many: curves to choose from, tables, videos, and what was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from medley.errors import MedleyError
from medley.reporting import page, page_data, summary
from medley.reporting.alignment import Aligned, align
from medley.reporting.clips import VIDEO_BYTES, Clips
from medley.reporting.comparison import differences_section, methods_section
from medley.reporting.conclusions import statistics_section
from medley.reporting.curves import learning_curve, task_curves
from medley.reporting.losses import training_curves
from medley.reporting.masks import mask_picture
from medley.reporting.runs import RunData, RunGroup, find_runs, group_runs
from medley.reporting.summary import plural
from medley.reporting.tables import comparison_table, final_table, group_table

__all__ = ["final_table", "write_report"]

_FEW = 12  # runs whose configurations are also there without scripts; of more, one of every group


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
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _report(runs, group_runs(runs, labels), notes, target.with_suffix(""))
        # Written beside, then renamed: a page that is open in a browser is never half of one.
        beside = target.with_name(f".{target.name}.part")
        beside.write_text(text, encoding="utf-8", errors="replace")
        beside.replace(target)
    except OSError as error:
        raise MedleyError(f"The report cannot be written to {target}: {error.strerror or error}.") from error
    return target


def _report(runs: list[RunData], groups: list[RunGroup], notes: Sequence[str], folder: Path) -> str:
    pairs = [(group, align(group)) for group in groups]
    found = [(group, aligned) for group, aligned in pairs if aligned]
    curves = [aligned for _, aligned in found]
    folder.mkdir(parents=True, exist_ok=True)
    clips = Clips(groups, folder.parent, VIDEO_BYTES)
    base = page_data.base_of([run.path for run in runs])

    title = summary.title(runs, groups)
    body = [page.heading(title, summary.badges(runs), summary.about(runs, groups))]
    body.append(page.notes([*notes, *summary.notes(groups, curves)]))
    if len(groups) == 1:
        body.append(page.cards(summary.figures(runs, curves[0] if curves else None)))
    body.append(page.curves(page_data.whole(runs, pairs, base, clips.place)))
    body += _still_curves(groups, curves, folder)
    if len(curves) > 1:
        body += methods_section(found, folder)
        body += ["<h2>Comparison</h2>", comparison_table(curves), *differences_section(groups)]
    body += statistics_section(found, folder)
    body += _final(curves)
    body += _masks(groups, folder)
    body.append(page.runs())
    body += _asked(runs, groups)
    body += clips.section(len(groups) > 1)
    return page.document(title, body)


def _still_curves(groups: list[RunGroup], curves: list[Aligned], folder: Path) -> Iterable[str]:
    """For readers without scripts, and as files: what the script draws, as pictures."""
    if curves:
        yield '<h2 class="still">Learning curve</h2>'
        picture = learning_curve(curves, folder / "learning_curve")
        yield page.figure(picture, "success and return over steps", still=True)
        yield '<h2 class="still">Task by task</h2>'
        yield page.figure(task_curves(curves, folder / "tasks"), "every task over steps", still=True)
    training = training_curves(groups, folder / "training")
    if training:
        yield '<h2 class="still">Training</h2>'
        yield page.figure(training, "losses, temperature and rewards over steps", still=True)


def _final(curves: list[Aligned]) -> Iterable[str]:
    """The last evaluation, task by task."""
    if curves:
        yield "<h2>Final evaluation</h2>"
    for aligned in curves:
        where = f"step {int(aligned.steps[-1]):,}, mean over {plural(len(aligned.seeds), 'seed')}"
        shown = group_table(aligned)
        if len(curves) == 1:
            yield f'<p class="soft">At {where}.</p>{shown}'
        else:
            yield f"<details><summary>{escape(aligned.label)}</summary><p>{where}</p>{shown}</details>"


def _masks(groups: list[RunGroup], folder: Path) -> list[str]:
    """Of every group whose agent has masks."""
    shown: list[str] = []
    for index, group in enumerate(groups):
        picture = mask_picture(group, folder / ("masks" if len(groups) == 1 else f"masks_{index + 1}"))
        if picture is not None:
            name = [f"<h3>{escape(group.label)}</h3>"] if len(groups) > 1 else []
            shown += [*name, page.figure(picture, "how much of a network tasks share, and how alike they are")]
    return ["<h2>Masks</h2>", *shown] if shown else []


def _asked(runs: list[RunData], groups: list[RunGroup]) -> Iterable[str]:
    """Without scripts: what was run."""
    some = runs if len(runs) <= _FEW else [group.runs[0] for group in groups[:_FEW]]
    yield '<div class="still"><h2>What was run</h2>'
    if len(some) < len(runs):
        yield f'<p class="soft">{len(some)} of {len(runs)} runs; the others are in their folders.</p>'
    for run in some:
        summary_of = f"{run.env} · {run.config_name} · seed {run.seed}"
        known = {key: run.info[key] for key in ("commit", "versions", "machine") if key in run.info}
        facts = json.dumps(known, indent=2, ensure_ascii=False, default=str)
        text = f"{run.info.get('command', 'command unknown')}\n\n{facts}\n\n{run.config or 'no configuration'}"
        yield page.details(summary_of, f"{run.path}\n\n{text}")
    yield "</div>"
