"""Runs that are under way, read again and again: only files that changed, and told only what is new."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from medley.errors import MedleyError
from medley.reporting import page, page_data, summary
from medley.reporting.alignment import align
from medley.reporting.asked import asked
from medley.reporting.by import labels_by
from medley.reporting.page_data import Pair
from medley.reporting.quantities import plan
from medley.reporting.run_entry import Json, entry
from medley.reporting.run_files import Video
from medley.reporting.runs import RunData, RunGroup, group_runs, read_run, run_folders

EVERY = 3.0  # seconds between two questions of a page
_LIGHT = '<span class="badge running" id="light">following</span> '
_FILES = ("run.json", "results.json", "eval.log", "train.log", "config.yaml", "video")

Signature = tuple[tuple[int, int] | None, ...]


@dataclass
class _Told:
    """One run as pages know it: what its text was made of, and the version with which it changed last."""

    made_of: tuple[Any, ...]
    text: str
    version: int


class Follower:
    """All runs below `paths`. Versions count changes; a page says which one it has and is told what came after."""

    def __init__(self, paths: Sequence[Path], by: str | None = None, pause: float = 1.0, every: float = EVERY) -> None:
        """`pause`: seconds between two looks at the files, at least; `every`: between two questions of a page."""
        for path in paths:
            if not path.is_dir():
                raise MedleyError(f"There is no folder {path}: give a run folder, or a folder that holds some.")
        self.paths = [path.resolve() for path in paths]
        self._base = page_data.base_of(self.paths)
        self._by, self._pause, self._every = by, pause, every
        self._name = secrets.token_hex(4)  # another server's versions are not ours
        self._version = 0
        self._runs: dict[Path, tuple[Signature, RunData]] = {}
        self._pairs: dict[str, Pair] = {}
        self._colours: dict[str, int] = {}
        self._told: dict[str, _Told] = {}
        self._head: Json = {}
        self._due = 0.0
        self._lock = threading.Lock()

    def answer(self, since: str = "") -> str:
        """JSON with everything a page needs that has the version `since`."""
        with self._lock:
            self._refresh()
            name, _, number = since.partition("-")
            ours = name == self._name and number.isdecimal() and int(number) <= self._version
            known = int(number) if ours else -1
            if known == self._version:
                return json.dumps({"version": since})
            news = ",".join(f"{json.dumps(run)}:{t.text}" for run, t in self._told.items() if t.version > known)
            head = {**self._head, "version": f"{self._name}-{self._version}", "whole": not ours}
            return f'{_dumps(head)[:-1]},"runs":{{{news}}}}}'

    def page(self) -> str:
        """The page as it is now, which then asks for what is new."""
        data = json.loads(self.answer())
        about = data["heading"]
        words = "This page is drawn by its script; <code>medley report</code> writes one that needs none."
        body = [
            page.heading(about["title"], about["badges"], about["about"], _LIGHT),
            f"<noscript>{words}</noscript>",
            page.notes(about["notes"]),
            page.cards(about["cards"]),
            page.curves(data),
            page.runs(),
            '<h2 id="clips-title">Videos</h2><div class="clips" id="clips"></div>',
        ]
        return page.document(about["title"], body, served=True)

    def video(self, place: str) -> Path | None:
        """The file behind `files/<number>/<path>`: a finished video below the folder of that number, or None."""
        number, _, below = place.partition("/")
        if not number.isdecimal() or int(number) >= len(self.paths):
            return None
        root = self.paths[int(number)]
        try:
            # Resolved first: neither `..` nor a link leads out of the folder.
            path = (root / below).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        wanted = path.is_relative_to(root) and path.is_file() and path.suffix == ".mp4"
        return path if wanted and not path.name.startswith(".") else None

    def _refresh(self) -> None:
        """Read what changed; many pages that ask at once cost one reading, and a slow disk is left in peace."""
        began = time.monotonic()
        if began < self._due:
            return
        before = [run for _, run in self._runs.values()]
        self._runs = {folder: self._read(folder) for folder in self._folders()}
        runs = [run for _, run in self._runs.values()]
        if not self._head or len(runs) != len(before) or any(a is not b for a, b in zip(runs, before, strict=True)):
            self._tell(runs)
        ended = time.monotonic()
        self._due = ended + max(self._pause, 3 * (ended - began)) if self._pause else 0.0

    def _folders(self) -> list[Path]:
        try:
            return run_folders(self.paths)
        except MedleyError:  # none yet
            return []

    def _read(self, folder: Path) -> tuple[Signature, RunData]:
        found = tuple(_stamp(folder / name) for name in _FILES)  # before reading: what is written meanwhile shows later
        known = self._runs.get(folder)
        if known and known[0] == found:
            return known
        run = read_run(folder)
        if known and known[1].config == run.config:
            vars(run)["options"] = known[1].options  # to parse them takes longer than all the rest
        return found, run

    def _tell(self, runs: list[RunData]) -> None:
        labels = labels_by(self.paths, self._by) if self._by is not None and runs else None
        pairs = [self._aligned(group) for group in group_runs(runs, labels)]
        self._pairs = {group.label: (group, aligned) for group, aligned in pairs}
        for group, _ in pairs:
            self._colours.setdefault(group.label, len(self._colours))
        chosen, options, called = plan(runs), asked(runs), page_data.names(runs, self._base)
        order = [called[id(run)] for run in runs]
        head = page_data.head(pairs, order, called, chosen, options, self._colours)
        belongs = page_data.belonging(pairs, head)
        self._version += 1
        told: dict[str, _Told] = {}
        for run, own in zip(runs, options.own, strict=True):
            name = called[id(run)]
            tasks, steps = belongs.get(id(run), (run.tasks, ()))
            made_of = (run, chosen, tasks, steps, own)
            known = self._told.get(name)
            if known and known.made_of[0] is run and known.made_of[1:] == made_of[1:]:
                told[name] = known
                continue
            text = _dumps(entry(run, tasks, steps, chosen, own, self._place))
            same = known is not None and known.text == text
            told[name] = _Told(made_of, text, known.version if known and same else self._version)
        self._told = told
        self._head = head | {"heading": _heading(runs, pairs), "served": {"every": self._every}}

    def _aligned(self, group: RunGroup) -> Pair:
        """As before where none of its runs changed: the intervals are what takes long."""
        old = self._pairs.get(group.label)
        same = old and len(old[0].runs) == len(group.runs) and all(map(_is, old[0].runs, group.runs))
        return (group, old[1]) if old and same and old[0].notes == group.notes else (group, align(group))

    def _place(self, video: Video) -> Json:
        path = video.path.resolve()
        for number, root in enumerate(self.paths):
            if path.is_relative_to(root):
                return {"href": quote(f"files/{number}/{path.relative_to(root).as_posix()}")}
        return {"href": ""}  # a link to elsewhere: not ours to hand out


def _is(one: object, other: object) -> bool:
    return one is other


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)


def _heading(runs: list[RunData], pairs: list[Pair]) -> Json:
    groups = [group for group, _ in pairs]
    curves = [aligned for _, aligned in pairs if aligned]
    return {
        "title": summary.title(runs, groups) if runs else "no run yet",
        "badges": summary.badges(runs),
        "about": summary.about(runs, groups) if runs else "waiting for the first",
        "notes": list(summary.notes(groups, curves)),
        "cards": summary.figures(runs, curves[0] if curves else None) if len(groups) == 1 else [],
    }
