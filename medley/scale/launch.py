"""`medley launch`: starts what a sweep still lacks, on this machine, on Slurm or on Ray.

The same command again skips what is finished, leaves alone what is under way, and goes on with what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from medley.errors import MedleyError
from medley.scale.folder import note, noted, write_script
from medley.scale.resources import Resources
from medley.scale.sweep import Job, Request, plan, read

Say = Callable[[str], None]


def launch(
    words: Sequence[str], config_dirs: Sequence[str | Path] = (), dry_run: bool = False, say: Say = print
) -> int:
    """The exit code: 0, 1 when a run failed, 130 when it was stopped."""
    request = read(words)
    jobs = plan(request, config_dirs)
    todo = [job for job in jobs if job.standing != "finished"]
    say(f"{len(jobs)} runs on {request.on}: {len(jobs) - len(todo)} finished, {len(todo)} to do.")
    for job in jobs:
        if job.length:
            say(f"{job.folder} is finished{job.length}.")
    if dry_run:
        for job in jobs:
            say(f"  {job.folder}: {job.standing}")
        return 0
    try:
        prepare(request, todo)
    except OSError as e:
        raise MedleyError(f"{e.filename or 'a run folder'} cannot be written: {e.strerror}.") from None
    return _start(request, todo, say)


def prepare(request: Request, todo: Sequence[Job]) -> None:
    """What a job needs in its folder before an engine can take it up."""
    for job in todo:
        write_script(job, request.resources)
        note(job.folder, engine=request.on, failures=0, error=None)


def _start(request: Request, todo: list[Job], say: Say) -> int:
    folders = [job.folder for job in todo]
    if request.on == "slurm":
        from medley.scale import slurm

        return slurm.submit(folders, request, say)
    if request.on == "ray":
        from medley.scale import ray_sweep

        return ray_sweep.carry_out(folders, request, say)
    from medley.scale import local

    return local.carry_out(folders, request, say)


def packs(folders: Sequence[Path], resources: Resources) -> list[list[Path]]:
    """Runs that share a job."""
    size = resources.per_job
    return [list(folders[i : i + size]) for i in range(0, len(folders), size)]


def summary(ends: dict[str, str], say: Say) -> int:
    """Say what became of all runs; the exit code."""
    for folder, end in ends.items():
        if end == "failed":
            told = noted(Path(folder))
            times = f"failed {told['failures']} times, the last time" if told.get("failures") else "failed"
            say(f"{folder}: {times}: {told.get('error')}")
    counts = {end: list(ends.values()).count(end) for end in ("finished", "failed", "stopped")}
    say(", ".join(f"{count} {end}" for end, count in counts.items() if count) or "Nothing to do.")
    if counts["stopped"]:
        say("The same command goes on with them.")
        return 130
    return 1 if counts["failed"] else 0
