"""Runs grouped by some of their options: `medley report RUNS --by agent,agent.trunk`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medley.errors import MedleyError, closest
from medley.reporting.differences import shown
from medley.reporting.run_files import options_of, read_json, read_text
from medley.reporting.runs import run_folders


def labels_by(paths: Sequence[Path], by: str) -> dict[Path, str]:
    """A name for every run below `paths`, made of the options that `by` lists between commas.

    `agent` and `env` stand for their names. Runs with one name are taken together, see `group_runs`.
    """
    keys = [key.strip() for key in by.split(",") if key.strip()]
    if not keys:
        raise MedleyError("--by: which options? For example --by agent, or --by env,agent.trunk.")
    runs = {path.resolve(): _options(path) for path in run_folders(paths)}
    known = {option for options in runs.values() for option in options}
    for key in keys:
        _check(key, known)
    return {path: ", ".join(_word(key, options) for key in keys) for path, options in runs.items()}


def _options(path: Path) -> dict[str, Any]:
    problems: list[str] = []  # said by the report itself
    info = read_json(path / "run.json", problems)
    options = options_of(read_text(path / "config.yaml", problems))
    # A folder without run.json still says these by its place.
    options["agent"] = info.get("agent") or options.get("agent.name") or path.parent.name
    options["env"] = info.get("env") or path.parent.parent.name
    return options


def _check(key: str, known: set[str]) -> None:
    if key in known:
        return
    below = sorted(option for option in known if option.startswith(f"{key}."))
    if below:
        raise MedleyError(f"--by {key} is not one option; name one of them, for example {below[0]}.")
    raise MedleyError(f"--by {key}: no run has such an option.{closest(key, known)}")


def _word(key: str, options: dict[str, Any]) -> str:
    """The name of an agent or env; else `trunk=multi_head`."""
    value = shown(options.get(key))
    return value if key in ("agent", "env") else f"{key.rpartition('.')[2]}={value}"
