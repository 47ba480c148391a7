"""Several runs of a comparison at a time, each a process of its own, by the engine of `medley launch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from medley.comparison.plan import Plan
from medley.scale import local
from medley.scale.folder import is_finished, noted
from medley.scale.launch import prepare
from medley.scale.sweep import Job, Request
from medley.training.run import Run
from medley.training.start import move_aside


def side_by_side(
    plan: Plan, numbers: Sequence[int], fresh: bool, failures: dict[int, str], say: Callable[[str], None]
) -> bool:
    """Whether it was stopped. What goes wrong is kept in `failures`: the other runs are not to be lost."""
    folders = {number: plan.runs[number].path.resolve() for number in numbers}
    if fresh:
        move_aside([Run(folder) for folder in folders.values() if folder.exists()], say)
    request = Request(jobs=plan.jobs, retries=0)
    prepare(
        request,
        [Job((*plan.runs[n].words, f"setup.save_dir={f}"), f, plan.runs[n].standing) for n, f in folders.items()],
    )
    say(f"{plan.jobs} runs at a time; what each says is in its folder, in `stdout`, and `medley status` knows all.")
    stopped = local.carry_out(list(folders.values()), request, say) == 130
    for number, folder in folders.items():
        if not is_finished(folder) and not stopped:
            failures[number] = str(noted(folder).get("error"))
    return stopped
