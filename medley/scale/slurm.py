"""A sweep on Slurm, through submitit: a job array whose jobs save themselves and go back into the queue.

Before the time limit Slurm sends a signal; submitit then asks the job for a checkpoint (`SlurmJob.checkpoint`) and
requeues it. Whoever is preempted hears SIGTERM, saves itself and asks to be requeued.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medley.errors import ConfigError, MedleyError
from medley.scale.folder import note, noted
from medley.scale.launch import packs
from medley.scale.sweep import Request
from medley.scale.worker import Worker

GRACE = 60  # seconds before the limit in which a run must have saved itself
ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "COMPLETING", "PREEMPTED")


class SlurmJob(Worker):
    def __call__(self) -> dict[str, str]:
        ends = super().__call__()
        if "stopped" in ends.values() and not self._stopping:
            _requeue()
        if "failed" in ends.values():
            failed = [folder for folder, end in ends.items() if end == "failed"]
            raise MedleyError("; ".join(f"{folder}: {noted(Path(folder)).get('error')}" for folder in failed))
        return ends

    def checkpoint(self) -> Any:
        """Called by submitit when the job is about to be taken away."""
        from submitit.helpers import DelayedSubmission

        self.stop(wait=GRACE)
        return DelayedSubmission(SlurmJob(self.folders, self.retries, self.engine))


def _requeue() -> None:
    """Runs were told to stop by Slurm itself. A job that is preempted is still RUNNING, and would count as completed if
    it ended now; one that was cancelled is not to come back."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if state(job) == "RUNNING":
        subprocess.run(["scontrol", "requeue", job], check=False)


def submit(folders: list[Path], request: Request, say: Callable[[str], None]) -> int:
    """One array for all runs that are not in the queue already; does not wait for them."""
    try:
        import submitit
    except ImportError:
        raise MedleyError("on=slurm needs submitit: pip install 'medley[slurm]'.") from None
    if shutil.which("sbatch") is None:
        raise MedleyError(
            "on=slurm needs Slurm's commands (sbatch, squeue) on this machine; there is on=local, on=ray."
        )
    alive = {folder: job for folder in folders if (job := noted(folder).get("id")) and state(str(job)) in ALIVE}
    for folder, job in alive.items():
        say(f"{folder}: job {job} is {state(str(job)).lower()} already")
    waiting = packs([folder for folder in folders if folder not in alive], request.resources)
    if not waiting:
        return 0
    store = waiting[0][0] / "submitit"
    executor = submitit.SlurmExecutor(folder=store, max_num_timeout=1000)
    executor.update_parameters(**_parameters(request))
    with executor.batch():
        jobs = [executor.submit(SlurmJob(pack, request.retries, "slurm")) for pack in waiting]
    for pack, job in zip(waiting, jobs, strict=True):
        script = next(iter(store.glob(f"{job.job_id.split('_')[0]}_submission.sh")), None)
        for folder in pack:
            note(folder, id=job.job_id)
            if script is not None:
                shutil.copyfile(script, folder / "run.slrm")
            say(f"{folder}: job {job.job_id}")
    return 0


def _parameters(request: Request) -> dict[str, Any]:
    r = request.resources
    asked: dict[str, Any] = {
        "job_name": "medley",
        "cpus_per_task": r.cpus,
        "ntasks_per_node": 1,
        "nodes": 1,
        "signal_delay_s": GRACE,
        "array_parallelism": r.array or 256,
        "time": minutes(r.time) if r.time else None,
        "mem": r.memory or None,
        "partition": r.partition or None,
        "account": r.account or None,
        "gres": f"gpu:{int(r.gpus)}" if r.gpus >= 1 else None,
        "additional_parameters": {"requeue": True},
    }
    return {key: value for key, value in asked.items() if value is not None}


# As sbatch reads it: after days come hours; without them, two numbers are minutes and seconds.
_TIME = re.compile(
    r"(?P<days>\d+)-(?P<hours>\d+)(:(?P<minutes>\d+)(:(?P<seconds>\d+))?)?"
    r"|((?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+)|(?P<plain>\d+)"
)


def minutes(text: str) -> int:
    """`24:00:00`, `1-12:00:00`, `90:00` (minutes and seconds) or plain minutes."""
    found = _TIME.fullmatch(text)
    part = {key: int(value or 0) for key, value in found.groupdict().items()} if found else {}
    hours = 24 * part.get("days", 0) + part.get("hours", 0) + part.get("h", 0)
    whole = 60 * hours + part.get("minutes", 0) + part.get("m", 0) + part.get("plain", 0)
    if (total := whole + -(-(part.get("seconds", 0) + part.get("s", 0)) // 60)) < 1:
        raise ConfigError(f"resources.time={text}: that should be like 24:00:00, 1-12:00:00 or minutes.")
    return total


def state(job: str) -> str:
    """What the queue says of a job; UNKNOWN once it has forgotten it."""
    done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, check=False)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout.split() else "UNKNOWN"
