"""Which runs must not be averaged together, and why; and what else differs between those that are."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from medley.config.schema import ExperimentConfig
from medley.reporting.differences import all_differences, shown

if TYPE_CHECKING:
    from medley.reporting.runs import RunData

# What is measured, and how much a run may learn from.
_MEASURED = (
    "experiment.eval_explore",
    "experiment.eval_schedule",
    "experiment.init_from",
    "experiment.max_minutes",
    "experiment.num_eval_episodes",
    "experiment.num_final_eval_episodes",
    "experiment.num_train_steps",
)
# Of an env's options, those that leave the world as it is.
_SAME_WORLD = (
    "env.folder",
    "env.missing",
    "env.name",
    "env.setup",
    "env.slots_per_task",
    "env.threads",
    "env.train_horizon",  # evaluated are whole episodes
    "env.worker",
)
_OF_TASKS = ("env.task", "env.num_tasks", "env.num_envs")  # said once, by the tasks' names
_DEFAULTS = ExperimentConfig()
_NAMED = 8  # options in one sentence
_SHORT = 44  # letters of what is added to a group's name


def facts(run: RunData) -> dict[str, Any]:
    """The protocol of a run: its env, its tasks, how it is scored and how long it learns."""
    options = run.options
    found: dict[str, Any] = {
        "env": run.env,
        "tasks": sorted(run.tasks),
        "experiment.protocol": run.protocol or options.get("experiment.protocol"),
    }
    found["config.yaml"] = "readable" if options else "missing or damaged"
    if options:
        # Runs from before an option existed did what its default does.
        found |= {key: options.get(key, getattr(_DEFAULTS, key.split(".")[1])) for key in _MEASURED}
        if run.progress("step") >= (found["experiment.num_train_steps"] or math.inf):
            found["experiment.max_minutes"] = None  # it never came to that
        start = found["experiment.init_from"]
        # Every seed may start from its own one of another configuration.
        found["experiment.init_from"] = re.sub(r"seed_\d+", "seed_*", str(start)) if start else None
        own = (key for key in options if key.startswith("env.") and not key.startswith((*_SAME_WORLD, *_OF_TASKS)))
        found |= {key: options[key] for key in own}
    return found


def key(run: RunData) -> str:
    """Equal for runs that may be averaged."""
    return json.dumps(facts(run), sort_keys=True, default=str)


def reasons(parts: Sequence[Sequence[RunData]]) -> list[tuple[str, list[str]]]:
    """Every part of the protocol that differs between parts of runs, and its value in each."""
    known = [facts(part[0]) for part in parts]
    keys = list(dict.fromkeys(name for one in known for name in one))
    rows = [(name, [_value(name, one.get(name)) for one in known]) for name in keys]
    differing = [row for row in rows if len(set(row[1])) > 1]
    if any(name == "config.yaml" for name, _ in differing):
        # Nothing else can be known of such a run: all other options would be listed as missing.
        return [row for row in differing if row[0] in ("env", "tasks", "experiment.protocol", "config.yaml")]
    if differing and differing[0][0] == "env":
        return differing[:1]  # another world has other tasks and options of its own
    return differing


def sentence(name: str, parts: Sequence[Sequence[RunData]]) -> str:
    """Why the runs that are called `name` are shown in `parts`."""
    who = [_who(part) for part in parts]
    said = []
    for option, values in reasons(parts)[:_NAMED]:
        have: dict[str, list[str]] = {}
        for value, whose in zip(values, who, strict=True):
            have.setdefault(value, []).append(whose)
        said.append(
            f"{option} {'are' if option == 'tasks' else 'is'} "
            + " or ".join(f"{value} ({' and '.join(w)})" for value, w in have.items())
        )
    return f"Runs of {name} differ in their protocol and are not averaged together: {'; '.join(said)}."


def suffixes(parts: Sequence[Sequence[RunData]]) -> list[str]:
    """What to add to a common name to tell the parts apart."""
    differing = reasons(parts)
    words = [
        ", ".join(
            values[index] if option == "tasks" else f"{option.rpartition('.')[2]}={values[index]}"
            for option, values in differing
        )
        for index in range(len(parts))
    ]
    if len(set(words)) < len(words) or max(map(len, words)) > _SHORT:
        return [f"protocol {number}" for number in range(1, len(parts) + 1)]
    return words


def pooled(name: str, runs: Sequence[RunData]) -> list[str]:
    """A sentence about the options in which runs that are averaged differ, if there are any."""
    if not all(run.options for run in runs):
        return []
    differing = [f"agent ({', '.join(agents)})"] if len(agents := _unique(run.agent for run in runs)) > 1 else []
    of_protocol = facts(runs[0])  # where they agree, or they would be apart
    differing += [str(d) for d in all_differences([run.options for run in runs]) if d.option not in of_protocol]
    if not differing:
        return []
    more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return [f"{name} averages over runs that differ in {', '.join(differing[:_NAMED])}{more}."]


def _value(name: str, value: Any) -> str:
    if name == "tasks":
        text = ", ".join(value)
        return text if 0 < len(text) <= _SHORT else f"{len(value)} tasks ({text[:_SHORT]}…)" if value else "not known"
    return "not set" if value is None else shown(value)


def _who(part: Sequence[RunData]) -> str:
    seeds = sorted({run.seed for run in part}, key=lambda seed: (len(seed), seed))
    if len(seeds) < len(part) or len(seeds) > 5:
        return f"{len(part)} runs"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
