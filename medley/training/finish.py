"""What a finished run leaves for people to look at: videos and a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from medley.errors import MedleyError
from medley.training.filming import DRAWN_BY_GL
from medley.training.policy import Policy
from medley.training.run import Run


def finish(run: Run, say: Callable[[str], None] = print) -> None:
    """Videos where the machine can draw, then report.html and the table. Nothing missing here fails a run."""
    experiment = run.config().experiment
    if experiment.save_video and not experiment.video.at_eval:
        try:
            record(run)
        except (MedleyError, NotImplementedError, ImportError) as e:
            say(str(e) if str(e).startswith("No video") else f"No videos: {e}")
    try:
        from medley.reporting.formats import wide_console
        from medley.reporting.runs import read_run
        from medley.reporting.tables import final_table

        if experiment.save_report:
            from medley.reporting.report import write_report

            say(f"Report: {write_report([run.path])}")
    except ImportError as e:  # a bare machine trains all the same; its run folder can be reported on elsewhere
        say(f"No report: {e}. On a machine that has it: medley report {run.path}")
        return
    wide_console().print(final_table(read_run(run.path)))


def record(run: Run, checkpoint: int | None = None) -> list[Path]:
    """One short video per task, with the newest checkpoint or another."""
    from medley.reporting import video

    if run.config().env.builder in DRAWN_BY_GL and video.prepare_gl() is None:
        raise video.NoVideo(video.HOW_TO_GET_VIDEOS)
    policy = Policy(run.path, checkpoint)
    env = policy.make_env()

    def act(obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return policy.act(obs.reshape(len(env.tasks), 1, *obs.shape[1:])).reshape(env.num_envs, -1)

    try:
        o = run.config().experiment.video
        folder, (width, height) = run.path / "video", o.size
        return video.record_videos(env, act, folder, policy.step, size=(width, height), every=o.every, fps=o.fps)
    finally:
        env.close()
