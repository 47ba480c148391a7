"""The settings of the torchrl family (Soft-Module, T3S, MUST, …): a JSON file, and flags that win over it.

A file has sections (`general_setting`, `sac`, `net`, …), but a key means the same in all of them. `torchrl_words.py`
says what each key is to medley.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starting import add_fresh

from medley.errors import ConfigError

# Keys that were called otherwise at some time or place.
ALIASES = {
    "opt_times": "opt_steps",
    "replay_buffer.size": "buffer_size",
    "policy_lr": "plr",
    "qf_lr": "qlr",
}

# Keys that are right in every file, whatever the method.
KNOWN = {
    "env_name",
    "num_epochs",
    "epoch_frames",
    "num_envs",
    "opt_steps",
    "pretrain_epochs",
    "min_pool",
    "eval_episodes",
    "eval_interval",
    "save_interval",
    "batch_size",
    "buffer_size",
    "max_episode_frames",
    "discount",
    "tau",
    "use_soft_update",
    "target_hard_update_period",
    "plr",
    "qlr",
    "alpha_lr",
    "automatic_entropy_tuning",
    "target_entropy",
    "grad_clip",
    "hidden_shapes",
    "append_hidden_shapes",
    "reward_scale",
    "obs_type",
    "random_init",
}

# Keys with one value that medley can do; it does that without being told.
ONLY = {
    "obs_norm": False,
    "reparameterization": True,
    "policy_std_reg_weight": 0,
    "policy_mean_reg_weight": 0,
    "temp_reweight": False,
}

# Keys of networks that a plain starter does not have: leaving them out would train another method than was asked for.
_SOFT_MODULES = (
    "em_hidden_shapes",
    "num_layers",
    "num_modules",
    "module_hidden",
    "num_gating_layers",
    "gating_hidden",
    "add_bn",
    "pre_softmax",
    "cond_ob",
)

# Sections of MUST's files whose keys mean something else than elsewhere; only MUST's starter knows some of them.
_MUST_SECTIONS = ("task_embedding", "traj_encoder", "generator")

# Flags of the family that say how many processes work and where their snapshots go.
IDLE_FLAGS = ("worker_nums", "eval_worker_nums", "save_dir", "data_dir", "wandb_group_name")


def parser(description: str, more: Iterable[str] = ()) -> argparse.ArgumentParser:
    """The flags of every starter: the family's own, one for each key of a file, and `more` such."""
    epilog = "Every key of a settings file is a flag too, like --num_epochs 100; compat/torchrl/README.md lists them."
    made = argparse.ArgumentParser(description=description, epilog=epilog, allow_abbrev=False)
    made.add_argument("--config", help="JSON file with settings; what it leaves out stands in ours")
    made.add_argument("--id", help="first folder below the log folder; default: the name of the file")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--log_dir", default="log", help="default: log, below the folder you are in")
    made.add_argument("--device", type=int, help="number of the GPU")
    made.add_argument("--no_cuda", action="store_true", help="train on the CPU")
    add_fresh(made)
    made.add_argument("--print-only", action="store_true", help="show medley's command, but do not run it")
    made.add_argument("options", nargs="*", help="options of medley, like experiment.save_video=false; they win")
    for name in sorted({*KNOWN, *ONLY, *more, *(a for a in ALIASES if "." not in a)}):
        made.add_argument(f"--{name}", type=_value, help=argparse.SUPPRESS)
    for name in IDLE_FLAGS:
        made.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return made


def settings(
    arguments: argparse.Namespace, default: Path, more: Sequence[str] = (), unused: Sequence[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Our file, the user's over it, flags over both; and remarks about what is left out.

    `more` are the starter's own keys, `unused` those (or places) that the project's own code has no use for.
    """
    values, left_out = _checked(_read(default), more)
    if arguments.config:
        own, left_out = _checked(_read(Path(arguments.config)), more)
        own.setdefault("random_init", False)  # in this family, a file that is silent about goals has fixed ones
        values |= own
    flags = {key: value for key, value in vars(arguments).items() if value is not None}
    names = {*KNOWN, *ONLY, *ALIASES, *more, *unused}
    asked, idle_too = _checked({key: value for key, value in flags.items() if key in names}, more)
    values |= asked
    remarks = _remarks([*left_out, *(f"--{name}" for name in idle_too)], unused)
    idle = [f"--{name}" for name in IDLE_FLAGS if name in flags]
    if idle:
        remarks.append(f"Not needed: {', '.join(idle)}. medley uses all cores and keeps everything in the log folder.")
    return values, remarks


def _remarks(places: Sequence[str], unused: Sequence[str]) -> list[str]:
    """What is left out, by the reason for it."""
    there = [place for place in places if place in unused or place.rpartition(".")[2].lstrip("-") in unused]
    unknown = [place for place in places if place not in there]
    remarks = []
    if unknown:
        remarks.append(f"Left out, for this starter has nothing of that name: {', '.join(unknown)}.")
    if there:
        remarks.append(f"Left out, for the project's own code does not use it either: {', '.join(there)}.")
    return remarks


def _checked(raw: Mapping[str, Any], more: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """By today's names, and what is unknown; refuses misspelt keys and values that cannot be had."""
    known = {*KNOWN, *ONLY, *more}
    values: dict[str, Any] = {}
    unknown = []
    for place, value in raw.items():
        section, _, name = place.rpartition(".")
        key = ALIASES.get(place) or ALIASES.get(name, name)
        if section in _MUST_SECTIONS and name not in more:
            unknown.append(place)
        elif key in known:
            if key in ONLY and value != ONLY[key]:
                raise ConfigError(f"{key}={json.dumps(value)}: medley has only {json.dumps(ONLY[key])}.")
            values[key] = value
        elif key in _SOFT_MODULES:
            raise ConfigError(f"{place} is a setting of soft modules, which this starter does not train.")
        elif near := difflib.get_close_matches(key, [*known, *ALIASES], n=1, cutoff=0.8):
            raise ConfigError(f"there is no setting {place!r}. Did you mean {near[0]!r}?")
        else:
            unknown.append(place)
    return values, unknown


def _read(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text("utf-8"))
    except OSError as e:
        raise ConfigError(f"--config {path}: {e.strerror}.") from None
    except ValueError as e:
        raise ConfigError(f"--config {path} is not JSON: {e}.") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"--config {path} does not hold settings by name.")
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _value(text: str) -> Any:
    """A number, a list, true or false as JSON has them; anything else is a word."""
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text
