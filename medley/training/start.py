"""Starting, resuming and finishing runs: what `medley train` and `medley resume` do around the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from medley.config.resolve import check_pictures
from medley.config.schema import Config
from medley.errors import ConfigError, MedleyError
from medley.training.build import Parts, build_together
from medley.training.build_intentions import check_recordings
from medley.training.changes import changed_options
from medley.training.checkpoints import Checkpoints, load_agent, verify_agent
from medley.training.device import prepare_device
from medley.training.eval_acting import check_eval_acting
from medley.training.experiment import Experiment
from medley.training.folder_name import config_name, default_path
from medley.training.loop import train_together
from medley.training.machine import describe_machine
from medley.training.run import Run
from medley.training.standing import check_learns, check_source, check_unfinished, goes_beyond, is_complete
from medley.training.stopping import StopRequest

Say = Callable[[str], None]


def train(config: Config, fresh: bool = False, override: bool = False, say: Say = print) -> tuple[Run, str]:
    """Begin a run, or go on with the one that stands in its folder. Returns the run and how it ended."""
    (run,), status = train_seeds([config], fresh, override, say)
    return run, status


def train_seeds(
    configs: Sequence[Config], fresh: bool = False, override: bool = False, say: Say = print
) -> tuple[list[Run], str]:
    """The same for several runs at once that differ in their seeds alone."""
    check_pictures(configs[0])  # what cannot work is refused before anything is touched
    check_recordings(configs[0])
    check_eval_acting(configs[0])
    prepare_device(configs[0])
    runs = [Run(default_path(config)) for config in configs]
    for config, run in zip(configs, runs, strict=True):
        if run.exists() and not fresh:
            check_unfinished(config, run, override)
        else:
            check_source(config)
    if fresh:
        move_aside([run for run in runs if run.exists()], say)
    for config, run in zip(configs, runs, strict=True):
        if not run.exists():
            run.create(config)
    return runs, _locked(configs, runs, say)


def groups(configs: Sequence[Config]) -> list[list[Config]]:
    """Runs to be trained together: up to `experiment.seeds_together` in a row that differ in their seeds alone."""
    made: list[list[Config]] = []
    for config in configs:
        if made and len(made[-1]) < config.experiment.seeds_together and _differ_in_seed(made[-1][0], config):
            made[-1].append(config)
        else:
            made.append([config])
    return made


def _differ_in_seed(a: Config, b: Config) -> bool:
    harmless, grave = changed_options(a, b)
    return all(line.startswith(("setup.seed:", "setup.save_dir:")) for line in (*harmless, *grave)) and (
        default_path(a) != default_path(b)
    )


def resume(path: str | Path, words: list[str], override: bool = False, say: Say = print) -> tuple[Run, str]:
    """Go on with a run folder, with a few options changed."""
    run = Run(Path(path))
    check_learns(run)
    old = run.config()
    config = run.config(words)
    harmless, grave = changed_options(old, config)
    if grave and not override:
        raise ConfigError(
            "this changes what is learnt, so the run would not be what its folder says:\n  "
            + "\n  ".join(grave)
            + "\nGive --override if that is meant."
        )
    if is_complete(run, config):
        limit = " and experiment.max_minutes=M" if config.experiment.max_minutes is not None else ""
        raise ConfigError(f"{run.path} is finished. To train longer: experiment.num_train_steps=N{limit}.")
    if goes_beyond(run, config):
        raise ConfigError(f"{run.path} is beyond {config.experiment.num_train_steps:,} steps already.")
    for line in [*harmless, *grave]:
        say(f"changed: {line}")
    return run, _locked([config], [run], say)


def _locked(configs: Sequence[Config], runs: Sequence[Run], say: Say) -> str:
    with ExitStack() as locks:
        for run in runs:
            run.lock()
            locks.callback(run.unlock)
            Checkpoints(run.path, 1).recover()  # before anybody looks for what there is
        before = [run.config() for run in runs]
        for config, run in zip(configs, runs, strict=True):
            run.write_config(config)
        threads = runs[0].info().get("threads")
        if configs[0].setup.threads is None and isinstance(threads, int):
            torch.set_num_threads(threads)  # another number would round matrix products differently
        try:
            names = [_name(*three) for three in zip(before, configs, runs, strict=True)]
            return _go(configs, runs, names, say)
        except ConfigError:  # it cannot go on like this, and stays what it was
            for old, run in zip(before, runs, strict=True):
                run.write_config(old)
            raise


def _name(old: Config, config: Config, run: Run) -> str:
    """What it was called when it began, which is where it stands, unless it learns otherwise now."""
    named = run.info().get("config_name")
    if named is None or config.setup.id is not None or changed_options(old, config)[1]:
        return config_name(config)
    return str(named)


def _go(configs: Sequence[Config], runs: Sequence[Run], names: Sequence[str], say: Say) -> str:
    for run in runs:
        say(f"Run folder: {run.path}")
    if len(runs) > 1:
        say(f"{len(runs)} seeds are trained together; what is shown is seed {configs[0].setup.seed}.")
    everything = build_together(configs)
    again = " ".join(f"medley resume {run.path}" for run in runs) if len(runs) == 1 else "the same command"
    try:
        with ExitStack() as unless_begun:
            for parts in everything:
                unless_begun.callback(parts.close)
            for parts, config, run, name in zip(everything, configs, runs, names, strict=True):
                initialise(parts, config, run)
                run.write_info(config_name=name, **_describe(config, parts))
            experiments = [
                Experiment(config, run, parts, console=i == 0)
                for i, (config, run, parts) in enumerate(zip(configs, runs, everything, strict=True))
            ]
            unless_begun.pop_all()
        with StopRequest() as stop:
            status = train_together(experiments, stop)
    except OSError as e:
        raise MedleyError(f"the run stopped: {e}. Once that is mended: {again}") from e
    if status == "stopped":
        say(f"Stopped and saved. Go on with: {again}")
    return status


def _describe(config: Config, parts: Parts) -> dict[str, Any]:
    return {
        "format": 1,
        "env": config.env.name,
        "agent": config.agent.name,
        "seed": config.setup.seed,
        "tasks": list(parts.evaluator.env.tasks),
        "protocol": config.experiment.protocol,
        "device": str(parts.device),
        "overlap": parts.overlap,
        "threads": torch.get_num_threads(),
        **describe_machine(),
    }


def initialise(parts: Parts, config: Config, run: Run) -> None:
    """Weights of another run, where they are asked for and this run is only beginning."""
    source = config.experiment.init_from
    if source is None or Checkpoints(run.path, 1).steps():
        return
    parts.agent.load_weights(load_agent(newest_checkpoint(Path(source))))


def newest_checkpoint(run: Path, say: Say = lambda text: None) -> Path:
    path = Checkpoints(run, 1).latest(say)
    if path is None:
        check_learns(Run(run))
        raise ConfigError(f"{run} has no usable checkpoint.")
    return path


def checkpoint_folder(run: Path, step: int | None = None, say: Say = lambda text: None) -> Path:
    """Of the checkpoint at `step`, or the newest that is undamaged."""
    if step is None:
        return newest_checkpoint(run, say)
    for folder in (Checkpoints(run, 1).place(step), run / "checkpoints" / f"long_term_{step}"):
        if (folder / "agent.safetensors").is_file():
            verify_agent(folder)
            return folder
    there = sorted(p.name for p in (run / "checkpoints").glob("*") if not p.name.startswith("."))
    raise ConfigError(f"{run} has no checkpoint {step}; there are {', '.join(there) or 'none'}.")


def move_aside(runs: Sequence[Run], say: Say) -> None:
    """All of them or, where somebody is still at work in one, none."""
    with ExitStack() as locks:
        for run in runs:
            run.lock()
            locks.callback(run.unlock)
        for run in runs:
            say(f"The earlier run is kept as {_move_aside(run.path)}.")


def _move_aside(path: Path) -> Path:
    n = 1
    while (target := path.with_name(f"{path.name}.old-{n}")).exists():
        n += 1
    path.rename(target)
    return target
