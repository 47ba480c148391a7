"""The words of `medley tune`: what is searched for, by what measure, how long, and where trials are carried out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medley.config.load import load_config, parse
from medley.config.schema import Config
from medley.errors import ConfigError, closest
from medley.scale.sweep import Request
from medley.scale.sweep import read as read_launch

OBJECTIVES = ("success", "return")
SAMPLERS = ("tpe", "random", "grid")
_OWN = ("n_trials", "objective", "sampler", "pruning", "seeds", "jobs", "on", "retries")
_GROUPS = ("agent", "env", "setup", "metrics")


@dataclass
class Tuning:
    """What was asked for."""

    launch: Request  # where trials are carried out, their seeds, and the words that all of them share
    search: list[str] = field(default_factory=list)  # words with intervals, ranges and choices
    n_trials: int = 20
    objective: str = "success"
    sampler: str = "tpe"
    sampler_words: list[str] = field(default_factory=list)
    pruning: bool = False
    name: str | None = None

    @property
    def at_once(self) -> int:
        """Trials that are proposed together."""
        return max(1, self.launch.jobs // len(self.launch.seeds))

    def identity(self) -> dict[str, Any]:
        """What trials of one study have in common."""
        return {
            "options": sorted(self.launch.words),
            "search": sorted(self.search),
            "objective": self.objective,
            "seeds": list(self.launch.seeds),
            "sampler": [self.sampler, *sorted(self.sampler_words)],
            "pruning": self.pruning,
        }

    def folder(self, like: Config) -> Path:
        """tune/<env>/<setup.id, or the agent's name and what tells this search from others>"""
        digest = hashlib.sha256(json.dumps(self.identity()).encode()).hexdigest()[:8]
        name = self.name or f"{like.agent.name}_{digest}"
        return Path(like.setup.base_path, "tune", like.env.folder or like.env.name, name).resolve()


def read(words: Sequence[str]) -> Tuning:
    """`env=point 'agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-2))' n_trials=20 ...`"""
    asked, rest = Tuning(Request()), []
    for word in words:
        key, _, value = word.partition("=")
        if key == "n_trials":
            if not value.isdigit() or value == "0":
                raise ConfigError(f"{word}: that should be a whole number.")
            asked.n_trials = int(value)
        elif key in ("objective", "sampler"):
            known = OBJECTIVES if key == "objective" else SAMPLERS
            if value == "cmaes":
                raise ConfigError("sampler=cmaes keeps pickles in its study, and medley reads none: take tpe.")
            if value not in known:
                raise ConfigError(f"{word} does not exist.{closest(value, known)}")
            setattr(asked, key, value)
        elif key == "pruning":
            if value.lower() not in ("true", "false"):
                raise ConfigError(f"{word}: that should be true or false.")
            asked.pruning = value.lower() == "true"
        elif key == "setup.id":
            asked.name = value
        elif key.startswith("sampler."):
            asked.sampler_words.append(word)
        elif "." not in key and key not in (*_OWN, *_GROUPS):
            raise ConfigError(f"`medley tune` does not know {word!r}.{closest(key, _OWN)}")
        else:
            rest.append(word)
    searched = {override.input_line for override in parse(_plain(rest)) if override.is_sweep_override()}
    asked.search = [word for word in rest if word in searched]
    asked.launch = read_launch([word for word in rest if word not in searched])
    _check(asked)
    return asked


def _plain(words: Iterable[str]) -> list[str]:
    """Without what `medley launch` reads: seeds=1,2 is no choice between two."""
    return [w for w in words if w.partition("=")[0] not in _OWN and not w.startswith("resources.")]


def _check(asked: Tuning) -> None:
    if not asked.search:
        raise ConfigError(
            "what is to be tuned? For example 'agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-2))', "
            "agent.trunk=shared,disjoint or 'agent.actor.num_layers=range(1,4)'."
        )
    for word in asked.search:
        if word.partition("=")[0] in ("env", "setup"):
            raise ConfigError(f"{word}: trials are compared with each other, so all of them have the same.")
    if asked.name is not None and (asked.name in ("", ".", "..") or "/" in asked.name):
        raise ConfigError(f"setup.id={asked.name!r} cannot be the name of a folder.")
    if asked.pruning and (asked.launch.on != "local" or asked.launch.resources.per_job > 1):
        raise ConfigError("pruning=true is for on=local and resources.per_job=1: elsewhere trials run to their end.")


def check_corners(asked: Tuning, corners: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> Config:
    """Refuses, before anything starts, values at the ends of the search that a run could not have. Returns the options
    of the first corner."""
    firsts = [words[0] for words in corners.values()]
    like = load_config([*asked.launch.words, *firsts], config_dirs)
    for i, words in enumerate(corners.values()):
        for word in words[1:]:
            load_config([*asked.launch.words, *firsts[:i], word, *firsts[i + 1 :]], config_dirs)
    return like
