"""`medley demos`: record examples of success and demonstrations in an env."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from medley.config.load import GROUPS, load_config
from medley.config.schema import Config
from medley.data.examples import Array, Recorded
from medley.data.minari_sets import check_name, read_minari, write_minari
from medley.data.recording import SLOTS, default_file, describe, has_examples, has_script, made_up, record
from medley.data.rollouts import Act, Wish
from medley.envs.api import MultiTaskEnv
from medley.envs.registry import env_kind
from medley.errors import ConfigError, closest


@dataclass
class Asked:
    """The command's own words; all others are options of the env."""

    examples: int = 200
    demos: int = 0
    source: str | None = None  # from=
    minari_source: str | None = None  # from_minari=
    minari: str | None = None
    tasks: list[str] = field(default_factory=list)
    out: Path | None = None
    noise: float = 0.1
    history: int = 3
    force: bool = False
    words: list[str] = field(default_factory=list)


def _names(text: str) -> list[str]:
    return [name for part in text.strip("[]").split(",") if (name := part.strip())]


def _yes(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _count(text: str) -> int:
    if int(text) < 0:
        raise ValueError
    return int(text)


_OWN: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "examples": ("examples", _count, "a number"),
    "demos": ("demos", _count, "a number"),
    "from": ("source", str, "a run folder"),
    "from_minari": ("minari_source", str, "a folder or the name of a dataset"),
    "minari": ("minari", str, "a name such as point/shown-v0"),
    "tasks": ("tasks", _names, "a list such as [main,reach]"),
    "out": ("out", Path, "a file"),
    "noise": ("noise", float, "a number"),
    "history": ("history", _count, "a number"),
    "force": ("force", _yes, "true or false"),
}


def read(words: Sequence[str]) -> Asked:
    asked = Asked()
    for word in words:
        key, equals, value = word.partition("=")
        if key in _OWN and equals:
            name, kind, what = _OWN[key]
            try:
                setattr(asked, name, kind(value))
            except (ValueError, KeyError):
                raise ConfigError(f"{word}: {key} takes {what}.") from None
        elif "." in key or key in GROUPS:
            asked.words.append(word)
        else:
            raise ConfigError(f"`medley demos` does not know {word!r}.{closest(key, [*_OWN, 'env'])}")
    if asked.minari_source is not None:
        if asked.source is not None or any(word.startswith("examples=") for word in words):
            raise ConfigError("from_minari= brings demonstrations, neither examples= nor with from=.")
        asked.examples, asked.demos = 0, asked.demos or sys.maxsize  # all there are
    if asked.minari is not None and not asked.demos:
        raise ConfigError("minari= writes demonstrations: set demos= to more than 0.")
    if not asked.examples and not asked.demos:
        raise ConfigError("nothing to record: set examples= or demos= to more than 0.")
    if not np.isfinite(asked.noise) or asked.noise < 0:
        raise ConfigError(f"noise={asked.noise} must be 0 or more.")
    return asked


def demos(
    words: Sequence[str], config_dirs: Sequence[str | Path] = (), say: Callable[[str], None] = print
) -> list[Path]:
    """Records what `words` ask for; returns the files."""
    asked = read(words)
    config, policy = _config(asked, config_dirs)
    files = _files(asked, config)
    if asked.minari is not None:
        check_name(asked.minari)
    cfg = config.env
    if getattr(cfg, "goals", None) == "fixed":
        in_turn: dict[str, Any] = {"goals": "order"}  # so that none comes again before all have
        cfg = dataclasses.replace(cfg, **in_turn)
    kind = env_kind(cfg.builder)
    if kind.shows_pictures(cfg):
        raise ConfigError(f"recordings hold observations of numbers, and {cfg.name} shows pictures.")
    names = kind.intentions(cfg) or kind.tasks(cfg)
    for name in asked.tasks:
        if name not in names:
            raise ConfigError(f"{cfg.name} has no task {name!r}.{closest(name, names)}")
    chosen = [names.index(name) for name in asked.tasks] or list(range(len(names)))
    wish = Wish(chosen, asked.examples, asked.demos, asked.history, asked.noise)
    env = kind.build(cfg, max(1, SLOTS // len(kind.tasks(cfg))), config.setup.seed, False)
    try:
        if asked.minari_source is not None:
            made: tuple[Recorded | None, Recorded | None] = None, _from_minari(asked, config, env, chosen)
        else:
            made = _recorded(asked, config, env, policy, wish, say)
    finally:
        env.close()
    for recorded, path in zip(made, files, strict=True):
        if recorded is not None:
            recorded.save(path)
            count = len(np.unique(recorded.episode_id))  # every example is in an episode of its own
            say(f"{count:,} {recorded.about.holds} in {path}")
    if asked.minari is not None and made[1] is not None:
        say(f"the same demonstrations as a Minari dataset in {write_minari(made[1], asked.minari)}")
    return [path for recorded, path in zip(made, files, strict=True) if recorded is not None]


def _config(asked: Asked, config_dirs: Sequence[str | Path]) -> tuple[Config, Any]:
    named = any(word.startswith("env=") for word in asked.words)
    if asked.source is None:
        if not named:
            raise ConfigError("say where to record, for example env=metaworld-aux env.task=push, or from=RUN.")
        return load_config(asked.words, config_dirs), None
    from medley.training.policy import Policy
    from medley.training.run import Run

    policy = Policy(asked.source)
    return load_config(asked.words, config_dirs) if named else Run(Path(asked.source)).config(asked.words), policy


def _files(asked: Asked, config: Config) -> tuple[Path, Path]:
    """Where examples and demonstrations go; nothing is written over by accident."""
    out = asked.out or default_file(config.env)
    out = out if out.suffix == ".npz" else out.with_name(f"{out.name}.npz")
    files = out, out.with_name(f"{out.stem}-demos.npz")
    for wanted, path in zip((asked.examples, asked.demos), files, strict=True):
        if wanted and path.exists() and not asked.force:
            raise ConfigError(f"{path} exists; force=true writes over it, out=FILE takes another name.")
    return files


def _recorded(
    asked: Asked, config: Config, env: MultiTaskEnv, policy: Any, wish: Wish, say: Callable[[str], None]
) -> tuple[Recorded | None, Recorded | None]:
    names = env.intentions or env.tasks
    if policy is not None:
        source, act, able = f"run {asked.source}", _by_policy(policy, names), _known(policy, env, names)
    elif has_script(env):
        source, act, able = "script", env.expert_actions, list(range(len(names)))
    elif has_examples(env):
        if asked.demos:
            raise ConfigError(f"{config.env.name} has examples but no script: demonstrations need from=RUN.")
        made = made_up(env, wish, describe(config.env, env, config.setup.seed, "made up by the env"))
        say(f"{config.env.name} made up {asked.examples} examples of each task: {', '.join(names)}")
        return made, None
    else:
        raise ConfigError(
            f"{config.env.name} has neither a script nor examples of its own: train a run, take from=RUN."
        )
    about = describe(config.env, env, config.setup.seed, f"{source}, noise {asked.noise:g}")
    with Progress(transient=True, disable=not Console().is_terminal) as progress:
        bar = progress.add_task("recording", total=len(wish.tasks) * (wish.examples + wish.demos))
        examples, demonstrations, found = record(
            env, act, wish, about, able, lambda done: progress.update(bar, completed=done)
        )
    for k in wish.tasks:
        if found.tried[k]:
            rate = found.done[k] / found.tried[k]
            say(f"{names[k]:24} {found.done[k]} of {found.tried[k]} episodes succeeded ({rate:.1%})")
    return examples, demonstrations


def _from_minari(asked: Asked, config: Config, env: MultiTaskEnv, chosen: Sequence[int]) -> Recorded:
    assert asked.minari_source is not None
    about = describe(config.env, env, config.setup.seed, "")
    wide: Any = env.single_observation_space.shape
    frames = getattr(config.env, "frame_stack", 1)  # files may hold single ones, which training stacks
    sizes = [wide[0], *([wide[0] // frames] if wide[0] % frames == 0 else [])]
    return read_minari(asked.minari_source, about, sizes, chosen, asked.demos)


def _known(policy: Any, env: MultiTaskEnv, names: Sequence[str]) -> list[int]:
    size = env.single_observation_space.shape
    if policy.obs_shape != size:
        raise ConfigError(f"the run was trained on observations {policy.obs_shape}, and this env has {size}.")
    able = [k for k, name in enumerate(names) if name in policy.tasks]
    if not able or (not env.intentions and len(able) < len(names)):
        raise ConfigError(f"the run was trained on {', '.join(policy.tasks)}; this env has {', '.join(names)}.")
    return able


def _by_policy(policy: Any, names: Sequence[str]) -> Act:
    def act(obs: Array, wanted: Array) -> Array:
        actions = np.zeros((len(obs), policy.action_dim), np.float32)
        for k in np.unique(wanted):
            actions[wanted == k] = policy.act(obs[wanted == k], task=names[k])
        return actions

    return act
