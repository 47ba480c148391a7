"""Videos of the episodes that evaluations run anyway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.training.evaluator import Watcher

DRAWN_BY_GL = ("metaworld", "dmc", "hipbmdp")


class Filming:
    """Makes a film of each evaluation, where that is asked for, until it fails once: then it says why, and rests."""

    def __init__(self, config: Config, folder: Path, say: Callable[[str], None]) -> None:
        self.options, self.folder, self._say = config.experiment.video, folder, say
        self.wanted = config.experiment.save_video and self.options.at_eval
        self.needs_gl = config.env.builder in DRAWN_BY_GL

    def start(self, env: MultiTaskEnv, step: int) -> Watcher | None:
        if not self.wanted:
            return None
        try:
            from medley.reporting import video  # here, so that a bare machine without matplotlib can train
        except ImportError as e:
            self._fail(f"No videos: {e}")
            return None
        if self.needs_gl and video.prepare_gl() is None:
            self._fail(video.HOW_TO_GET_VIDEOS)
            return None
        width, height = self.options.size
        return video.Film(env, self.folder, step, (width, height), self.options.every, self.options.fps, self._fail)

    def _fail(self, why: str) -> None:
        self.wanted = False
        self._say(why)
