"""The torchrl family's settings in medley's words."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starting import quoted

from medley.errors import ConfigError, closest

# One key, one option or several. Numbers such as 1e6 are whole where the option is.
_WHOLE = {
    "batch_size": "replay_buffer.batch_size",
    "buffer_size": "replay_buffer.capacity",
    "max_episode_frames": "env.horizon",
    "eval_episodes": "experiment.num_eval_episodes",
}
_PLAIN = {
    "discount": ["agent.discount"],
    "tau": ["agent.critic_tau"],
    "plr": ["agent.optimizers.actor.lr", "agent.optimizers.alpha.lr"],  # the temperature learns as the policy does
    "qlr": ["agent.optimizers.critic.lr"],
    "alpha_lr": ["agent.optimizers.alpha.lr"],
    "automatic_entropy_tuning": ["agent.learn_temperature"],
    "target_entropy": ["agent.target_entropy"],
    "grad_clip": ["agent.grad_clip"],
    "reward_scale": ["agent.reward_scale"],
}
_OBSERVATIONS = ("plain", "with_goal", "with_goal_id", "with_goal_and_id")


def run_words(arguments: argparse.Namespace, name: str, default: Path) -> list[str]:
    """Seed, device, and the folder log/<id>/<name>/<seed>, which is the run's own."""
    chosen = arguments.id or Path(arguments.config or default).stem
    folder = Path(arguments.log_dir) / chosen / name / str(arguments.seed)
    words = [f"setup.seed={arguments.seed}", f"setup.id={quoted(chosen)}", f"setup.save_dir={quoted(str(folder))}"]
    if arguments.no_cuda:
        words.append("setup.device=cpu")
    elif arguments.device is not None:
        words.append(f"setup.device=cuda:{arguments.device}")
    return words


def setting_words(values: Mapping[str, Any], tasks: int) -> list[str]:
    """Everything but the task and the method."""
    found: dict[str, Any] = _loop(values, tasks)
    for key, option in _WHOLE.items():
        if key in values:
            found[option] = whole(key, values[key])
    for key, options in _PLAIN.items():
        if key in values:
            found |= dict.fromkeys(options, values[key])
    if not values.get("use_soft_update", True):
        period = whole("target_hard_update_period", values.get("target_hard_update_period", 1000))
        found |= {"agent.critic_tau": 1.0, "agent.critic_target_update_freq": period}
    return [f"{option}={text(value)}" for option, value in (found | _network(values) | _env(values, tasks)).items()]


def _loop(values: Mapping[str, Any], tasks: int) -> dict[str, Any]:
    """num_epochs times: epoch_frames steps in each of num_envs simulators, then opt_steps updates.

    The first pretrain_epochs are taken with random actions; until there are min_pool frames, nothing is learnt either.
    """
    number = {key: whole(key, value) for key, value in values.items() if key in _COUNTS}
    slots, rest = divmod(number.get("num_envs", tasks), tasks)
    if rest or not slots:
        raise ConfigError(f"num_envs={number['num_envs']} is no multiple of {tasks}, the number of tasks.")
    epoch = number["epoch_frames"] * slots
    pool = -(-number.get("min_pool", 0) // tasks)  # in steps of every task, rounded up
    return {
        "env.slots_per_task": slots,
        "experiment.num_train_steps": number["num_epochs"] * epoch,
        "experiment.init_steps": max(1, number.get("pretrain_epochs", 0) * epoch, pool),
        "experiment.collect_steps": number["epoch_frames"],
        "experiment.updates": number["opt_steps"],
        "experiment.eval_freq": number["eval_interval"] * epoch,
        "experiment.save_freq": number["save_interval"] * epoch,
    }


_COUNTS = (
    "num_epochs",
    "epoch_frames",
    "num_envs",
    "opt_steps",
    "pretrain_epochs",
    "min_pool",
    "eval_interval",
    "save_interval",
)


def _network(values: Mapping[str, Any]) -> dict[str, int]:
    """Layers of one width, in actor and critics."""
    widths = [*_list(values["hidden_shapes"]), *_list(values.get("append_hidden_shapes", []))]
    if not widths or len(set(widths)) > 1:
        raise ConfigError(f"hidden_shapes={widths}: medley's layers are of one width, like [400, 400].")
    sizes = {"num_layers": len(widths), "hidden_dim": whole("hidden_shapes", widths[0])}
    return {f"agent.{net}.{key}": size for net in ("actor", "critic") for key, size in sizes.items()}


def _env(values: Mapping[str, Any], tasks: int) -> dict[str, Any]:
    """What is observed, and whether goals change from episode to episode."""
    kind = values.get("obs_type", "with_goal")
    if kind not in _OBSERVATIONS:
        raise ConfigError(f"obs_type={kind!r} does not exist.{closest(str(kind), _OBSERVATIONS)}")
    found: dict[str, Any] = {}
    if kind in ("plain", "with_goal_id"):
        found["env.partially_observable"] = True
    if tasks > 1 and kind in ("plain", "with_goal"):
        found["agent.task_input"] = "none"
    if not values.get("random_init", False):
        found["env.goals"] = "single"
    return found


def whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
        raise ConfigError(f"{key}={value} must be a whole number.")
    return int(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"hidden_shapes={value} must be a list, like [400, 400].")
    return value


def text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
