"""Where a run's folder is: by its env, its seed, and what sets its options apart from the defaults."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from medley.config.load import to_dict
from medley.config.resolve import fill_and_check
from medley.config.schema import Config
from medley.errors import ConfigError
from medley.training.changes import flatten, is_harmless


def default_path(config: Config) -> Path:
    """runs/<env>/<config name>/seed_<i>, unless setup.save_dir says otherwise."""
    if config.setup.save_dir is not None:
        return Path(config.setup.save_dir)
    return Path(
        config.setup.base_path,
        "runs",
        config.env.folder or config.env.name,
        config_name(config),
        f"seed_{config.setup.seed}",
    )


def config_name(config: Config) -> str:
    """setup.id, or the agent's name followed by what differs from its defaults: readable, and never ambiguous."""
    if config.setup.id is not None:
        return config.setup.id
    flat = flatten(to_dict(config))
    plain = _plain_options(config)
    own = {
        key: value
        for key, value in flat.items()
        if (key not in plain or plain[key] != value)
        and not key.startswith(("setup.", "logger.", "metrics.", "agent.multitask.should"))
        and not is_harmless(key)
        and key not in ("agent.multitask.num_envs", "env.num_envs")
    }
    words = [f"{_short(key, flat)}-{_word(value)}" for key, value in own.items()]
    name = "_".join([config.agent.name, *words])
    if len(name) > 80:
        digest = hashlib.sha256(json.dumps(own, sort_keys=True, default=str).encode()).hexdigest()[:8]
        name = f"{name[:70]}_{digest}"
    return name


def _plain_options(config: Config) -> dict[str, Any]:
    """What the run's agent and env are without any option set, as far as it can be known."""
    from medley.config.load import load_config, read_choice

    steps = f"experiment.num_train_steps={config.experiment.num_train_steps}"  # eval_freq follows from it
    words = [f"env={config.env.name}", f"setup.device={config.setup.device}", steps]
    agent = f"agent={config.agent.name}"
    try:
        best = read_choice("env", config.env.name).get("best", {})
        if any(agent in options for options in best.values()):  # then what belongs to it is nothing special
            without = load_config(words)
            if without.agent.name == config.agent.name:
                return flatten(to_dict(without))
        return flatten(to_dict(load_config([agent, *words])))
    except ConfigError:  # an env that needs options, or a setup, agent or env from a folder of the user's own
        return _schema_options(config)


def _schema_options(config: Config) -> dict[str, Any]:
    """The defaults that stand in the code, filled in as for this agent and env."""
    base = type(config)()
    base.experiment.num_train_steps = config.experiment.num_train_steps
    defaults = flatten(to_dict(base))
    base.agent, base.env = copy.deepcopy(config.agent), copy.deepcopy(config.env)
    fill_and_check(base)
    filled = flatten(to_dict(base))
    named = [f"{group}.{key}" for group in ("agent", "env") for key in ("name", "builder", "setup")]
    own = {k: v for k, v in defaults.items() if k.startswith(("agent.", "env.")) and k not in named}
    return filled | own


def _short(key: str, among: Iterable[str]) -> str:
    """The end of a dotted name that no other option shares: `trunk`, but `actor.hidden_dim`."""
    parts = key.split(".")
    for n in range(1, len(parts)):
        tail = "." + ".".join(parts[-n:])
        if sum(other.endswith(tail) for other in among) == 1:
            return tail[1:]
    return key


def _word(value: Any) -> str:
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(c if c.isalnum() or c in "+.-" else "-" for c in text)
