"""Which options differ between methods, and which of these belong to the protocol rather than to a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Options = Mapping[str, Any]

# Parts of an agent's options that decide what is measured, or how much it learns from, whatever the method.
_AGENT = ("agent.discount", "agent.n_step", "agent.reward_scale", "agent.reward_normalization")

# Where files go, what is shown, how fast it runs: none of it changes a result that is compared.
_NEITHER = (
    "agent.missing",
    "agent.name",
    "agent.multitask.should",  # mtrl's words for options that are listed under their own names
    "env.folder",
    "env.missing",
    "env.worker",
    "experiment.eval_in_background",
    "experiment.eval_slots_per_task",
    "experiment.learner",
    "experiment.save",
    "experiment.seeds_together",
    "experiment.should_resume",
    "experiment.video",
    "logger.",
    "metrics.",
    "replay_buffer.frames_dir",
    "setup.base_path",
    "setup.debug",
    "setup.description",
    "setup.device",
    "setup.id",
    "setup.save_dir",
    "setup.seed",
    "setup.tags",
    "setup.threads",
)


@dataclass(frozen=True)
class Difference:
    """One option and its value in every method; `None` also where a method does not have it."""

    option: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.option} ({', '.join(dict.fromkeys(map(shown, self.values)))})"


def protocol_differences(methods: Sequence[Options]) -> list[Difference]:
    """Options outside the methods themselves, and the few inside that make results hard to compare."""
    return _differences(methods, lambda key: not key.startswith("agent.") or key in _AGENT)


def method_differences(methods: Sequence[Options]) -> list[Difference]:
    """What makes the methods different, as it should be."""
    return _differences(methods, lambda key: key.startswith("agent.") and key not in _AGENT)


def all_differences(methods: Sequence[Options]) -> list[Difference]:
    """Whatever may change a result."""
    return _differences(methods, lambda key: True)


def decisive(options: Options) -> dict[str, Any]:
    """The options that may change a result; the seed is not one of them."""
    return {key: value for key, value in options.items() if not key.startswith(_NEITHER)}


def shown(value: Any) -> str:
    return "–" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _differences(methods: Sequence[Options], wanted: Callable[[str], bool]) -> list[Difference]:
    keys = dict.fromkeys(key for options in methods for key in options)
    rows = [Difference(key, tuple(options.get(key) for options in methods)) for key in keys if wanted(key)]
    return [row for row in rows if not row.option.startswith(_NEITHER) and any(v != row.values[0] for v in row.values)]
