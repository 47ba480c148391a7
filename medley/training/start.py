"""Starting, resuming and finishing runs: what `medley train` and `medley resume` do around the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from medley.config.schema import Config
from medley.errors import ConfigError, MedleyError
from medley.training.build import Parts, build, prepare_device
from medley.training.checkpoints import Checkpoints, load_agent
from medley.training.experiment import Experiment
from medley.training.run import Run, changed_options, config_name, default_path, describe_machine
from medley.training.stopping import StopRequest

Say = Callable[[str], None]


def train(config: Config, fresh: bool = False, override: bool = False, say: Say = print) -> tuple[Run, str]:
    """Begin a run, or go on with the one that stands in its folder. Returns the run and how it ended."""
    prepare_device(config)  # a GPU that is not there is refused before anything is touched
    run = Run(default_path(config))
    if run.exists() and fresh:
        say(f"The earlier run is kept as {_move_aside(run.path)}.")
    if not run.exists():
        run.create(config)
        run.lock()
        try:
            return run, _go(config, run, say)
        finally:
            run.unlock()
    status = run.info().get("status")
    harmless, grave = changed_options(run.config(), config)
    again = (
        f"Go on with it: medley resume {run.path} [options]. Start anew: --fresh (from Python fresh=True). "
        "A folder of its own: setup.id=NAME."
    )
    if grave and not override:
        raise ConfigError(f"{run.path} holds a run with other options:\n  " + "\n  ".join(grave) + f"\n{again}")
    if status == "finished" and not any(line.startswith("experiment.num_train_steps") for line in harmless):
        raise ConfigError(f"{run.path} is finished: see its report.html. {again}")
    if not config.experiment.should_resume:
        raise ConfigError(f"{run.path} holds an unfinished run, and experiment.should_resume=false. {again}")
    return run, _continue(config, run, say)


def resume(path: str | Path, words: list[str], override: bool = False, say: Say = print) -> tuple[Run, str]:
    """Go on with a run folder, with a few options changed."""
    run = Run(Path(path))
    old = run.config()
    config = run.config(words)
    harmless, grave = changed_options(old, config)
    if grave and not override:
        raise ConfigError(
            "this changes what is learnt, so the run would not be what its folder says:\n  "
            + "\n  ".join(grave)
            + "\nGive --override if that is meant."
        )
    for line in [*harmless, *grave]:
        say(f"changed: {line}")
    if run.info().get("status") == "finished" and run.info().get("step", 0) >= config.experiment.num_train_steps:
        raise ConfigError(f"{run.path} is finished. To train longer: experiment.num_train_steps=N.")
    return run, _continue(config, run, say)


def _continue(config: Config, run: Run, say: Say) -> str:
    run.lock()
    try:
        run.write_config(config)
        threads = run.info().get("threads")
        if config.setup.threads is None and isinstance(threads, int):
            torch.set_num_threads(threads)  # another number would round matrix products differently
        return _go(config, run, say)
    finally:
        run.unlock()


def _go(config: Config, run: Run, say: Say) -> str:
    say(f"Run folder: {run.path}")
    parts = build(config)
    initialise(parts, config, run)
    info = {
        "format": 1,
        "env": config.env.name,
        "agent": config.agent.name,
        "config_name": config_name(config),
        "seed": config.setup.seed,
        "tasks": list(parts.env.tasks),
        "protocol": config.experiment.protocol,
        "device": str(parts.device),
        "threads": torch.get_num_threads(),
        **describe_machine(),
    }
    try:
        run.write_info(**info)
        with StopRequest() as stop:
            status = Experiment(config, run, parts).train(stop)
    except OSError as e:
        raise MedleyError(f"the run stopped: {e}. Once that is mended: medley resume {run.path}") from e
    if status == "stopped":
        say(f"Stopped and saved. Go on with: medley resume {run.path}")
    return status


def initialise(parts: Parts, config: Config, run: Run) -> None:
    """Weights of another run, where they are asked for and this run is only beginning."""
    source = config.experiment.init_from
    if source is None or Checkpoints(run.path, 1).steps():
        return
    parts.agent.load_weights(load_agent(newest_checkpoint(Path(source))))


def newest_checkpoint(run: Path, say: Say = lambda text: None) -> Path:
    path = Checkpoints(run, 1).latest(say)
    if path is None:
        raise ConfigError(f"{run} has no usable checkpoint.")
    return path


def _move_aside(path: Path) -> Path:
    n = 1
    while (target := path.with_name(f"{path.name}.old-{n}")).exists():
        n += 1
    path.rename(target)
    return target
