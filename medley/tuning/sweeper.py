"""Hydra's own Optuna sweeper (the plugin hydra-optuna-sweeper), for a few trials at a time.

Its grammar, distributions, samplers and study are used as they are; who carries out trials is our launcher. Every
batch has a sampler of its own whose seed follows from how many trials are over, so that a search that was killed goes
on as if it had not been.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from hydra import compose, initialize
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from medley.errors import ConfigError, MedleyError
from medley.tuning.words import Tuning

if TYPE_CHECKING:
    from medley.tuning.launcher import TrialLauncher

STUDY = "medley"


def need_packages() -> None:
    try:
        import optuna
        from hydra_plugins.hydra_optuna_sweeper import optuna_sweeper  # noqa: F401
    except ImportError:
        raise MedleyError(
            "tuning needs Optuna and Hydra's sweeper for it: pip install 'medley[tune]' (the sweeper wants optuna<3, "
            "and that sqlalchemy<2)."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("hydra_plugins").setLevel(logging.ERROR)  # we say ourselves what failed


def distributions(asked: Tuning) -> dict[str, Any]:
    """What Optuna draws from, by the names of options, as the sweeper reads it from the words."""
    from hydra_plugins.hydra_optuna_sweeper._impl import create_params_from_overrides

    try:
        found, _ = create_params_from_overrides(asked.search)
    except (ValueError, AssertionError, NotImplementedError, HydraException) as e:
        why = str(e).strip().partition("\n")[0] or "choices, ranges and intervals can be searched"
        raise ConfigError(f"{' '.join(asked.search)}: {why}.".replace("..", ".")) from None
    return dict(found)


def grid_size(asked: Tuning, space: dict[str, Any]) -> int | None:
    """How many points sampler=grid has."""
    if asked.sampler != "grid":
        return None
    from hydra_plugins.hydra_optuna_sweeper._impl import OptunaSweeperImpl

    points = 1
    for name, distribution in space.items():
        try:
            points *= len(sorted(OptunaSweeperImpl._to_grid_sampler_choices(None, distribution)))
        except ValueError:
            raise ConfigError(f"sampler=grid needs choices or ranges, and {name} has an interval.") from None
        except TypeError:
            raise ConfigError(f"sampler=grid needs choices of one kind, and those of {name} are of several.") from None
    return points


def corners(space: dict[str, Any]) -> dict[str, list[str]]:
    """Words for the ends of every option's range, or for all of its choices."""
    return {
        name: [word_of(name, value) for value in getattr(d, "choices", None) or (d.low, d.high)]
        for name, d in space.items()
    }


def word_of(name: str, value: Any) -> str:
    """As the sweeper writes it."""
    return f"{name}={value}"


def settings(asked: Tuning) -> tuple[DictConfig, HydraContext]:
    """Hydra's own configuration with this sweeper and sampler in it."""
    words = ["hydra/sweeper=optuna", f"hydra/sweeper/sampler={asked.sampler}"]
    words += [f"hydra.sweeper.{word}" for word in asked.sampler_words]
    GlobalHydra.instance().clear()
    try:
        with initialize(version_base="1.3", config_path=None):
            config = compose(overrides=words, return_hydra_config=True)
            loader = GlobalHydra.instance().config_loader()
    except (HydraException, OmegaConfBaseException) as e:
        raise ConfigError(f"{' '.join(asked.sampler_words)}: {str(e).splitlines()[0]}") from None
    return config, HydraContext(config_loader=loader, callbacks=Callbacks())


def sweep(asked: Tuning, folder: Path, storage: Any, launcher: TrialLauncher, trials: int, finished: int) -> None:
    """The next `trials` trials, proposed together, by a sampler that knows how all earlier ones ended."""
    config, context = settings(asked)
    with open_dict(config):
        chosen = config.hydra.sweeper
        chosen.update(n_trials=trials, n_jobs=trials, direction="maximize", study_name=STUDY, max_failure_rate=1.0)
        config.hydra.sweep.dir = str(folder)
        if "seed" in chosen.sampler:
            key = (int(chosen.sampler.seed or 0), finished)
            chosen.sampler.seed = int(np.random.SeedSequence(key).generate_state(1)[0])
    sweeper: Any = Plugins.instance().instantiate_sweeper(
        hydra_context=context, task_function=lambda options: None, config=config
    )
    implementation = sweeper.sweeper
    implementation.storage, implementation.launcher = storage, launcher
    implementation.custom_search_space_extender = launcher.expect  # hears of every trial before it is launched
    try:
        sweeper.sweep(list(asked.search))
    except ValueError as e:
        if "No trials are completed yet" not in str(e):  # it looks for the best one in the end
            raise
