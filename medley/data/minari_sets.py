"""Demonstrations from Minari datasets on this machine, and as such. Nothing is ever downloaded.

A Minari episode has one reward per step and one observation more than steps. What a recording knows beside that, a
column of rewards and successes per task, goes into the episode's infos, and comes back from there.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from medley.data.examples import DEMONSTRATIONS, About, Array, Recorded
from medley.errors import ConfigError, DamagedError

_OURS = "medley"  # the key of our own part of a dataset's metadata
_SUCCESS = ("success", "is_success")  # what envs call it in their infos
_INFOS = ("rewards", "success", "task_id")


def _module(name: str) -> Any:
    if importlib.util.find_spec("minari") is None:
        raise ConfigError("Minari datasets need a package of their own: pip install 'medley[minari]'.")
    return importlib.import_module(name)


# ---- writing


def check_name(name: str) -> None:
    """Refuses a name that cannot be a new dataset's."""
    try:
        _module("minari.dataset.minari_dataset").parse_dataset_id(name)
    except (ValueError, TypeError):  # the latter of a name without a version
        raise ConfigError(f"minari={name}: such names look like point/shown-v0, with a version at the end.") from None
    if _module("minari.storage").get_dataset_path(name).exists():
        raise ConfigError(f"there is a Minari dataset {name} already: take another name or version.")


def write_minari(recorded: Recorded, name: str, data_format: str | None = None) -> Path:
    """The demonstrations as a new dataset among Minari's own (MINARI_DATASETS_PATH); returns its folder."""
    check_name(name)
    if recorded.about.holds != DEMONSTRATIONS or recorded.actions is None or recorded.next_observations is None:
        raise ConfigError("only demonstrations can become a Minari dataset: examples have no actions.")
    about = recorded.about
    low, high = np.array(about.action_low, np.float32), np.array(about.action_high, np.float32)
    with warnings.catch_warnings():  # it would like an author and an address
        warnings.simplefilter("ignore", UserWarning)
        made = _module("minari").create_dataset_from_buffers(
            name,
            list(_episodes(recorded)),
            algorithm_name=about.source,
            description=f"demonstrations of {', '.join(about.tasks)} in {about.env}",
            action_space=gym.spaces.Box(low, high, dtype=np.float32),
            observation_space=gym.spaces.Box(-np.inf, np.inf, recorded.observations.shape[1:], np.float32),
            data_format=data_format,
        )
    made.storage.update_metadata({_OURS: json.dumps(dataclasses.asdict(about))})
    return Path(_module("minari.storage").get_dataset_path(name))


def _episodes(recorded: Recorded) -> Iterator[Any]:
    buffer = _module("minari.data_collector").EpisodeBuffer
    for episode in np.unique(recorded.episode_id):
        one = recorded.rows(recorded.episode_id == episode)
        assert one.actions is not None
        assert one.next_observations is not None
        task = int(one.task_id[0])
        # Infos have a row for the reset too.
        infos = {key: np.concatenate([getattr(one, key)[:1] * 0, getattr(one, key)]) for key in ("rewards", "success")}
        yield buffer(
            observations=np.concatenate([one.observations, one.next_observations[-1:]]),
            actions=one.actions,
            rewards=one.rewards[:, task],
            terminations=one.terminations,
            truncations=one.truncations,
            # A plain list where there is one number per row: the arrow format cannot read such arrays again.
            infos={**infos, "success": infos["success"] > 0, "task_id": [task] * (len(one) + 1)},
        )


# ---- reading


def read_minari(
    where: str, about: About, sizes: Sequence[int], shown: Sequence[int], count: int | None = None
) -> Recorded:
    """Demonstrations in the env that `about` describes, from a folder or a dataset's name; at most `count` episodes.
    `sizes`: how many numbers an observation may have.

    Other people's datasets show one thing: `shown`, a task of the env, whose reward and success are theirs.
    """
    path = _folder(where)
    try:
        storage, header = _opened(path)
        episodes = list(storage.get_episodes(range(storage.total_episodes)[:count]))
    except ConfigError:
        raise
    except Exception as e:  # whatever the readers of its formats raise
        raise DamagedError(f"{path} is not a Minari dataset, or is damaged ({e}).") from None
    if not episodes:
        raise ConfigError(f"{path} has no episodes.")
    own = json.loads(header[_OURS]) if _OURS in header else None
    if own is not None and (own["env"], tuple(own["tasks"])) != (about.env, about.tasks):
        raise ConfigError(
            f"{path} was recorded in {own['env']} with {', '.join(own['tasks'])}, not in {about.env} with "
            f"{', '.join(about.tasks)}."
        )
    if own is None and len(shown) != 1 and len(about.tasks) > 1:
        raise ConfigError(f"{path} does not say which of {', '.join(about.tasks)} it shows: say it, tasks=[NAME].")
    parts = [_rows(path, episode, about, None if own else shown[0], sizes) for episode in episodes]
    rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    rows["episode_id"] = np.repeat(np.arange(len(parts)), [len(part["step"]) for part in parts])
    about = dataclasses.replace(about, holds=DEMONSTRATIONS, source=own["source"] if own else f"Minari {where}")
    made = Recorded(about, **rows)
    return made if own is None else made.rows(np.isin(made.task_id, shown))


def _folder(where: str) -> Path:
    named = Path(_module("minari.storage").get_dataset_path(where))  # an absolute path stays what it is
    for folder in (Path(where), named):
        for path in (folder, folder / "data"):
            if (path / "metadata.json").is_file():
                return path
    raise ConfigError(f"there is no Minari dataset {where}: neither a folder, nor {named}. medley downloads nothing.")


def _opened(path: Path) -> tuple[Any, dict[str, Any]]:
    header = json.loads((path / "metadata.json").read_text())
    if not {"observation_space", "action_space"} <= header.keys():
        # Minari would make the dataset's env to learn them: code that the file names.
        raise ConfigError(f"{path} does not say what its observations and actions are: its env is not built for that.")
    return _module("minari.dataset.minari_storage").MinariStorage.read(path), header


def _rows(path: Path, episode: dict[str, Any], about: About, shown: int | None, sizes: Sequence[int]) -> Any:
    """One episode's rows by field. `shown` None: they are ours, and say it themselves."""
    obs, actions = (_flat(path, episode[key], key) for key in ("observations", "actions"))
    wanted = len(about.action_low)
    if obs.shape[1] not in sizes or actions.shape[1] != wanted or len(obs) != len(actions) + 1:
        raise ConfigError(
            f"{path} has {len(obs)} observations of {obs.shape[1]} numbers and {len(actions)} actions of "
            f"{actions.shape[1]} in an episode; in {about.env} they have {sizes[0]} and {wanted}."
        )
    count, infos = len(actions), episode["infos"] or {}
    if shown is None:
        rewards, success, task_id = (np.asarray(infos[key])[1:] for key in _INFOS)
    else:
        own = np.arange(len(about.tasks)) == shown
        rewards = own * np.asarray(episode["rewards"])[:, None]
        found = next((np.asarray(infos[key]) for key in _SUCCESS if key in infos), np.zeros(count))
        success = own & (found.reshape(-1)[-count:, None] > 0)  # with or without a row for the reset
        task_id = np.full(count, shown)
    terminations = np.asarray(episode["terminations"], np.bool_)
    last = np.arange(count) == count - 1
    return {
        "observations": obs[:-1],
        "next_observations": obs[1:],
        "actions": np.clip(actions, about.action_low, about.action_high),  # as an env applies them
        "rewards": rewards,
        "success": success,
        "terminations": terminations,
        "truncations": last & ~terminations,  # the end of what was recorded is an end, said or not
        "step": np.arange(count),
        "task_id": task_id,
    }


def _flat(path: Path, values: Any, what: str) -> Array:
    array = None if isinstance(values, dict | tuple) else np.asarray(values)
    if array is None or array.ndim != 2:
        raise ConfigError(f"{path} has {what} that are not rows of numbers.")
    return array
