"""`medley tune`: Optuna proposes options, medley trains with them, and the same command goes on where it was."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medley.errors import MedleyError
from medley.tuning import picture, sweeper
from medley.tuning.launcher import Stopped, TrialLauncher, short
from medley.tuning.study import Study, Tried, best_of, shown
from medley.tuning.words import Tuning, check_corners, read

Say = Callable[[str], None]
EVERY = 10.0  # seconds between two drawings


def tune(words: Sequence[str], config_dirs: Sequence[str | Path] = (), dry_run: bool = False, say: Say = print) -> int:
    """The exit code: 0, 1 when no trial succeeded, 130 when it was stopped."""
    sweeper.need_packages()
    asked = read(words)
    space = sweeper.distributions(asked)
    asked.n_trials = min(asked.n_trials, sweeper.grid_size(asked, space) or asked.n_trials)
    sweeper.settings(asked)  # refuses options that the sampler does not have
    like = check_corners(asked, sweeper.corners(space), config_dirs)
    folder = asked.folder(like)
    if dry_run:
        say(f"{asked.n_trials} trials in {shown(folder)}, for the largest {asked.objective}:")
        for word in asked.search:
            say(f"  {word}")
        return 0
    study = Study(folder, asked)
    try:
        return _search(asked, study, space, config_dirs, say)
    except Stopped:
        say("Stopped; what was under way is saved, or goes on where it was queued. The same command goes on.")
        return 130
    finally:
        _draw(asked, study, space)
        study.close()


def _search(asked: Tuning, study: Study, space: dict[str, Any], config_dirs: Sequence[str | Path], say: Say) -> int:
    trials, unfinished = study.trials(), study.take_up()
    over = sum(trial.over for trial in trials)
    going_on = f", {unfinished} to go on with" if unfinished else ""
    say(f"{shown(study.folder)}: {over} of {asked.n_trials} trials are done{going_on}.")
    launcher, drawn = TrialLauncher(asked, study.folder, config_dirs, say), time.monotonic()
    while over < asked.n_trials:
        sweeper.sweep(asked, study.folder, study.storage, launcher, min(asked.at_once, asked.n_trials - over), over)
        before, trials = over, study.trials()
        over = sum(trial.over for trial in trials)
        if time.monotonic() - drawn > EVERY:
            _draw(asked, study, space)
            drawn = time.monotonic()
        for trial in trials[before:over]:
            _tell(trial, trials, asked, say)
        if over == before:
            raise MedleyError(f"{study.folder}: no trial came to an end.")
    return _conclude(asked, study, trials, config_dirs, say)


def _draw(asked: Tuning, study: Study, space: dict[str, Any]) -> None:
    if trials := study.trials():
        picture.write(study.folder, trials, space, asked.objective, asked.launch.seeds)


def _tell(trial: Tried, trials: list[Tried], asked: Tuning, say: Say) -> None:
    best = best_of(trials)
    if trial.value is None or best is None:
        return
    pruned = " (given up early)" * (trial.state == "pruned")
    say(
        f"trial {trial.number}: {asked.objective} {trial.value:.4g}{pruned}; "
        f"best {best.value:.4g} by trial {best.number}; {asked.n_trials - trial.number - 1} to go"
    )


def _conclude(asked: Tuning, study: Study, trials: list[Tried], config_dirs: Sequence[str | Path], say: Say) -> int:
    best = best_of(trials)
    if best is None:
        say(f"None of {len(trials)} trials came to a result; {shown(study.folder)} has their folders.")
        return 1
    found = [sweeper.word_of(name, value) for name, value in best.params.items()]
    say(
        f"Best of {len(trials)}: trial {best.number}, {asked.objective} {best.value:.4g}: {' '.join(map(short, found))}"
    )
    folders = [f"--config-dir={folder}" for folder in config_dirs]
    say(f"Train it: {shlex.join(['medley', 'train', *folders, *asked.launch.words, *found])}")
    say(f"Its runs: {shown(best.folder)}. All trials: {shown(study.folder / 'trials.csv')} and trials.png.")
    return 0
