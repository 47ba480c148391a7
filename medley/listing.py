"""`medley list`: what there is to choose from, and every option with its default and meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from medley.config.load import choices, load_config, read_choice, to_dict
from medley.config.options import describe
from medley.envs.registry import env_kind, env_kinds
from medley.errors import ConfigError
from medley.training.changes import flatten
from medley.training.protocols import PROTOCOLS


def show(what: str, words: Sequence[str], config_dirs: Sequence[str | Path]) -> None:
    {"envs": _envs, "agents": _agents, "tasks": _tasks, "options": _options}[what](list(words), config_dirs)


def _print(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; tab-separated lines for a pipe, where nothing is cut off."""
    console = Console()
    if not console.is_terminal:
        for row in rows:
            print("\t".join(row))
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _envs(words: list[str], config_dirs: Sequence[str | Path]) -> None:
    rows = []
    for name in choices("env", config_dirs):
        yaml = read_choice("env", name, config_dirs)
        try:
            tasks = _count(len(_task_names(name, yaml, config_dirs))) if not yaml.get("missing") else ""
        except ConfigError:
            tasks = "tasks to be given"
        rows.append([name, str(yaml.get("builder", "")), _state(yaml), tasks])
    _print("env=", ["name", "builder", "", "tasks"], rows)
    _print("experiment.protocol=", ["name", "meaning"], [[n, p.meaning] for n, p in PROTOCOLS.items()])


def _agents(words: list[str], config_dirs: Sequence[str | Path]) -> None:
    rows = []
    for name in choices("agent", config_dirs):
        yaml = read_choice("agent", name, config_dirs)
        rows.append([name, str(yaml.get("builder", "")), _state(yaml)])
    _print("agent=", ["name", "builder", ""], rows)


def _tasks(words: list[str], config_dirs: Sequence[str | Path]) -> None:
    """Tasks of an env (`medley list tasks env=metaworld-mt10`), or all tasks of Meta-World."""
    config = load_config(words or ["env=metaworld-mt50"], config_dirs)
    names = env_kind(config.env.builder).tasks(config.env)
    _print(f"tasks of {config.env.name}", ["name"], [[name] for name in names])


def _options(words: list[str], config_dirs: Sequence[str | Path]) -> None:
    """Every option, with the default it has under the chosen agent and env."""
    config = load_config(words, config_dirs)
    values = flatten(to_dict(config))
    rows = [[name, _default(values.get(name, value)), meaning] for name, value, meaning in describe(type(config))]
    for builder, kind in env_kinds().items():
        if builder != config.env.builder:
            seen = {row[0] for row in rows}
            own = [o for o in describe(kind.options, "env.") if o[0] not in seen]
            rows += [[n, _default(v), f"({builder}) {meaning}"] for n, v, meaning in own]
    _print("options", ["name", "default", "meaning"], rows)


def _count(tasks: int) -> str:
    return f"{tasks} task" + ("s" if tasks != 1 else "")


def _default(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _state(yaml: dict[str, object]) -> str:
    return f"not yet: needs {yaml['missing']}" if yaml.get("missing") else "ready"


def _task_names(env: str, yaml: dict[str, object], config_dirs: Sequence[str | Path]) -> list[str]:
    kind = env_kind(str(yaml.get("builder")))
    if set(yaml) <= {field.name for field in dataclasses.fields(kind.options)}:
        return kind.tasks(kind.options(**yaml))  # type: ignore[arg-type]
    config = load_config([f"env={env}"], config_dirs)
    return env_kind(config.env.builder).tasks(config.env)
