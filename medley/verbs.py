"""What each verb of the command line does.

Imports stand inside the verbs so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any

from medley.errors import MedleyError


def train(a: argparse.Namespace) -> int:
    from medley.config.load import expand_sweeps, load_config
    from medley.training import start
    from medley.training.finish import finish
    from medley.training.folder_name import default_path
    from medley.training.run import Run
    from medley.training.standing import how_long, is_finished

    words = list(a.options)
    if a.init_from:
        words.append(f"experiment.init_from={a.init_from}")
    configs = [load_config(w, a.config_dir) for w in expand_sweeps(words)]  # all are checked before the first starts
    finished = [] if a.fresh else [c for c in configs if is_finished(c, Run(default_path(c)))]
    finished = finished if len(finished) < len(configs) else []  # then nothing can be meant by it
    paths = [default_path(config) for config in finished]
    for path, config in zip(paths, finished, strict=True):
        print(f"{path} is finished already{how_long(Run(path), config)}.")
    for group in start.groups(configs):
        group = [config for config in group if config not in finished]
        if not group:
            continue
        runs, status = start.train_seeds(group, a.fresh, a.override)
        paths += [run.path for run in runs]
        if status == "stopped":
            return 130
        for run in runs:
            finish(run)
    if len(paths) > 1:
        from medley.reporting.report import write_report

        print(f"Report over {len(paths)} runs: {write_report(paths)}")
    return 0


def compare(a: argparse.Namespace) -> int:
    from medley.comparison import carry_out, methods, plan

    planned = plan.make_plan(methods.read(a.options), a.config_dir, a.fresh)
    if a.dry_run:
        carry_out.describe(planned)
        return 0
    return carry_out.carry_out(planned, a.fresh, Path(a.out) if a.out else None)


def launch(a: argparse.Namespace) -> int:
    from medley.scale.launch import launch

    return launch(a.options, a.config_dir, a.dry_run)


def tune(a: argparse.Namespace) -> int:
    from medley.tuning.tune import tune

    return tune(a.options, a.config_dir, a.dry_run, say=functools.partial(print, flush=True))


def status(a: argparse.Namespace) -> int:
    import dataclasses
    import json

    from medley.scale.status import standings, table

    rows = standings(a.folders)
    if a.json:
        for row in rows:
            print(json.dumps({**dataclasses.asdict(row), "folder": str(row.folder)}))
    else:
        print(table(rows))
    return 0


def resume(a: argparse.Namespace) -> int:
    from medley.training import start
    from medley.training.finish import finish

    run, status = start.resume(a.run, a.options, a.override)
    if status == "stopped":
        return 130
    finish(run)
    return 0


def evaluate(a: argparse.Namespace) -> int:
    from medley.training.evaluate import evaluate
    from medley.training.evaluator import EpisodeScore
    from medley.training.stopping import StopRequest

    def show(score: EpisodeScore, left: int) -> None:
        cells = f"E: {score.episode} | R: {score.reward:.4f} | Su: {int(score.success)} | left: {left}"
        print(f"| eval | {score.task} | {cells}", flush=True)

    with StopRequest() as stop:
        path, result = evaluate(a.run, a.options, a.checkpoint, stop, show)
    if not result["complete"]:
        print("Stopped between episodes. The same command goes on from here.")
        return 130
    for task, score in result["per_task"].items():
        print(f"{task:32} success {score['success']:6.1%}   return {score['return']:10.2f}")
    print(f"{'mean':32} success {result['success']:6.1%}   return {result['return']:10.2f}")
    if "matrix" in result and len(result["tasks"]) > 1:
        _print_matrix(result)
    print(f"Written to {path} (protocol {result['protocol']}, step {result['step']:,}).")
    if a.video:
        from medley.training.finish import record
        from medley.training.run import Run

        films = record(Run(Path(a.run)), a.checkpoint)
        print(f"Filmed: {films[0]}" + (f" and {len(films) - 1} more beside it." if films[1:] else ""))
    return 0


def export(a: argparse.Namespace) -> int:
    if a.format == "safetensors":
        from medley.training.policy_file import save_policy
        from medley.training.run import POLICY

        folder = save_policy(a.run, a.out, a.checkpoint)
        size = (folder / POLICY).stat().st_size
        print(f"Written: {folder} ({size / 1e6:.2f} MB). Score it: medley evaluate {folder}")
        return 0
    from medley.exporting.onnx_file import describe, export

    print(describe(export(a.run, a.out, a.checkpoint)))
    return 0


def _print_matrix(result: dict[str, Any]) -> None:
    """How often every intention was fulfilled at some step, by what was carried out."""
    tasks, n = result["tasks"], result["episodes_per_task"]
    judged = result["matrix"]["successes"]
    if "schedule" in result:
        groups = {" ".join(result["schedule"]): slice(None)}
    else:
        groups = {task: slice(k * n, (k + 1) * n) for k, task in enumerate(tasks)}
    for what, columns in groups.items():
        shares = [sum(row[columns]) / len(row[columns]) for row in judged]
        cells = "   ".join(f"{task} {share:.0%}" for task, share in zip(tasks, shares, strict=True))
        print(f"carrying out {what}: {cells}")


def report(a: argparse.Namespace) -> int:
    from medley.reporting.by import labels_by
    from medley.reporting.formats import show
    from medley.reporting.report import write_report

    paths = [Path(r) for r in a.runs]
    if a.serve:
        from medley.reporting.serving import serve

        if a.out:
            raise MedleyError("--serve writes nothing: leave --out away, or --serve.")
        serve(paths, a.by, a.host, a.port)
        return 0
    labels = labels_by(paths, a.by) if a.by is not None else None
    page = write_report(paths, Path(a.out) if a.out else None, labels)
    show(page.with_suffix("") / "summary.md")
    print(f"Report: {page}")
    return 0


def demos(a: argparse.Namespace) -> int:
    from medley.data.demos import demos

    demos(a.options, a.config_dir)
    return 0


def list_(a: argparse.Namespace) -> int:
    from medley.listing import show

    show(a.what, a.options, a.config_dir)
    return 0


def doctor(a: argparse.Namespace) -> int:
    from medley.doctor import examine

    return examine()


def probe(a: argparse.Namespace) -> int:
    from medley.bench.probe import probe

    probe(a.options, a.seconds, a.json)
    return 0
