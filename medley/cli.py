"""The command line: `medley VERB ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from medley import __version__, verbs
from medley.bench import command
from medley.cli_help import COMPARE, DEMOS, EVALUATE, EXAMPLES, LAUNCH, REPORT, TUNE
from medley.errors import MedleyError


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help()
        return 2
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
        print("medley: stopped at once; what was saved last stands.", file=sys.stderr)
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
    parsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def with_words(name: str, about: str, words: str, epilog: str = "") -> argparse.ArgumentParser:
        """A verb that takes options of runs."""
        shape = argparse.RawDescriptionHelpFormatter
        p: argparse.ArgumentParser = parsers.add_parser(name, help=about, epilog=epilog, formatter_class=shape)
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
    p.set_defaults(verb=verbs.train)

    p = with_words(
        "compare",
        "train several methods with several seeds under one protocol, then one report",
        "agents=A,B seeds=3 jobs=1, and options that all methods share, as for train",
        COMPARE,
    )
    p.add_argument("--dry-run", action="store_true", help="check everything and list the runs, but train nothing")
    p.add_argument("--fresh", action="store_true", help="start all runs anew; earlier ones are kept aside")
    p.add_argument("--out", help="folder for the report; default: the folder that holds all runs")
    p.set_defaults(verb=verbs.compare)

    p = with_words(
        "launch",
        "start a sweep of runs on this machine, on Slurm or on Ray",
        "on=slurm seeds=10, resources.*, and options of the runs as for train",
        LAUNCH,
    )
    p.add_argument("--dry-run", action="store_true", help="check everything and list the runs, but start nothing")
    p.set_defaults(verb=verbs.launch)

    p = with_words(
        "tune",
        "search for good hyperparameters with Optuna",
        "options of the runs as for train, some with intervals or choices",
        TUNE,
    )
    p.add_argument("--dry-run", action="store_true", help="check everything and say what is searched")
    p.set_defaults(verb=verbs.tune)

    p = parsers.add_parser("status", help="where the runs of a sweep are")
    p.add_argument("folders", nargs="+", help="run folders, or folders of them")
    p.add_argument("--json", action="store_true", help="one JSON object per run")
    p.set_defaults(verb=verbs.status)

    p = parsers.add_parser("resume", help="go on with a run that was stopped or killed")
    p.add_argument("run", help="run folder")
    p.add_argument("options", nargs="*", help="options to change, like experiment.num_train_steps=100000")
    p.add_argument("--override", action="store_true", help="allow changes to what is learnt")
    p.set_defaults(verb=verbs.resume)

    p = parsers.add_parser(
        "evaluate",
        help="score a run again; can be stopped and started again",
        epilog=EVALUATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("run", help="run folder")
    p.add_argument("options", nargs="*", help="what is listed below")
    p.add_argument("--checkpoint", type=int, metavar="STEP", help="which checkpoint; default: the newest")
    p.add_argument("--video", action="store_true", help="then film one episode of every task, into video/")
    p.set_defaults(verb=verbs.evaluate)

    p = parsers.add_parser(
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
    p.set_defaults(verb=verbs.export)

    p = parsers.add_parser(
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
    p.set_defaults(verb=verbs.report)

    p = with_words(
        "demos",
        "record examples of success and demonstrations, to learn from in place of rewards",
        "env=, options of the env, and what is listed below",
        DEMOS,
    )
    p.set_defaults(verb=verbs.demos)

    p = parsers.add_parser("list", help="what there is: envs, agents, tasks, options")
    p.add_argument("what", nargs="?", choices=["envs", "agents", "tasks", "options"], default="envs")
    p.add_argument("options", nargs="*", help="agent= and env= whose options are listed")
    p.add_argument("--config-dir", action="append", default=[], help="folder with setups, agents or envs of your own")
    p.set_defaults(verb=verbs.list_)

    p = parsers.add_parser("doctor", help="what this machine has and what is missing")
    p.set_defaults(verb=verbs.doctor)

    p = parsers.add_parser("probe", help="how long an action and an update take here, and the memory they need")
    p.add_argument("options", nargs="*", help="a run folder, or options of a run like agent=vpace env=panda-reach")
    p.add_argument("--seconds", type=float, default=5.0, help="how long actions, and updates, are measured")
    p.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    p.set_defaults(verb=verbs.probe)

    p = parsers.add_parser("bench", help="measure medley against what you would use instead")
    command.describe(p)
    p.set_defaults(verb=command.carry_out)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
