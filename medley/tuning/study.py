"""The study of a search: Optuna's trials in `study.db`, which say where a search that was killed has come to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medley.errors import ConfigError, DamagedError, MedleyError
from medley.files import read_json, write_json
from medley.training.run import Run
from medley.tuning.sweeper import STUDY
from medley.tuning.words import Tuning


@dataclass(frozen=True)
class Tried:
    """A trial, as tables and pictures show it."""

    number: int
    state: str  # complete | pruned | failed | running | waiting
    value: float | None
    params: dict[str, Any]
    seeds: dict[str, float]
    folder: Path

    @property
    def over(self) -> bool:
        return self.state in ("complete", "pruned", "failed")


class Study:
    """One folder, held by one process at a time."""

    def __init__(self, folder: Path, asked: Tuning) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._held = Run(folder)
            self._held.lock()
            self._check_same(asked)
            self.storage = self._open()
        except OSError as e:
            raise MedleyError(f"the folder {folder} cannot be written: {e.strerror}.") from None

    def _check_same(self, asked: Tuning) -> None:
        """A folder holds trials of one search; only how many there are to be may change."""
        path, wanted = self.folder / "tune.json", asked.identity()
        if not path.exists():
            write_json(path, {"format": 1, **wanted})
            return
        before = read_json(path)
        changed = [f"{key}: {before.get(key)} -> {value}" for key, value in wanted.items() if before.get(key) != value]
        if changed:
            raise ConfigError(
                f"{self.folder} holds another search:\n  "
                + "\n  ".join(changed)
                + "\nGive this one a name of its own: "
                "setup.id=NAME."
            )

    def _open(self) -> Any:
        import optuna
        from sqlalchemy.exc import DatabaseError

        path = self.folder / "study.db"
        try:
            storage = optuna.storages.get_storage(f"sqlite:///{path}")
            optuna.create_study(storage=storage, study_name=STUDY, direction="maximize", load_if_exists=True)
        except (DatabaseError, RuntimeError) as e:
            raise DamagedError(f"{path} cannot be used: {str(e).splitlines()[0]}") from None
        return storage

    def trials(self) -> list[Tried]:
        import optuna

        found = []
        for trial in optuna.load_study(study_name=STUDY, storage=self.storage).trials:
            state = trial.state.name.lower().replace("fail", "failed")
            state = "pruned" if trial.user_attrs.get("pruned") else state
            place = self.folder / f"trial_{trial.number:03d}"
            seeds = trial.user_attrs.get("seeds", {})
            found.append(Tried(trial.number, state, trial.value, dict(trial.params), dict(seeds), place))
        return found

    def take_up(self) -> int:
        """Trials that nobody works at any more are next, with the same values; how many there are."""
        import optuna

        running, waiting = optuna.trial.TrialState.RUNNING, optuna.trial.TrialState.WAITING
        trials = optuna.load_study(study_name=STUDY, storage=self.storage).trials
        for trial in trials:
            if trial.state == running:
                self.storage.set_trial_state(trial._trial_id, waiting)
        return sum(trial.state in (running, waiting) for trial in trials)

    def close(self) -> None:
        self._held.unlock()


def best_of(trials: list[Tried]) -> Tried | None:
    """The first of those with the largest value; what was given up does not count."""
    done = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    return max(done, key=lambda trial: (trial.value, -trial.number), default=None)


def shown(path: Path) -> str:
    """A path as short as it can be written from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
