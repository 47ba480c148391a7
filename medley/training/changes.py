"""What differs between two configurations, and whether a run may go on with it."""

from __future__ import annotations

from typing import Any

from medley.config.load import to_dict
from medley.config.schema import Config

# Options that may differ when a run goes on: they do not touch what is learnt.
HARMLESS = (
    "collect.cpus",
    "env.workers",
    "env.worker_timeout",
    "experiment.num_train_steps",
    "experiment.max_minutes",
    "experiment.seeds_together",
    "experiment.eval_slots_per_task",
    "experiment.save",
    "experiment.save_freq",
    "experiment.save_minutes",
    "experiment.save_report",
    "experiment.save_video",
    "experiment.video",
    "experiment.should_resume",
    "logger",
    "metrics",
    "replay_buffer.frames_dir",
    "setup.base_path",
    "setup.save_dir",
    "setup.id",
    "setup.description",
    "setup.tags",
    "setup.debug",
)


def changed_options(old: Config, new: Config) -> tuple[list[str], list[str]]:
    """What differs, as sentences: (harmless, not harmless)."""
    before, after = flatten(to_dict(old)), flatten(to_dict(new))
    harmless: list[str] = []
    grave: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            line = f"{key}: {before.get(key)} -> {after.get(key)}"
            (harmless if is_harmless(key) else grave).append(line)
    return harmless, grave


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def is_harmless(key: str) -> bool:
    return any(key == h or key.startswith(h + ".") for h in HARMLESS)
