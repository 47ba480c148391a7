"""What the page's script draws, as plain JSON: every run's curves, and how runs and tasks belong together.

Averages are made by the script, for the reader chooses the tasks; the intervals over all tasks come from here, so
that they are the numbers of the CSV files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from medley.reporting.alignment import Aligned
from medley.reporting.asked import Asked, asked
from medley.reporting.quantities import Plan, plan
from medley.reporting.run_entry import EVALUATIONS, Json, Place, entry
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.statistics import Band
from medley.reporting.thinning import kept, rounded

Pair = tuple[RunGroup, Aligned | None]


def base_of(paths: Sequence[Path]) -> Path:
    """The folder that names of runs are relative to: one above what all have in common, for `seed_1` says little."""
    return Path(os.path.commonpath([path.resolve() for path in paths])).parent


def names(runs: Sequence[RunData], base: Path) -> dict[int, str]:
    """What runs are called in links to the page, by their `id`."""
    return {id(run): Path(os.path.relpath(run.path.resolve(), base)).as_posix() for run in runs}


def belonging(groups: Sequence[Pair], data: Json) -> dict[int, tuple[Sequence[str], Sequence[int]]]:
    """The tasks and steps of every run's group, by the run's `id`."""
    both = zip(groups, data["groups"], strict=True)
    return {id(run): (tasks_of(*pair), shown["steps"]) for pair, shown in both for run in pair[0].runs}


def whole(runs: Sequence[RunData], groups: Sequence[Pair], base: Path, place: Place) -> Json:
    """The page's data at once; `place` says where a video is to be had."""
    chosen, options, called = plan(runs), asked(runs), names(runs, base)
    data = head(groups, [called[id(run)] for run in runs], called, chosen, options)
    belongs = belonging(groups, data)
    data["runs"] = {
        called[id(run)]: entry(run, *belongs.get(id(run), (run.tasks, ())), chosen, own, place)
        for run, own in zip(runs, options.own, strict=True)
    }
    return data


def head(
    groups: Sequence[Pair],
    order: Sequence[str],
    called: Mapping[int, str],
    chosen: Plan,
    options: Asked,
    colours: Mapping[str, int] | None = None,
) -> Json:
    """Everything but the runs themselves. `colours` keeps a group's colour while others come and go."""
    tasks = list(dict.fromkeys(task for group, aligned in groups for task in tasks_of(group, aligned)))
    metrics = [_metric("success", "success", "evaluation", True), _metric("return", "return", "evaluation", True)]
    metrics += [_metric(f"train:{key}", key, "training", False) for key in chosen.scalars]
    metrics += [_metric(f"task:{name}", name, "training, by task", True) for name, _ in chosen.by_task]
    return {
        "format": 1,
        "tasks": tasks,
        "metrics": metrics,
        "left_out": list(chosen.left_out),
        "groups": [
            _group(group, aligned, tasks, called) | {"colour": (colours or {}).get(group.label, index)}
            for index, (group, aligned) in enumerate(groups)
        ],
        "options": options.base,
        "differing": options.differing,
        "order": list(order),
    }


def _metric(key: str, name: str, of: str, by_task: bool) -> Json:
    share = name == "success" or name.startswith("success_")
    return {"key": key, "name": name.replace("_", " "), "of": of, "by_task": by_task, "share": share}


def tasks_of(group: RunGroup, aligned: Aligned | None) -> tuple[str, ...]:
    return aligned.tasks if aligned else group.tasks


def _group(group: RunGroup, aligned: Aligned | None, tasks: list[str], called: Mapping[int, str]) -> Json:
    entry: Json = {
        "label": group.label,
        "tasks": [tasks.index(task) for task in tasks_of(group, aligned)],
        "runs": [called[id(run)] for run in group.runs],
        "shown": [],
        "steps": [],
        "bands": {},
    }
    if aligned:
        places = kept(len(aligned.steps), EVALUATIONS)
        entry["shown"] = [called[id(run)] for run in aligned.runs]
        entry["steps"] = aligned.steps[places].tolist()
        entry["bands"] = {
            "success": _band(aligned.success_band, places),
            "return": _band(aligned.return_band, places),
        }
    return entry


def _band(band: Band, places: list[int]) -> Json:
    """Ends of the intervals; none where one seed is all there is."""
    pairs = {"mean": (band.mean_low, band.mean_high), "iqm": (band.iqm_low, band.iqm_high)}
    return {name: rounded(np.array(pair)[:, places]) for name, pair in pairs.items()} if band.known else {}
