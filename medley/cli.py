"""The command line: `medley VERB ...`."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medley import __version__
from medley.bench import command
from medley.cli_help import COMPARE, DEMOS, EVALUATE, EXAMPLES, LAUNCH, REPORT, TUNE
from medley.errors import MedleyError


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    # Options may stand before and after flags; what is left and looks like one is one.
    if any(word.startswith("-") for word in rest) or (rest and not hasattr(arguments, "options")):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.options += rest
    try:
        return int(arguments.verb(arguments) or 0)
    except MedleyError as e:
        print(f"medley: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("medley: stopped at once; the last checkpoint stands.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="medley",
        description="Train one agent on many tasks.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"medley {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def with_words(name: str, about: str, words: str, epilog: str = "") -> argparse.ArgumentParser:
        """A verb that takes options of runs."""
        shape = argparse.RawDescriptionHelpFormatter
        p: argparse.ArgumentParser = verbs.add_parser(name, help=about, epilog=epilog, formatter_class=shape)
        p.add_argument("options", nargs="*", help=words)
        p.add_argument(
            "--config-dir", action="append", default=[], help="folder with setups, agents or envs of your own"
        )
        return p

    p = with_words(
        "train",
        "train an agent; goes on with an unfinished run of the same options",
        "like agent=state_sac env=point setup.seed=1 (see `medley list options`)",
    )
    p.add_argument("--fresh", action="store_true", help="start anew; an earlier run in the folder is kept aside")
    p.add_argument("--override", action="store_true", help="go on with a run whose options differ")
    p.add_argument("--init-from", metavar="RUN", help="start from the trained weights of another run")
    p.set_defaults(verb=_train)

    p = with_words(
        "compare",
        "train several methods with several seeds under one protocol, then one report",
        "agents=A,B seeds=3 jobs=1, and options that all methods share, as for train",
        COMPARE,
    )
    p.add_argument("--dry-run", action="store_true", help="check everything and list the runs, but train nothing")
    p.add_argument("--fresh", action="store_true", help="start all runs anew; earlier ones are kept aside")
    p.add_argument("--out", help="folder for the report; default: the folder that holds all runs")
    p.set_defaults(verb=_compare)

    p = with_words(
        "launch",
        "start a sweep of runs on this machine, on Slurm or on Ray",
        "on=slurm seeds=10, resources.*, and options of the runs as for train",
        LAUNCH,
    )
    p.add_argument("--dry-run", action="store_true", help="check everything and list the runs, but start nothing")
    p.set_defaults(verb=_launch)

    p = with_words(
        "tune",
        "search for good hyperparameters with Optuna",
        "options of the runs as for train, some with intervals or choices",
        TUNE,
    )
    p.add_argument("--dry-run", action="store_true", help="check everything and say what is searched")
    p.set_defaults(verb=_tune)

    p = verbs.add_parser("status", help="where the runs of a sweep are")
    p.add_argument("folders", nargs="+", help="run folders, or folders of them")
    p.add_argument("--json", action="store_true", help="one JSON object per run")
    p.set_defaults(verb=_status)

    p = verbs.add_parser("resume", help="go on with a run that was stopped or killed")
    p.add_argument("run", help="run folder")
    p.add_argument("options", nargs="*", help="options to change, like experiment.num_train_steps=100000")
    p.add_argument("--override", action="store_true", help="allow changes to what is learnt")
    p.set_defaults(verb=_resume)

    p = verbs.add_parser(
        "evaluate",
        help="score a run again; can be stopped and started again",
        epilog=EVALUATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("run", help="run folder")
    p.add_argument("options", nargs="*", help="what is listed below")
    p.add_argument("--checkpoint", type=int, metavar="STEP", help="which checkpoint; default: the newest")
    p.add_argument("--video", action="store_true", help="then film one episode of every task, into video/")
    p.set_defaults(verb=_evaluate)

    p = verbs.add_parser(
        "export", help="a run's policy by itself, or as an ONNX file to act without medley and PyTorch"
    )
    p.add_argument("run", help="run folder")
    p.add_argument(
        "--format",
        choices=["onnx", "safetensors"],
        default="onnx",
        help="onnx: a file to act with anywhere | safetensors: a small folder that `medley evaluate` takes like a run",
    )
    p.add_argument("--out", metavar="PATH", help="default: policy.onnx, or the folder policy, in the run folder")
    p.add_argument("--checkpoint", type=int, metavar="STEP", help="which checkpoint; default: the newest")
    p.set_defaults(verb=_export)

    p = verbs.add_parser(
        "report",
        help="curves, statistics, tables and videos of one or many runs as one HTML page",
        epilog=REPORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("runs", nargs="+", help="run folders, or folders that contain them")
    p.add_argument("--by", metavar="OPTIONS", help="average over runs that agree in these; default: the configuration")
    p.add_argument("--out", help="folder for the report; default: the runs' own or common folder")
    p.add_argument("--serve", action="store_true", help="write nothing; show the page here and follow runs under way")
    p.add_argument("--port", type=int, default=8000, help="--serve: on this port; 0: any that is free")
    p.add_argument("--host", default="127.0.0.1", help="--serve: for whom; 0.0.0.0: whoever reaches this machine")
    p.set_defaults(verb=_report)

    p = with_words(
        "demos",
        "record examples of success and demonstrations, to learn from in place of rewards",
        "env=, options of the env, and what is listed below",
        DEMOS,
    )
    p.set_defaults(verb=_demos)

    p = verbs.add_parser("list", help="what there is: envs, agents, tasks, options")
    p.add_argument("what", nargs="?", choices=["envs", "agents", "tasks", "options"], default="envs")
    p.add_argument("options", nargs="*", help="agent= and env= whose options are listed")
    p.add_argument("--config-dir", action="append", default=[], help="folder with setups, agents or envs of your own")
    p.set_defaults(verb=_list)

    p = verbs.add_parser("doctor", help="what this machine has and what is missing")
    p.set_defaults(verb=_doctor)

    p = verbs.add_parser("probe", help="how long an action and an update take here, and the memory they need")
    p.add_argument("options", nargs="*", help="a run folder, or options of a run like agent=vpace env=panda-reach")
    p.add_argument("--seconds", type=float, default=5.0, help="how long actions, and updates, are measured")
    p.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    p.set_defaults(verb=_probe)

    p = verbs.add_parser("bench", help="measure medley against what you would use instead")
    command.describe(p)
    p.set_defaults(verb=command.carry_out)
    return parser


# Imports stand inside the verbs so that `--help` answers at once.


def _train(a: argparse.Namespace) -> int:
    from medley.config.load import expand_sweeps, load_config
    from medley.training import start
    from medley.training.finish import finish

    words = list(a.options)
    if a.init_from:
        words.append(f"experiment.init_from={a.init_from}")
    configs = [load_config(w, a.config_dir) for w in expand_sweeps(words)]  # all are checked before the first starts
    paths = []
    for group in start.groups(configs):
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


def _compare(a: argparse.Namespace) -> int:
    from medley.comparison import carry_out, methods, plan

    planned = plan.make_plan(methods.read(a.options), a.config_dir, a.fresh)
    if a.dry_run:
        carry_out.describe(planned)
        return 0
    return carry_out.carry_out(planned, a.fresh, Path(a.out) if a.out else None)


def _launch(a: argparse.Namespace) -> int:
    from medley.scale.launch import launch

    return launch(a.options, a.config_dir, a.dry_run)


def _tune(a: argparse.Namespace) -> int:
    from medley.tuning.tune import tune

    return tune(a.options, a.config_dir, a.dry_run, say=functools.partial(print, flush=True))


def _status(a: argparse.Namespace) -> int:
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


def _resume(a: argparse.Namespace) -> int:
    from medley.training import start
    from medley.training.finish import finish

    run, status = start.resume(a.run, a.options, a.override)
    if status == "stopped":
        return 130
    finish(run)
    return 0


def _evaluate(a: argparse.Namespace) -> int:
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


def _export(a: argparse.Namespace) -> int:
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


def _report(a: argparse.Namespace) -> int:
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


def _demos(a: argparse.Namespace) -> int:
    from medley.data.demos import demos

    demos(a.options, a.config_dir)
    return 0


def _list(a: argparse.Namespace) -> int:
    from medley.listing import show

    show(a.what, a.options, a.config_dir)
    return 0


def _doctor(a: argparse.Namespace) -> int:
    from medley.doctor import examine

    return examine()


def _probe(a: argparse.Namespace) -> int:
    from medley.bench.probe import probe

    probe(a.options, a.seconds, a.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
