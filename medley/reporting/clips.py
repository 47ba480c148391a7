"""The videos of a page: the newest of every task and group, in the page itself as far as they fit, else linked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from medley.reporting import page
from medley.reporting.run_files import Video
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.summary import plural

# Of files; base64 adds a third. A page of this size still opens at once and passes most mail servers.
VIDEO_BYTES = 20_000_000
_AT_ONCE = 12  # more are not even looked into before they come into view


@dataclass(frozen=True)
class Clip:
    """One video that the page shows."""

    video: Video
    run: RunData
    group: RunGroup
    embedded: bool


def newest(group: RunGroup) -> list[tuple[Video, RunData]]:
    """Of every task, in the tasks' order: the first seed's newest."""
    # Seeds backwards, steps forwards: the one that should stay comes last.
    found = {video.task: (video, run) for run in reversed(group.runs) for video in run.videos}
    order = {task: index for index, task in enumerate(group.tasks)}
    return sorted(found.values(), key=lambda pair: order.get(pair[0].task, len(order)))


class Clips:
    """`folder` is where the page will be: links start there."""

    def __init__(self, groups: Sequence[RunGroup], folder: Path, limit: int) -> None:
        self.folder = folder.resolve()
        self.shown: list[Clip] = []
        used = 0
        for group in groups:
            for video, run in newest(group):
                size = video.path.stat().st_size
                fits = used + size <= limit
                used += size if fits else 0
                self.shown.append(Clip(video, run, group, fits))
        self._ids = {clip.video.path: index for index, clip in enumerate(self.shown) if clip.embedded}

    def place(self, video: Video) -> dict[str, Any]:
        """Where the script finds a video: in an element of the page, or in a file beside it."""
        index = self._ids.get(video.path)
        return {"href": self.link(video)} if index is None else {"clip": f"clip-{index}"}

    def link(self, video: Video) -> str:
        path = Path(os.path.relpath(video.path.resolve(), self.folder)).as_posix()
        # A first folder with a colon in its name would be taken for the scheme of an address.
        return quote(path if path.startswith("../") else f"./{path}")

    def section(self, many: bool) -> list[str]:
        """The videos as HTML; `many`: say which group each belongs to."""
        if not self.shown:
            return []
        preload = "metadata" if len(self.shown) <= _AT_ONCE else "none"
        figures = []
        for index, clip in enumerate(self.shown):
            source = page.data_uri(clip.video.path, "video/mp4") if clip.embedded else self.link(clip.video)
            figures.append(
                f'<figure data-group="{escape(clip.group.label)}" data-task="{escape(clip.video.task)}">'
                f'<video id="clip-{index}" controls loop muted playsinline preload="{preload}" src="{source}"></video>'
                f"<figcaption>{escape(caption(clip.video, clip.run, clip.group, many))}</figcaption></figure>"
            )
        linked = sum(not clip.embedded for clip in self.shown)
        words = f"{plural(linked, 'video')} linked, not in the page, which would grow too large: keep it with its runs."
        note = [page.note(words)] if linked else []
        return ["<h2>Videos</h2>", *note, f'<div class="clips" id="clips">{"".join(figures)}</div>']


def caption(video: Video, run: RunData, group: RunGroup, many: bool) -> str:
    text = f"{video.task}, step {video.step:,}, seed {run.seed}" + (f" ({group.label})" if many else "")
    for evaluation in run.evaluations:
        if evaluation.step == video.step and video.task in evaluation.per_task:
            score = evaluation.per_task[video.task]
            text += f": success {page.percent(score.success)}, return {page.plain(score.ret, 1)} on average"
    return text
