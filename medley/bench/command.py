"""`medley bench WHAT`: which measurements there are, what each takes, and where it stands."""

from __future__ import annotations

import argparse
from importlib import import_module

# What is measured, and which of the flags its `bench` takes. Each is a module of this package.
MEASURED = {
    "update": ("single-task learning against Stable-Baselines3 and SBX", ["seconds"]),
    "learner": ("updates alone on MT10", ["seconds", "options", "seeds"]),
    "methods": ("updates of every method against plain multi-head SAC", ["seconds", "options", "at_once"]),
    "train": ("a whole run on MT10", ["seconds", "options"]),
    "sim": ("Meta-World against Gymnasium's AsyncVectorEnv", ["seconds", "slots_per_task"]),
    "workers": ("Python envs in worker processes against AsyncVectorEnv", ["seconds", "slots_per_task"]),
    "render": ("dm_control's pictures against env.render_profile=fast", ["seconds"]),
    "pixels": ("SAC+AE against the same as people write it from the paper", ["seconds", "options"]),
    "realtime": (
        "how promptly an arm is answered while an agent learns, during its steps and between them (--seconds 100: 500 "
        "steps of each)",
        ["seconds", "options"],
    ),
    "checkpoint": ("what one after every episode costs, with 100,000 transitions", ["options"]),
    "collect": ("collect.on=ray with two workers against one process", ["seconds", "options"]),
    "report": ("how soon a page about 200 runs shows its curves in Chromium", []),
}
_FLAGS = {"slots_per_task": "slots"}  # named otherwise on the command line


def describe(p: argparse.ArgumentParser) -> None:
    flags = ("options", "seeds", "slots_per_task", "at_once")
    takers = {flag: ", ".join(w for w, (_, takes) in MEASURED.items() if flag in takes) for flag in flags}
    p.add_argument(
        "what", choices=list(MEASURED), help="; ".join(f"{w}: {about}" for w, (about, _) in MEASURED.items())
    )
    p.add_argument("options", nargs="*", help=f"{takers['options']}: options of the run, such as env.slots_per_task=8")
    p.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    p.add_argument("--seconds", type=float, default=20.0, help="how long each side is measured")
    p.add_argument("--seeds", type=int, default=1, help=f"{takers['seeds']}: seeds whose updates are done at once")
    p.add_argument(
        "--slots", type=int, nargs="+", default=[1], help=f"{takers['slots_per_task']}: slots per task, one or several"
    )
    p.add_argument("--at-once", type=int, metavar="N", help=f"{takers['at_once']}: how many are prepared side by side")


def carry_out(a: argparse.Namespace) -> int:
    bench = import_module(f"medley.bench.{a.what}").bench
    bench(as_json=a.json, **{flag: getattr(a, _FLAGS.get(flag, flag)) for flag in MEASURED[a.what][1]})
    return 0
