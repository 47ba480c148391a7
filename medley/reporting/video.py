"""Videos of episodes, where the machine can draw: one H.264 file per task that any browser plays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from medley.envs.api import MultiTaskEnv
from medley.envs.gl import HOW_TO_GET_VIDEOS, find_gl, prepare_gl
from medley.errors import MedleyError
from medley.reporting.run_files import video_name

__all__ = ["HOW_TO_GET_VIDEOS", "Film", "NoVideo", "find_gl", "prepare_gl", "record_videos"]

Frame = npt.NDArray[np.uint8]
Act = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

# Steps shown after the first success, so that it can be seen, and how long the last picture stays.
_AFTER_SUCCESS = 8
_HOLD_SECONDS = 0.8
_MOST_PICTURES = 2000  # of all tasks in one evaluation: they are held in memory until it ends


class NoVideo(MedleyError):
    """No video could be made; training and evaluation go on without."""


def record_videos(
    env: MultiTaskEnv,
    act: Act,
    folder: Path,
    step: int,
    max_frames: int = 125,
    size: tuple[int, int] = (320, 240),
    every: int = 2,
    fps: int | None = None,
) -> list[Path]:
    """Play one episode of every task in its first slot; returns `<folder>/<step>_<task>.mp4`, one per task
    (`<step>.mp4` where there is only one).

    `act` maps the observations of all slots to their actions. Every `every`-th step is drawn, fewer where an
    episode would not fit into `max_frames`; a video ends soon after the first success or with the episode.
    `env` is reset, and only the slot that is filmed moves: give an env of its own, not one that collects.
    Raises `NoVideo`.
    """
    every = max(every, math.ceil(env.horizon / max_frames))
    rate = fps or int(env.metadata.get("render_fps", 25))
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        obs, _ = env.reset()
        for index, task in enumerate(env.tasks):
            frames, obs = _episode(env, act, obs, index, step, size, every)
            path = folder / video_name(step, task, env.tasks)
            _write(path, frames, rate)
            written.append(path)
    except OSError as error:
        raise NoVideo(f"The videos of step {step} cannot be written to {folder}: {error}.") from error
    return written


def _episode(
    env: MultiTaskEnv,
    act: Act,
    obs: npt.NDArray[Any],
    index: int,
    step: int,
    size: tuple[int, int],
    every: int,
) -> tuple[list[Frame], npt.NDArray[Any]]:
    """The pictures of one task's episode, and the observations it left behind."""
    reel = _Reel(env, index, step, size, every)
    active = np.zeros(env.num_envs, dtype=np.bool_)
    active[reel.slot] = True
    while not reel.done:
        obs, _, terminated, truncated, info = env.step(act(obs), active)
        reel.after(terminated | truncated, info["success"])
    return reel.frames, obs


class _Reel:
    """The pictures of the episode that a task's first slot is at the start of."""

    def __init__(self, env: MultiTaskEnv, index: int, step: int, size: tuple[int, int], every: int) -> None:
        self.env, self.size, self.every = env, size, every
        self.slot = index * env.slots_per_task
        self.label = f"{env.tasks[index]}   step {step:,}"
        self.done = False
        self._time = 0
        self._since_success: int | None = None
        self.frames = [_stamp(_draw(env, self.slot, size), self.label, False)]

    def after(self, ended: npt.NDArray[np.bool_], success: npt.NDArray[np.bool_]) -> None:
        """The slot has taken a step."""
        self._time += 1
        if self._since_success is not None:
            self._since_success += 1
        elif success[self.slot]:
            self._since_success = 0
        if ended[self.slot]:
            # The slot is at the start of its next episode already: the last picture is the one before.
            if self._since_success == 0:
                self.frames.append(_mark(self.frames[-1]))
            self.done = True
            return
        if self._time % self.every == 0 or self._since_success == 0:
            picture = _draw(self.env, self.slot, self.size)
            self.frames.append(_stamp(picture, self.label, self._since_success is not None))
        self.done = self._since_success is not None and self._since_success >= _AFTER_SUCCESS


class Film:
    """The first episode of every task, filmed while an evaluation runs it (an `Evaluator`'s watcher).

    What goes wrong is told to `fail` and ends the filming, not the evaluation.
    """

    def __init__(
        self,
        env: MultiTaskEnv,
        folder: Path,
        step: int,
        size: tuple[int, int],
        every: int,
        fps: int | None,
        fail: Callable[[str], None],
    ) -> None:
        self.env, self.folder, self.step, self.size = env, folder, step, size
        self.every = max(every, math.ceil(env.horizon * len(env.tasks) / _MOST_PICTURES))
        self.rate = fps or int(env.metadata.get("render_fps", 25))
        self._fail = fail
        self._reels: list[_Reel] = []

    def begin(self) -> None:
        self._or_fail(self._begin)

    def after(self, ended: npt.NDArray[np.bool_], success: npt.NDArray[np.bool_]) -> None:
        self._or_fail(lambda: self._after(ended, success))

    def end(self) -> None:
        self._or_fail(self._end)

    def _begin(self) -> None:
        tasks = range(len(self.env.tasks))
        self._reels = [_Reel(self.env, index, self.step, self.size, self.every) for index in tasks]

    def _after(self, ended: npt.NDArray[np.bool_], success: npt.NDArray[np.bool_]) -> None:
        for reel in self._reels:
            if not reel.done:
                reel.after(ended, success)

    def _end(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for task, reel in zip(self.env.tasks, self._reels, strict=bool(self._reels)):
            _write(self.folder / video_name(self.step, task, self.env.tasks), reel.frames, self.rate)
        self._reels = []

    def _or_fail(self, do: Callable[[], Any]) -> None:
        try:
            do()
        except (NoVideo, ImportError) as error:
            self._reels = []
            self._fail(str(error))
        except OSError as error:
            self._reels = []
            self._fail(f"The videos of step {self.step} cannot be written to {self.folder}: {error}.")


def _draw(env: MultiTaskEnv, slot: int, size: tuple[int, int]) -> Frame:
    # H.264 halves the colour planes: both sides must be even.
    width, height = (side - side % 2 for side in size)
    try:
        return env.render_slot(slot, width, height)
    except NotImplementedError as error:
        raise NoVideo(f"No video: {error}.") from error
    except Exception as error:  # what a GL driver raises has no common type
        reason = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:200]
        raise NoVideo(f"No video: drawing failed ({reason}). {HOW_TO_GET_VIDEOS}") from error


def _stamp(frame: Frame, label: str, success: bool) -> Frame:
    """The picture with its task and step written below, and a green edge from the first success on."""
    image = Image.fromarray(np.ascontiguousarray(frame, dtype=np.uint8))
    pen = ImageDraw.Draw(image, "RGBA")
    width, height = image.size
    pen.rectangle((0, height - 18, width, height), fill=(0, 0, 0, 150))
    pen.text((6, height - 16), label, fill=(255, 255, 255, 255), font=_font())
    stamped = np.asarray(image)
    return _mark(stamped) if success else stamped


def _mark(frame: Frame) -> Frame:
    marked = frame.copy()
    for edge in (marked[:3], marked[-3:], marked[:, :3], marked[:, -3:]):
        edge[...] = (0, 200, 120)
    return marked


@cache
def _font() -> Any:
    # matplotlib ships a font with the letters of most languages; Pillow's own has few.
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", 11)


def _write(path: Path, frames: Sequence[Frame], fps: int) -> None:
    """Written under another name, then renamed: a file with the right name is whole. The last picture stays a while."""
    import imageio_ffmpeg  # here, so that a machine without it can still tell what is missing

    beside = path.with_name(f".{path.name}.part.mp4")
    height, width = frames[0].shape[:2]
    try:
        writer = imageio_ffmpeg.write_frames(
            str(beside),
            (width, height),
            fps=fps,
            codec="libx264",
            pix_fmt_out="yuv420p",
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart"],
        )
        writer.send(None)
        for frame in [*frames, *[frames[-1]] * round(_HOLD_SECONDS * fps)]:
            writer.send(np.ascontiguousarray(frame))
        writer.close()
        beside.replace(path)
    except (RuntimeError, OSError) as error:
        raise NoVideo(f"No video: ffmpeg failed to write {path.name} ({str(error).strip()[:200]}).") from error
    finally:
        beside.unlink(missing_ok=True)
