"""The words of `medley compare`: which methods, which seeds, and the options that all of them share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from medley.config.load import expand_sweeps
from medley.errors import ConfigError

DEFAULT_SEEDS = "3"

# Words that would give all methods one folder, or say the same as `agents=` and `seeds=`.
_REFUSED = {
    "agent": "name the methods in agents=",
    "setup.seed": "name the seeds in seeds=",
    "setup.id": "give it to one method, as in agents=state_sac+setup.id=NAME",
    "setup.save_dir": "every run needs a folder of its own; setup.base_path says where they are",
}


@dataclass(frozen=True)
class Method:
    """One entry of `agents=`: an agent and options of its own."""

    agent: str
    options: tuple[str, ...]

    @property
    def label(self) -> str:
        """`setup.id` where it has one, else what was typed, without the `agent.` that all options begin with."""
        for word in self.options:
            if word.startswith("setup.id="):
                return word.removeprefix("setup.id=")
        return " ".join([self.agent, *(word.removeprefix("agent.") for word in self.options)])


@dataclass(frozen=True)
class Request:
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    shared: tuple[str, ...]
    jobs: int = 1  # runs at a time

    def words(self, method: Method, seed: int) -> list[str]:
        """What `medley train` would be told for one run."""
        return [f"agent={method.agent}", *self.shared, *method.options, f"setup.seed={seed}"]


def read(words: Sequence[str]) -> Request:
    """`agents=a,b seeds=3 env=point ...`"""
    own: dict[str, str] = {"seeds": DEFAULT_SEEDS, "jobs": "1"}
    shared: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if key in ("agents", "seeds", "jobs") and equals:
            own[key] = value
        elif key in _REFUSED and equals:
            raise ConfigError(f"{word}: in a comparison, {_REFUSED[key]}.")
        else:
            shared.append(word)
    if not own.get("agents"):
        raise ConfigError("which methods? For example agents=state_sac,state_sac+agent.trunk=multi_head.")
    for word in shared:
        if len(expand_sweeps([word])) > 1:
            raise ConfigError(f"{word}: all methods share one value; what differs between them stands in agents=.")
    if not own["jobs"].isdigit() or int(own["jobs"]) < 1:
        raise ConfigError(f"jobs={own['jobs']}: how many runs at a time, 1 or more.")
    return Request(_methods(own["agents"]), seeds_of(own["seeds"]), tuple(shared), int(own["jobs"]))


def _methods(text: str) -> tuple[Method, ...]:
    """Entries between commas; in each, options after a `+` or a space."""
    found = []
    for entry in _split(text):
        # A plus sign can be part of a value (experiment.protocol=metaworld+): it parts only what looks like an option.
        agent, *options = re.split(r"\s+|\+(?=[\w./]+=)", entry.strip())
        if not agent or "=" in agent:
            raise ConfigError(f"agents={text}: {entry.strip()!r} does not begin with the name of an agent.")
        for word in options:
            if word.partition("=")[0] in ("agent", "setup.seed", "setup.save_dir"):
                raise ConfigError(f"agents={text}: {word} cannot be an option of one method.")
            if len(expand_sweeps([word])) > 1:
                raise ConfigError(f"agents={text}: {word} stands for several methods; write an entry for each.")
        found.append(Method(agent, tuple(options)))
    return tuple(found)


def _split(text: str) -> list[str]:
    """At commas, but not at those inside brackets: `a+agent.actor.log_std_bounds=[-10,2],b` are two."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def seeds_of(text: str) -> tuple[int, ...]:
    """`3` stands for 1, 2, 3; with a comma, exactly these."""
    inner = text.strip("[]")
    try:
        numbers = [int(part) for part in inner.split(",") if part.strip()]
    except ValueError:
        numbers = []
    exact = "," in text or text.startswith("[")
    if not numbers or min(numbers) < (0 if exact else 1):
        raise ConfigError(f"seeds={text}: a number of seeds, as in seeds=3, or the seeds themselves, as in seeds=4,7.")
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds={text}: every seed once.")
    return tuple(numbers) if exact else tuple(range(1, numbers[0] + 1))
