"""Which Meta-World tasks there are, what they are called, and what people called them before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from medley.errors import ConfigError, closest

# Spellings of earlier releases and of papers' code, each with the name it has today.
_OLD_NAMES = {
    "door": "door-open",
    "ped-insert-side": "peg-insert-side",
    "peg-insertion-side": "peg-insert-side",
    "nut-assembly": "assembly",
    "assembly-peg": "assembly",
    "nut-disassemble": "disassemble",
    "disassemble-peg": "disassemble",
    "sweep-into-goal": "sweep-into",
}

BENCHMARKS = ("mt1", "mt10", "mt25", "mt50", "custom")

# Names of tasks that have been added to the simulator (tasks/base.py): those of other packages, and the package's own
# once the simulator is loaded. They are kept here so that reading a config does not load it.
_registered: set[str] = set()


@cache
def env_classes() -> dict[str, Any]:
    """Task name (without suffix) -> the package's class. The package is imported here, on first use."""
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    return {name.removesuffix("-v3"): cls for name, cls in ALL_V3_ENVIRONMENTS.items()}


@cache
def benchmark_tasks(benchmark: str) -> tuple[str, ...]:
    """The tasks of mt10, mt25 or mt50, in the package's order."""
    from metaworld import env_dict

    return tuple(name.removesuffix("-v3") for name in getattr(env_dict, f"{benchmark.upper()}_V3"))


def _read(name: str) -> tuple[str, str | None]:
    plain = name.strip().lower().replace("_", "-")
    suffix = re.search(r"-(v[123])$", plain)
    version = suffix.group(1) if suffix else None
    plain = plain.removesuffix(f"-{version}")
    return _OLD_NAMES.get(plain, plain), version


def register_name(name: str) -> None:
    """Let configs name a task that the package does not have."""
    plain, version = _read(name)
    if (plain, version) != (name, None):
        raise ConfigError(f"a Meta-World task cannot be called {name!r}: it would be read as {plain!r}")
    _registered.add(name)


def resolve_task(name: str) -> tuple[str, str | None]:
    """`name` as it is spelt today, without suffix, and the version its suffix asked for (or None)."""
    plain, version = _read(name)
    if plain not in _registered and plain not in env_classes():
        raise ConfigError(f"Meta-World has no task {name!r}.{closest(plain, {*_registered, *env_classes()})}")
    return plain, version


def select_tasks(benchmark: str, task: str | None, tasks: Sequence[str]) -> tuple[list[str], list[str | None]]:
    """The tasks an env's options ask for, and the version each name carried.

    A list of names overrides the benchmark; `mt1` takes its one task from `task`.
    """
    if tasks:
        resolved = [resolve_task(name) for name in tasks]
    elif benchmark == "mt1":
        if not task:
            raise ConfigError("env.benchmark=mt1 needs a task, for example env.task=reach")
        resolved = [resolve_task(task)]
    elif benchmark in ("mt10", "mt25", "mt50"):
        resolved = [(name, None) for name in benchmark_tasks(benchmark)]
    elif benchmark == "custom":
        raise ConfigError("env.benchmark=custom needs a list of tasks, for example env.tasks=[reach,push]")
    else:
        raise ConfigError(f"there is no Meta-World benchmark {benchmark!r}.{closest(benchmark, BENCHMARKS)}")
    names = [name for name, _ in resolved]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"the task {twice[0]!r} is listed twice; use env.slots_per_task for copies of a task")
    return names, [version for _, version in resolved]


def reward_version(chosen: str | None, versions: Sequence[str | None]) -> list[str]:
    """The reward of each task: the one chosen, else v1 for names that end in -v1 and v2 for all others."""
    if chosen is not None and chosen not in ("v1", "v2"):
        raise ConfigError(f"env.reward_version must be v1 or v2, not {chosen!r}")
    return [chosen or ("v1" if version == "v1" else "v2") for version in versions]
