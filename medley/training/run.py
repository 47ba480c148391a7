"""A run is a folder. Everything it knows is in it, in formats that any tool opens."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import torch
import yaml

import medley
from medley.config.load import from_dict, to_dict
from medley.config.resolve import fill_and_check
from medley.config.schema import Config
from medley.errors import ConfigError, MedleyError
from medley.files import read_json, replacing, write_json

# Options that may differ when a run goes on: they do not touch what is learnt.
HARMLESS = (
    "collect.cpus",
    "env.workers",
    "env.worker_timeout",
    "experiment.num_train_steps",
    "experiment.max_minutes",
    "experiment.seeds_together",
    "experiment.eval_slots_per_task",
    "experiment.save",
    "experiment.save_freq",
    "experiment.save_minutes",
    "experiment.save_report",
    "experiment.save_video",
    "experiment.video",
    "experiment.should_resume",
    "logger",
    "metrics",
    "replay_buffer.frames_dir",
    "setup.base_path",
    "setup.save_dir",
    "setup.id",
    "setup.description",
    "setup.tags",
    "setup.debug",
)

POLICY = "policy.safetensors"  # in a folder that holds a policy and nothing else: see policy_file.py
LOOKS = 4  # at a lock that somebody holds, before it is believed


class Run:
    """The folder of one run, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    # ---- config and status

    def exists(self) -> bool:
        return (self.path / "config.yaml").is_file()

    def create(self, config: Config) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.write_config(config)
        except OSError as e:
            raise MedleyError(f"the run folder {self.path} cannot be written: {e.strerror}.") from None

    def write_config(self, config: Config) -> None:
        with replacing(self.path / "config.yaml") as temporary:
            temporary.write_text(yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True), "utf-8")

    def config(self, words: list[str] | None = None) -> Config:
        """The run's own options, with those in `words` changed."""
        if not self.exists():
            raise ConfigError(f"{self.path} is not a run folder: it has no config.yaml.")
        try:
            saved = yaml.safe_load((self.path / "config.yaml").read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as e:
            raise ConfigError(f"{self.path / 'config.yaml'} cannot be read: {str(e).splitlines()[0]}") from None
        if not isinstance(saved, dict) or not all(isinstance(saved.get(g), dict) for g in ("agent", "env", "setup")):
            raise ConfigError(f"{self.path / 'config.yaml'} does not hold the options of a run.")
        return from_dict(saved, words or [])

    def info(self) -> dict[str, Any]:
        path = self.path / "run.json"
        return dict(read_json(path)) if path.is_file() else {}

    def write_info(self, **changes: Any) -> None:
        write_json(self.path / "run.json", {**self.info(), **changes})

    def lock(self) -> None:
        """Two processes in one folder would ruin it; the system frees the lock when a process dies."""
        for attempt in range(LOOKS, -1, -1):
            try:
                lock = (self.path / ".lock").open("w")
            except OSError as e:
                raise MedleyError(f"the run folder {self.path} cannot be written: {e.strerror}.") from None
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name)):  # not of a folder moved aside by now
                    self._lock = lock
                    return
            lock.close()
            if attempt:
                time.sleep(0.05)  # it may only be looking whether somebody is
        raise MedleyError(f"another process is working in {self.path}.")

    def is_busy(self) -> bool:
        """Whether a process is at work in there, on this machine or on one that shares the disk."""
        lock = self.path / ".lock"
        if not lock.exists():
            return False
        with lock.open("r+" if os.access(lock, os.W_OK) else "r") as f:  # it may be somebody else's
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def changed_options(old: Config, new: Config) -> tuple[list[str], list[str]]:
    """What differs, as sentences: (harmless, not harmless)."""
    before, after = flatten(to_dict(old)), flatten(to_dict(new))
    harmless: list[str] = []
    grave: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            line = f"{key}: {before.get(key)} -> {after.get(key)}"
            (harmless if _is_harmless(key) else grave).append(line)
    return harmless, grave


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def describe_machine() -> dict[str, Any]:
    """Versions and hardware, so that a result can be placed later."""
    versions = {
        "python": platform.python_version(),
        "medley": medley.__version__,
    }  # ours also where it is not installed
    for package in ("torch", "numpy", "gymnasium", "metaworld", "mujoco"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": versions,
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "gpu": gpu},
        "commit": _commit(),
        "command": " ".join(["medley" if "medley" in sys.argv[0] else Path(sys.argv[0]).name, *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    }


def peak_memory(device: torch.device) -> dict[str, float]:
    """The most this process has held so far, in GB, in main memory and on the GPU."""
    import resource

    unit = 1e9 if sys.platform == "darwin" else 1e6  # ru_maxrss is in bytes there, in kilobytes elsewhere
    peak = {"peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 3)}
    if device.type == "cuda":
        peak["peak_gpu_memory_gb"] = round(torch.cuda.max_memory_reserved(device) / 1e9, 3)
    return peak


def _commit() -> str | None:
    """The commit of medley's own source, where it is run from a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def default_path(config: Config) -> Path:
    """runs/<env>/<config name>/seed_<i>, unless setup.save_dir says otherwise."""
    if config.setup.save_dir is not None:
        return Path(config.setup.save_dir)
    return Path(
        config.setup.base_path,
        "runs",
        config.env.folder or config.env.name,
        config_name(config),
        f"seed_{config.setup.seed}",
    )


def config_name(config: Config) -> str:
    """setup.id, or the agent's name followed by what differs from its defaults: readable, and never ambiguous."""
    if config.setup.id is not None:
        return config.setup.id
    flat = flatten(to_dict(config))
    plain = _plain_options(config)
    own = {
        key: value
        for key, value in flat.items()
        if (key not in plain or plain[key] != value)
        and not key.startswith(("setup.", "logger.", "metrics.", "agent.multitask.should"))
        and not _is_harmless(key)
        and key not in ("agent.multitask.num_envs", "env.num_envs")
    }
    words = [f"{_short(key, flat)}-{_word(value)}" for key, value in own.items()]
    name = "_".join([config.agent.name, *words])
    if len(name) > 80:
        digest = hashlib.sha256(json.dumps(own, sort_keys=True, default=str).encode()).hexdigest()[:8]
        name = f"{name[:70]}_{digest}"
    return name


def _plain_options(config: Config) -> dict[str, Any]:
    """What the run's agent and env are without any option set, as far as it can be known."""
    from medley.config.load import load_config, read_choice

    steps = f"experiment.num_train_steps={config.experiment.num_train_steps}"  # eval_freq follows from it
    words = [f"env={config.env.name}", f"setup.device={config.setup.device}", steps]
    agent = f"agent={config.agent.name}"
    try:
        best = read_choice("env", config.env.name).get("best", {})
        if any(agent in options for options in best.values()):  # then what belongs to it is nothing special
            without = load_config(words)
            if without.agent.name == config.agent.name:
                return flatten(to_dict(without))
        return flatten(to_dict(load_config([agent, *words])))
    except ConfigError:  # an env that needs options, or a setup, agent or env from a folder of the user's own
        return _schema_options(config)


def _schema_options(config: Config) -> dict[str, Any]:
    """The defaults that stand in the code, filled in as for this agent and env."""
    base = type(config)()
    base.experiment.num_train_steps = config.experiment.num_train_steps
    defaults = flatten(to_dict(base))
    base.agent, base.env = copy.deepcopy(config.agent), copy.deepcopy(config.env)
    fill_and_check(base)
    filled = flatten(to_dict(base))
    named = [f"{group}.{key}" for group in ("agent", "env") for key in ("name", "builder", "setup")]
    own = {k: v for k, v in defaults.items() if k.startswith(("agent.", "env.")) and k not in named}
    return filled | own


def _is_harmless(key: str) -> bool:
    return any(key == h or key.startswith(h + ".") for h in HARMLESS)


def _short(key: str, among: Iterable[str]) -> str:
    """The end of a dotted name that no other option shares: `trunk`, but `actor.hidden_dim`."""
    parts = key.split(".")
    for n in range(1, len(parts)):
        tail = "." + ".".join(parts[-n:])
        if sum(other.endswith(tail) for other in among) == 1:
            return tail[1:]
    return key


def _word(value: Any) -> str:
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(c if c.isalnum() or c in "+.-" else "-" for c in text)
