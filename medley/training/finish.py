"""What a finished run leaves for people to look at: videos and a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.errors import MedleyError
from medley.reporting import video
from medley.reporting.report import write_report
from medley.training.policy import Policy
from medley.training.run import Run


def finish(run: Run, say: Callable[[str], None] = print) -> None:
    """Videos where the machine can draw, then report.html. A missing video never fails a run."""
    config = run.config()
    if config.experiment.save_video:
        try:
            record(run)
        except MedleyError as e:
            say(f"No videos: {e}")
        except NotImplementedError as e:
            say(f"No videos: {e}.")
    say(f"Report: {write_report([run.path])}")


def record(run: Run) -> None:
    """One short video per task with the newest checkpoint."""
    if run.config().env.builder == "metaworld" and video.prepare_gl() is None:
        raise video.NoVideo(video.HOW_TO_GET_VIDEOS)
    policy = Policy(run.path)
    env = policy.make_env()

    def act(obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rows = np.asarray(obs, dtype=np.float32).reshape(len(env.tasks), 1, -1)
        return policy.act(rows).reshape(env.num_envs, -1)

    try:
        video.record_videos(env, act, run.path / "video", run.info().get("step", 0))
    finally:
        env.close()
