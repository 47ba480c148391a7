"""A run is a folder. Everything it knows is in it, in formats that any tool opens."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import IO, Any

import yaml

from medley.config.load import from_dict, to_dict
from medley.config.schema import Config
from medley.errors import ConfigError, MedleyError
from medley.files import read_json, replacing, write_json

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
