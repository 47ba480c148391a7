"""Runs as two tables beside them: curves.csv has every evaluation, runs.csv what every run was and what it cost.

python results/mt10/keep_tables.py [DIR...]     (by default all folders of kept runs, here and of MT50)
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np

from medley.reporting.runs import RunData, find_runs
from medley.reporting.scores import minutes_at

HERE = Path(__file__).parent
FOLDERS = (*(HERE / name for name in ("methods", "before", "variants", "longer")), HERE.parent / "mt50" / "methods")


def curves(runs: list[RunData]) -> str:
    """A row per evaluation; minutes are of training, `goals` how many of every task were tried."""
    rows = []
    for run in runs:
        steps = np.array([e.step for e in run.evaluations], dtype=np.float64)
        minutes = minutes_at(run, steps)
        for index, e in enumerate(run.evaluations):
            last = index == len(run.evaluations) - 1
            goals = run.options["experiment.num_final_eval_episodes" if last else "experiment.num_eval_episodes"]
            spent = "" if minutes is None else f"{minutes[index]:.2f}"
            counts = [e.step, int(e.frames), int(e.updates), spent, goals]
            scores = [e.success, e.ret, *(e.per_task[task].success for task in run.tasks)]
            rows.append([run.config_name, run.seed, *counts, *(f"{score:g}" for score in scores)])
    head = ["method", "seed", "step", "env_steps", "updates", "minutes", "goals", "success", "return", *runs[0].tasks]
    return _csv(head, rows)


def costs(runs: list[RunData]) -> str:
    """A row per run; rates are over all of it, with evaluations, on what it had of the machine."""
    rows = []
    for run in runs:
        info, seconds = run.info, 60 * run.info["minutes"]
        rates = [f"{info[key] / seconds:.1f}" for key in ("updates", "frames")]
        made = [info["versions"][name] for name in ("python", "torch", "metaworld", "mujoco")]
        counts = [info[key] for key in ("step", "frames", "updates", "minutes")]
        size = [info["parameters"], info["peak_gpu_memory_gb"]]
        where = [info["machine"]["gpu"], info["machine"]["cores"], info["started"], info["commit"], info["command"]]
        success = f"{run.evaluations[-1].success:g}"
        rows.append([run.config_name, run.seed, run.protocol, success, *counts, *rates, *size, *made, *where])
    head = ["method", "seed", "protocol", "success", "step", "env_steps", "updates", "minutes"]
    head += ["updates_per_second", "env_steps_per_second", "parameters", "gpu_memory_gb"]
    return _csv([*head, "python", "torch", "metaworld", "mujoco", "gpu", "cores", "started", "commit", "command"], rows)


def tables(folder: Path) -> dict[Path, str]:
    runs = find_runs([folder])
    return {folder / "curves.csv": curves(runs), folder / "runs.csv": costs(runs)}


def _csv(head: list[str], rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


if __name__ == "__main__":
    for given in [Path(word) for word in sys.argv[1:]] or FOLDERS:
        for path, text in tables(given).items():
            path.write_text(text)
            print(path)
