"""A launcher of Hydra's that carries out trials as medley's runs, by the engines of `medley launch`."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from medley.config.load import load_config
from medley.errors import MedleyError
from medley.files import read_json
from medley.scale.folder import is_finished, noted
from medley.scale.launch import prepare
from medley.scale.sweep import Job
from medley.training.run import Run
from medley.training.standing import standing_of
from medley.training.stopping import StopRequest
from medley.tuning.words import Tuning

HOPELESS = 3  # trials in a row that fail
LOOK = 1.0  # seconds between two looks at a queue


class Stopped(Exception):
    """Somebody asked the search to stop; its runs are saved."""


@dataclass
class Attempt:
    """A trial that is carried out: a run for every seed."""

    trial: Any
    words: tuple[str, ...]
    folder: Path
    jobs: list[Job] = field(default_factory=list)
    error: str | None = None
    pruned: float | None = None  # what it was worth when it was given up
    reported: int = -1  # the last step that Optuna knows of


class TrialLauncher(Launcher):
    def __init__(
        self, asked: Tuning, folder: Path, config_dirs: Sequence[str | Path], say: Callable[[str], None] = print
    ) -> None:
        self.asked, self.folder, self.config_dirs, self.say = asked, folder, config_dirs, say
        self._expected: list[Any] = []
        self._failed = 0  # in a row

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        pass

    def expect(self, config: Any, trial: Any) -> None:
        """The sweeper says which trial comes next: its number names the folder."""
        self._expected.append(trial)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """What became of each trial; its value is the mean over seeds of the last evaluation."""
        trials, self._expected = self._expected, []
        attempts = [self._prepared(t, words) for t, words in zip(trials, job_overrides, strict=True)]
        self._carry_out([a for a in attempts if a.error is None])
        return [self._result(attempt) for attempt in attempts]

    # ---- before

    def _prepared(self, trial: Any, overrides: Sequence[str]) -> Attempt:
        words, folder = tuple(overrides), self.folder / f"trial_{trial.number:03d}"
        attempt = Attempt(trial, words, folder)
        again = any(folder.glob("seed_*/config.yaml"))
        self.say(f"trial {trial.number}: {' '.join(map(short, words))}{' goes on' if again else ''}")
        more = [f"--config-dir={Path(d).resolve()}" for d in self.config_dirs]
        try:
            like = load_config([*self.asked.launch.words, *words], self.config_dirs)
            for seed in self.asked.launch.seeds:
                config, place = copy.deepcopy(like), folder / f"seed_{seed}"
                config.setup.seed, config.setup.save_dir = seed, str(place)
                told = (*self.asked.launch.words, *words, f"setup.seed={seed}", f"setup.save_dir={place}", *more)
                attempt.jobs.append(Job(told, place, standing_of(config, Run(place))))
        except MedleyError as e:
            attempt.error = str(e)
        return attempt

    # ---- meanwhile

    def _carry_out(self, attempts: list[Attempt]) -> None:
        request = self.asked.launch
        todo = [job for attempt in attempts for job in attempt.jobs if job.standing != "finished"]
        prepare(request, todo)
        folders = [job.folder for job in todo]
        if not folders:
            return
        if request.on == "slurm":
            from medley.scale import slurm

            slurm.submit(folders, request, _quiet)
            self._wait_for_queue(folders)
        elif request.on == "ray":
            from medley.scale import ray_sweep

            ray_sweep.carry_out(folders, request, _quiet)
        else:
            from medley.scale import local

            local.carry_out(folders, request, _quiet, lambda: self._look(attempts))

    def _wait_for_queue(self, folders: Sequence[Path]) -> None:
        """Until no job is left. Whoever stops waiting leaves them in the queue, and the same command waits again."""
        from medley.scale.slurm import ALIVE, state

        with StopRequest() as stop:
            while not stop() and any(
                not is_finished(folder) and state(str(noted(folder).get("id"))) in ALIVE for folder in folders
            ):
                time.sleep(LOOK)

    def _look(self, attempts: Sequence[Attempt]) -> set[Path]:
        """Tell Optuna how trials do so far; runs of those that it gives up."""
        if self.asked.pruning:
            for attempt in attempts:
                for step, value in self._so_far(attempt):
                    if step > attempt.reported and attempt.pruned is None:
                        attempt.reported = step
                        attempt.trial.report(value, step)
                        attempt.pruned = value if attempt.trial.should_prune() else None
        return {job.folder for attempt in attempts if attempt.pruned is not None for job in attempt.jobs}

    def _so_far(self, attempt: Attempt) -> list[tuple[int, float]]:
        """Steps at which all seeds were evaluated, and the mean there."""
        seeds = [{made["step"]: made[self.asked.objective] for made in evaluations(job)} for job in attempt.jobs]
        steps = set.intersection(*(set(seed) for seed in seeds))
        return [(step, float(np.mean([seed[step] for seed in seeds]))) for step in sorted(steps)]

    # ---- after

    def _result(self, attempt: Attempt) -> JobReturn:
        if attempt.error is None and attempt.pruned is None:
            self._check_ends(attempt)
        if attempt.error is not None:
            self._failed += 1
            self.say(f"trial {attempt.trial.number}: failed: {attempt.error}")
            if self._failed >= HOPELESS:
                raise MedleyError(f"{HOPELESS} trials in a row failed, the last with: {attempt.error}")
            return JobReturn(attempt.words, status=JobStatus.FAILED, _return_value=MedleyError(attempt.error))
        self._failed = 0
        each = {f"seed_{s}": self._value(job) for s, job in zip(self.asked.launch.seeds, attempt.jobs, strict=True)}
        value = float(np.mean(list(each.values()))) if attempt.pruned is None else attempt.pruned
        attempt.trial.set_user_attr("seeds", each)
        attempt.trial.set_user_attr("pruned", attempt.pruned is not None)
        return JobReturn(attempt.words, status=JobStatus.COMPLETED, _return_value=value)

    def _check_ends(self, attempt: Attempt) -> None:
        for job in attempt.jobs:
            if not is_finished(job.folder):
                attempt.error = noted(job.folder).get("error")
                if attempt.error is None:
                    raise Stopped

    def _value(self, job: Job) -> float:
        made = evaluations(job)
        return float(made[-1][self.asked.objective]) if made else float("nan")


def evaluations(job: Job) -> list[dict[str, Any]]:
    path = job.folder / "results.json"
    return list(read_json(path)["evaluations"]) if path.is_file() else []


def short(word: str) -> str:
    """`agent.optimizers.actor.lr=0.0031234567` as `optimizers.actor.lr=0.003123`."""
    name, _, value = word.partition("=")
    with contextlib.suppress(ValueError):
        value = value if value.lstrip("-").isdigit() else f"{float(value):.4g}"
    return f"{name.removeprefix('agent.')}={value}"


def _quiet(text: str) -> None:
    pass
