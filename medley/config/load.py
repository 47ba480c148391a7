"""From words on a command line to a checked, typed Config. Nothing is built here; bad input ends here."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from medley.agents.api import agent_kind
from medley.config import plugins
from medley.config.options import describe, opt
from medley.config.resolve import fill_and_check
from medley.config.schema import Config
from medley.envs.registry import env_kind
from medley.errors import ConfigError, closest

GROUPS = (
    "setup",
    "agent",
    "agent/components",
    "agent/optimizers",
    "env",
    "experiment",
    "replay_buffer",
    "metrics",
    "logger",
)


def expand_sweeps(words: Sequence[str]) -> list[list[str]]:
    """`setup.seed=1,2,3` stands for three runs; several such words for every combination."""
    plugins.load()
    runs: list[list[str]] = [[]]
    for override, word in zip(parse(words), words, strict=True):
        if override.is_sweep_override():
            if override.is_interval_sweep():
                raise ConfigError(f"{word}: an interval stands for no number of runs; `medley tune` searches in it.")
            values = [f"{override.get_key_element()}={v}" for v in override.sweep_string_iterator()]
            runs = [[*run, value] for run in runs for value in values]
        else:
            runs = [[*run, word] for run in runs]
    return runs


def load_config(words: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> Config:
    """Compose the YAML that `words` select, lay their values over it, and check everything.

    Where no agent is named, the env's `best` words come first: what is known to do best there on that kind of device.
    """
    plugins.load()
    overrides = parse(words)
    for o in overrides:
        if o.is_sweep_override():
            raise ConfigError(f"{o.input_line}: several values stand for several runs; load_config takes one.")
    with _hydra(config_dirs) as composer:
        groups = [o for o in overrides if _is_group(o)]
        for o in groups:
            composer.check_choice(str(o.key_or_group), str(o.value()))
        choices = [o.input_line or "" for o in groups]
        named = [str(o.value()) for o in groups if o.key_or_group == "env"]
        env = (_plain("env", named[-1]) if named else None) or composer.compose(choices)["env"]
        if not any(o.key_or_group == "agent" for o in groups) and (best := env.get("best")):
            overrides = [*parse(best.get(_kind_of_device(overrides), [])), *overrides]
            choices = [o.input_line or "" for o in overrides if _is_group(o)]
        if not any(o.key_or_group == "setup" for o in groups):
            choices += [f"setup={wanted}"] if (wanted := env.get("setup")) else []
        tree = composer.compose(choices)
    return _typed(tree, [o for o in overrides if not _is_group(o)])


def _kind_of_device(overrides: list[Override]) -> str:
    asked = [str(o.value()) for o in overrides if o.key_or_group == "setup.device"]
    if asked and asked[-1] != "auto":
        return asked[-1].split(":")[0]
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def choices(group: str, config_dirs: Sequence[str | Path] = ()) -> list[str]:
    """The names that `group=` can take."""
    plugins.load()
    with _hydra(config_dirs) as composer:
        return composer.names(group)


def read_choice(group: str, name: str, config_dirs: Sequence[str | Path] = ()) -> dict[str, Any]:
    """The YAML behind `group=name`, as it stands."""
    if (plain := _plain(group, name)) is not None:
        return plain
    with _hydra(config_dirs) as composer:
        chosen = composer.compose([f"{group}={name}"])[group]
    return {str(key): value for key, value in chosen.items()}


def _plain(group: str, name: str) -> dict[str, Any] | None:
    """Most choices are files of ours, laid over others of their group: reading them takes a hundredth of composing."""
    own = _own(group, name)
    if not own.is_file():
        return None
    tree = _container(OmegaConf.load(own))  # its floats are Hydra's: YAML's own 3e-4 is a text
    layers: list[dict[str, Any] | None] = []
    for below in tree.pop("defaults", ["_self_"]):
        if not isinstance(below, str):
            return None  # a choice from another group, or one that the command line decides
        layers.append(tree if below == "_self_" else _plain(group, below.removesuffix("@_here_")))
    return None if None in layers else _container(OmegaConf.merge(*(layer for layer in layers if layer)))


def _own(group: str, name: str) -> Path:
    return Path(__file__).parent / group / f"{name}.yaml"


def to_dict(config: Config) -> dict[str, Any]:
    return dataclasses.asdict(config)


def from_dict(saved: dict[str, Any], words: Sequence[str] = ()) -> Config:
    """The Config of a run folder, with a few options changed."""
    plugins.load()
    for o in (overrides := parse(words)):
        if _is_group(o):
            raise ConfigError(f"{o.key_or_group}= cannot be chosen anew for an existing run; set single options.")
    return _typed(_container(OmegaConf.create(saved)), overrides)


# ---- Hydra

# What words chose before, as long as all files were ours: those do not change while a program runs.
_COMPOSED: dict[tuple[str, ...], dict[str, Any]] = {}


class _Composer:
    def __init__(self, searchpath: list[str]) -> None:
        self.searchpath = [f"hydra.searchpath=[{','.join(searchpath)}]"] if searchpath else []

    def names(self, group: str) -> list[str]:
        # The groups below a group are listed as folders, so what comes back are names of files alone.
        from hydra.core.object_type import ObjectType

        loader = GlobalHydra.instance().config_loader()
        found: list[str] = []
        if self.searchpath:
            self.compose([])  # makes the loader look into the added folders
        for source in loader.get_sources():
            if source.available():
                found += source.list(group, results_filter=ObjectType.CONFIG) if source.is_group(group) else []
        for word in self.searchpath:
            for folder in word.removeprefix("hydra.searchpath=[").removesuffix("]").split(","):
                found += [p.stem for p in Path(folder.removeprefix("file://"), group).glob("*.yaml")]
        return sorted(set(found))

    def check_choice(self, group: str, name: str) -> None:
        if name not in (names := self.names(group)):
            raise ConfigError(f"there is no {group}={name}.{closest(name, names)}")

    def compose(self, words: list[str]) -> dict[str, Any]:
        if self.searchpath or (tree := _COMPOSED.get(tuple(words))) is None:
            try:
                composed = compose("config", overrides=[*self.searchpath, *words])
            except (HydraException, OmegaConfBaseException) as e:
                raise ConfigError(str(e).strip()) from None
            tree = _container(composed)
            if not self.searchpath:
                _COMPOSED[tuple(words)] = tree
        return copy.deepcopy(tree)


def _check_yaml(file: Path) -> None:
    try:
        yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        mark = getattr(e, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConfigError(f"{file} is no YAML: {getattr(e, 'problem', None) or e}{where}.") from None


class _hydra:
    """Hydra keeps one global state; take it for a moment and leave it as it was."""

    def __init__(self, config_dirs: Sequence[str | Path]) -> None:
        folders = [Path(d).resolve() for d in [*plugins.config_dirs(), *config_dirs]]
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"--config-dir {folder}: there is no such folder.")
            for file in (file for group in GROUPS for file in Path(folder, group).rglob("*.yaml")):
                _check_yaml(file)
                name = file.relative_to(folder).with_suffix("")
                if _own(str(name.parent), name.name).is_file():  # Hydra would take ours, and say nothing
                    group, _, choice = name.as_posix().partition("/")
                    raise ConfigError(f"{file}: medley has {group}={choice} already; give it another name.")
        self.searchpath = [f"file://{folder}" for folder in folders]

    def __enter__(self) -> _Composer:
        Plugins.instance()
        GlobalHydra.instance().clear()
        self.context = initialize_config_module("medley.config", version_base="1.3")
        self.context.__enter__()
        return _Composer(self.searchpath)

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(*error)
        GlobalHydra.instance().clear()


def parse(words: Sequence[str]) -> list[Override]:
    """Words by Hydra's grammar."""
    for word in words:
        if "=" not in word:
            raise ConfigError(f"{word!r} is not an option: options look like agent=state_sac or setup.seed=1.")
    try:
        return OverridesParser.create().parse_overrides(list(words))
    except HydraException as e:
        raise ConfigError(str(e).strip().splitlines()[0]) from None


def _is_group(override: Override) -> bool:
    return override.key_or_group in GROUPS


# ---- types

# Made once: each takes longer than everything else here.
_SCHEMAS: dict[tuple[type, type], type[Config]] = {}
_STRUCTURED: dict[type[Config], Any] = {}


def _container(tree: DictConfig | ListConfig) -> dict[str, Any]:
    raw = OmegaConf.to_container(tree, resolve=False)
    assert isinstance(raw, dict)
    return {str(key): value for key, value in raw.items()}


def _typed(raw: dict[str, Any], values: list[Override]) -> Config:
    raw["env"].pop("best", None)  # words, which were read by now
    for override in values:  # the builder decides which options exist, so look at it first
        if override.key_or_group in ("agent.builder", "env.builder"):
            group = override.key_or_group.split(".")[0]
            raw[group] = {**raw[group], "builder": override.value()}
    for group in ("agent", "env"):
        if missing := raw[group].get("missing"):
            raise ConfigError(f"{group}={raw[group]['name']} is not in this version yet: it needs {missing}.")
        if not raw[group].get("builder"):
            raise ConfigError(f"the chosen {group} has no `builder`: say in its YAML file which kind it is.")
    schema = schema_for(raw["agent"]["builder"], raw["env"]["builder"])
    known = [name for name, _, _ in describe(schema)]
    try:
        if schema not in _STRUCTURED:
            _STRUCTURED[schema] = OmegaConf.structured(schema)
        typed = OmegaConf.merge(_STRUCTURED[schema], OmegaConf.create(raw))
        for override in values:
            key = str(override.key_or_group).lstrip("+")
            if override.is_delete():
                raise ConfigError(f"~{key}: options cannot be removed; set it to null.")
            _check_place(typed, key, known)
            OmegaConf.update(typed, key, override.value(), merge=False, force_add=False)
        config = OmegaConf.to_object(typed)
    except OmegaConfBaseException as e:
        raise ConfigError(_explain(e, known)) from None
    assert isinstance(config, Config)
    fill_and_check(config)
    return config


def _check_place(typed: Any, key: str, known: list[str]) -> None:
    """mtrl has options below what is a single word here: `agent.builder.discount`."""
    parts = key.split(".")
    for i in range(1, len(parts)):
        if isinstance(OmegaConf.select(typed, ".".join(parts[:i])), str | int | float):
            siblings = [name for name in known if name.split(".")[0] == parts[0]]
            raise ConfigError(f"there is no option {key}.{closest(f'{parts[0]}.{parts[-1]}', siblings)}")


def schema_for(agent_builder: str, env_builder: str) -> type[Config]:
    """Config with the chosen agent's and env's own options in place of the general ones."""
    kinds = agent, env = agent_kind(agent_builder).options, env_kind(env_builder).options
    if kinds not in _SCHEMAS:
        fields: list[tuple[str, type, Any]] = [("agent", agent, opt(agent(), "")), ("env", env, opt(env(), ""))]
        made = dataclasses.make_dataclass("Config", fields, bases=(Config,))
        made.__module__ = __name__
        _SCHEMAS[kinds] = made
    return _SCHEMAS[kinds]


def _explain(error: OmegaConfBaseException, known: list[str]) -> str:
    key = str(error.full_key or "")
    text = str(error.msg or error).strip().splitlines()[0]
    if key and not any(name == key or name.startswith(key + ".") for name in known):
        siblings = [n for n in known if n.split(".")[0] == key.split(".")[0]]
        return f"there is no option {key}.{closest(key, siblings or known)}"
    return f"{key}: {text}" if key else text
