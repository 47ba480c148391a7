"""What stands in a run's folder, and whether a run of these options can go on with it."""

from __future__ import annotations

from pathlib import Path

from medley.config.schema import Config
from medley.errors import ConfigError
from medley.training.changes import changed_options
from medley.training.checkpoints import Checkpoints
from medley.training.run import POLICY, Run


def standing_of(config: Config, run: Run) -> str:
    """new | unfinished | finished; refuses a folder that holds another run."""
    if not run.exists():
        check_source(config)
        return "new"
    if is_finished(config, run):
        return "finished"
    try:
        check_unfinished(config, run, override=False)
    except ConfigError:
        if is_finished(config, run):  # just now: a launched run goes on while it is looked at
            return "finished"
        raise
    return "unfinished"


def is_finished(config: Config, run: Run) -> bool:
    """Whether the folder holds this very run, and nothing of it is left to do."""
    return run.exists() and is_complete(run, config) and not changed_options(run.config(), config)[1]


def is_complete(run: Run, config: Config) -> bool:
    """Whether it came to its end, and that is as far as is asked for now: in steps, or in minutes."""
    info, saved, asked = run.info(), run.config().experiment, config.experiment
    if info.get("status") != "finished":
        return False
    if (saved.num_train_steps, saved.max_minutes) == (asked.num_train_steps, asked.max_minutes):
        return True
    minutes, step = float(info.get("minutes", 0.0)) + 1e-3, int(info.get("step", 0))  # minutes are rounded there
    return step >= asked.num_train_steps or (asked.max_minutes is not None and minutes >= asked.max_minutes)


def goes_beyond(run: Run, config: Config) -> bool:
    """Whether it has been trained for longer than is asked for now: its steps are not to be called fewer."""
    steps = config.experiment.num_train_steps
    return steps < run.config().experiment.num_train_steps and _trained(run) > steps


def how_long(run: Run, config: Config) -> str:
    """Of a finished run that was asked for, where it is not as long as that."""
    steps, trained = config.experiment.num_train_steps, _trained(run)
    return f" ({trained:,} steps, not {steps:,})" if trained < steps or goes_beyond(run, config) else ""


def _trained(run: Run) -> int:
    """Its step; where it was killed, run.json is from its start, and the newest checkpoint says more."""
    return max([int(run.info().get("step", 0)), *Checkpoints(run.path, 1).steps()])


def check_unfinished(config: Config, run: Run, override: bool) -> None:
    """Whether this can go on with the run that stands in the folder."""
    check_learns(run)
    grave = changed_options(run.config(), config)[1]
    own = "setup.id=NAME" if config.setup.save_dir is None else "setup.save_dir=FOLDER"
    again = (
        f"Go on with it: medley resume {run.path} [options]. Start anew: --fresh (from Python fresh=True). "
        f"A folder of its own: {own}."
    )
    if grave and not override:
        raise ConfigError(f"{run.path} holds a run with other options:\n  " + "\n  ".join(grave) + f"\n{again}")
    if is_complete(run, config):
        raise ConfigError(f"{run.path} is finished: see its report.html. {again}")
    if goes_beyond(run, config):
        raise ConfigError(f"{run.path} is beyond {config.experiment.num_train_steps:,} steps already. {again}")
    if not config.experiment.should_resume:
        raise ConfigError(f"{run.path} holds an unfinished run, and experiment.should_resume=false. {again}")


def check_source(config: Config) -> None:
    """Whether there is a run to start from. Once it has started, nobody needs that run any more."""
    if config.experiment.init_from is not None and not Path(config.experiment.init_from).is_dir():
        raise ConfigError(f"experiment.init_from={config.experiment.init_from}: there is no such run folder.")


def check_learns(run: Run) -> None:
    if (run.path / POLICY).is_file():
        raise ConfigError(f"{run.path} holds a policy to act with: there is nothing to go on learning from.")
