"""Trains what a comparison still lacks, run after run, and compares what came of it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from medley.comparison.plan import Plan
from medley.errors import MedleyError
from medley.training import start
from medley.training.finish import finish
from medley.training.run import Run
from medley.training.standing import how_long

Say = Callable[[str], None]


def describe(plan: Plan, say: Say = print) -> None:
    """What would be done, for `--dry-run`."""
    todo = sum(run.standing != "finished" for run in plan.runs)
    say(f"{len(plan.runs)} runs of {len(plan.methods)} methods, {todo} of them to be trained:")
    for number, run in enumerate(plan.runs, 1):
        say(f"  run {number} of {len(plan.runs)}: {run}: {run.standing}, {run.path}")
    warn(plan, say)


def warn(plan: Plan, say: Say = print) -> None:
    if plan.differences:
        listed = "; ".join(map(str, plan.differences))
        say(f"Warning: the methods differ in what should be the same for a fair comparison: {listed}")


def carry_out(plan: Plan, fresh: bool = False, out: Path | None = None, say: Say = print) -> int:
    """The exit code: 0, 1 when a run failed, 130 when it was stopped."""
    warn(plan, say)
    failures: dict[int, str] = {}
    try:
        stopped = _train_all(plan, fresh, failures, say)
    except KeyboardInterrupt:
        say("The same command goes on with the comparison.")
        raise
    if stopped:
        say("The same command goes on with the comparison.")
        return 130
    _compare(plan, failures, out, say)
    return 1 if failures else 0


def _train_all(plan: Plan, fresh: bool, failures: dict[int, str], say: Say) -> bool:
    """Whether it was stopped."""
    groups = _groups(plan, say)
    if plan.jobs == 1:
        return any(_train(plan, group, fresh, failures, say) for group in groups)
    from medley.comparison.side_by_side import side_by_side

    return side_by_side(plan, [number for group in groups for number in group], fresh, failures, say)


def _groups(plan: Plan, say: Say) -> list[list[int]]:
    """The runs still to be trained, by number; those that go together in one group."""
    todo = []
    for number, run in enumerate(plan.runs):
        if run.standing == "finished":
            length = how_long(Run(run.path), run.config)
            say(f"Run {number + 1} of {len(plan.runs)}: {run}: finished already{length}.")
        else:
            todo.append(number)
    numbers = iter(todo)
    return [[next(numbers) for _ in group] for group in start.groups([plan.runs[n].config for n in todo])]


def _train(plan: Plan, group: Sequence[int], fresh: bool, failures: dict[int, str], say: Say) -> bool:
    """Whether it was stopped. What goes wrong is kept in `failures`: the other runs are not to be lost."""
    runs = [plan.runs[n] for n in group]
    say(f"\n{_title(plan, group)}")
    try:
        trained, status = start.train_seeds([run.config for run in runs], fresh, say=say)
    except Exception as e:
        if not isinstance(e, MedleyError):
            traceback.print_exc()
        print(f"medley: {_title(plan, group)} failed: {_sentence(e)}", file=sys.stderr)
        if len(group) > 1:  # one of them may be to blame; the others go on alone
            return any(_train(plan, [number], False, failures, say) for number in group)
        failures[group[0]] = _sentence(e)
        return False
    if status == "stopped":
        return True
    for run in trained:
        try:
            finish(run, say)
        except MedleyError as e:  # it is trained all the same
            say(f"No report of {run.path}: {e}")
    return False


def _compare(plan: Plan, failures: dict[int, str], out: Path | None, say: Say) -> None:
    from medley.reporting.comparison import compared, console_table
    from medley.reporting.formats import wide_console
    from medley.reporting.report import write_report

    # By method, in the order they were named in; `sorted` keeps the order of seeds.
    whole = [run for number, run in enumerate(plan.runs) if number not in failures]
    whole.sort(key=lambda run: plan.methods.index(run.method))
    notes = [
        f"{plan.runs[number]} failed and is left out, so the figures of {plan.runs[number].method} are over the seeds "
        f"that did not: {why}"
        for number, why in failures.items()
    ]
    if whole:
        labels = {run.path.resolve(): run.method for run in whole}
        page = write_report([run.path for run in whole], out, labels, notes)
        say("")
        wide_console().print(console_table(compared([run.path for run in whole], labels)))
        say(f"Report over {len(whole)} runs: {page}")
    for note in notes:
        print(f"medley: {note}", file=sys.stderr)


def _title(plan: Plan, group: Sequence[int]) -> str:
    first = plan.runs[group[0]]
    if len(group) == 1:
        return f"Run {group[0] + 1} of {len(plan.runs)}: {first}"
    seeds = ", ".join(str(plan.runs[n].seed) for n in group)
    return f"Runs {group[0] + 1} to {group[-1] + 1} of {len(plan.runs)}: {first.method}, seeds {seeds} together"


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, MedleyError) else f"{type(error).__name__}: {error}"
