"""Videos: they decode, they end where they should, and a machine that cannot draw says so in one way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
import torch

from medley.envs import gl
from medley.envs.api import MultiTaskEnv, StepResult
from medley.errors import MedleyError
from medley.reporting.run_files import find_videos
from medley.reporting.video import HOW_TO_GET_VIDEOS, Film, NoVideo, find_gl, prepare_gl, record_videos
from medley.training.evaluator import Evaluator
from medley.training.protocols import PROTOCOLS


class Lights(MultiTaskEnv):
    """Slots count their steps and show them as brightness; task 0 succeeds at step 10, task 1 never."""

    def __init__(self, horizon: int = 40, terminate_on_success: bool = False) -> None:
        box = gym.spaces.Box(-1, 1, (2,), dtype=np.float32)
        super().__init__(("bright", "a/b <c>"), 2, box, box, horizon, 0, terminate_on_success)
        self.time = np.zeros(self.num_envs, dtype=np.int64)
        self.drawn: list[int] = []

    def _reset_slots(self, slots: Any) -> Any:
        self.time[slots] = 0
        return np.zeros((len(slots), 2), dtype=np.float32)

    def _step_slots(self, slots: Any, actions: Any) -> StepResult:
        self.time[slots] += 1
        never = np.zeros(len(slots), dtype=np.bool_)
        success = (self.time[slots] >= 10) & (self.task_ids[slots] == 0)
        return StepResult(np.zeros((len(slots), 2)), np.ones(len(slots)), never, success, {})

    def _dynamics_state(self) -> dict[str, Any]:
        return {"time": self.time}

    def _set_dynamics_state(self, state: dict[str, Any]) -> None:
        self.time = state["time"]

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> Any:
        self.drawn.append(slot)
        return np.full((height, width, 3), 5 * self.time[slot], dtype=np.uint8)


def act(obs: Any) -> Any:
    assert obs.shape == (4, 2)
    return np.zeros_like(obs)


def _decode(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    frames = imageio_ffmpeg.read_frames(str(path))
    about = next(frames)
    width, height = about["size"]
    return about, np.array([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames])


def test_one_film_per_task(tmp_path: Path) -> None:
    env = Lights()
    paths = record_videos(env, act, tmp_path / "video", 500, size=(161, 120), every=2, fps=20)
    assert [path.name for path in paths] == ["500_bright.mp4", "500_a-b-c.mp4"]
    assert sorted(path.name for path in (tmp_path / "video").iterdir()) == ["500_a-b-c.mp4", "500_bright.mp4"]
    assert set(env.drawn) == {0, 2}, "the first slot of each task, and no other"
    assert env.time[[1, 3]].tolist() == [0, 0]

    about, bright = _decode(paths[0])
    assert (about["size"], about["fps"], about["codec"]) == ((160, 120), 20.0, "h264")
    assert about["pix_fmt"].startswith("yuv420p")
    hold = 16
    # Steps 0, 2, … 18: success comes at 10, eight steps are shown after it.
    assert len(bright) == 10 + hold
    middle = bright[:, 40:60, 60:100].mean(axis=(1, 2, 3))
    np.testing.assert_allclose(middle[:10], 10.0 * np.arange(10), atol=6)
    edge = bright[:, 50:60, 0].mean(axis=1)
    assert (edge[6:, 1] > 120).all(), "a green edge once it succeeded"
    assert (edge[:4, 1] < 60).all()

    _, other = _decode(paths[1])
    assert len(other) == 20 + hold  # steps 0 to 38; the picture of step 40 is already the next episode's


def test_success_that_ends_the_episode_is_marked(tmp_path: Path) -> None:
    _, film = _decode(record_videos(Lights(terminate_on_success=True), act, tmp_path, 1)[0])
    assert film[-1, 100, 0, 1] > 120
    assert film[0, 100, 0, 1] < 60


def test_long_episodes_fit(tmp_path: Path) -> None:
    paths = record_videos(Lights(horizon=400), act, tmp_path, 1, max_frames=20, every=2, fps=10, size=(64, 48))
    assert imageio_ffmpeg.count_frames_and_secs(str(paths[1]))[0] == 20 + 8


def test_failures_have_one_type_and_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Lights):
        def render_slot(self, slot: int, width: int = 320, height: int = 240) -> Any:
            raise RuntimeError("gladLoadGL error")

    with pytest.raises(NoVideo, match=r"gladLoadGL error.*apt-get install"):
        record_videos(Broken(), act, tmp_path, 1)

    class Blind(Lights):
        def render_slot(self, slot: int, width: int = 320, height: int = 240) -> Any:
            return MultiTaskEnv.render_slot(self, slot, width, height)

    with pytest.raises(NoVideo, match="cannot be rendered"):
        record_videos(Blind(), act, tmp_path, 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(NoVideo, match="cannot be written"):
        record_videos(Lights(), act, tmp_path / "file", 1)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    with pytest.raises(NoVideo, match="ffmpeg"):
        record_videos(Lights(), act, tmp_path / "none", 1)
    assert list((tmp_path / "none").iterdir()) == []

    def full_disk(path: str, *_: Any, **__: Any) -> Any:
        Path(path).write_bytes(b"half")
        yield
        raise OSError("No space left on device")

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", full_disk)
    with pytest.raises(NoVideo, match="No space left"):
        record_videos(Lights(), act, tmp_path / "none", 1)
    assert list((tmp_path / "none").iterdir()) == []
    assert issubclass(NoVideo, MedleyError)
    assert "\n" not in HOW_TO_GET_VIDEOS


def _still(rows: Any, noise: Any) -> Any:
    return torch.zeros(*rows.shape[:2], 2)


def _film(env: MultiTaskEnv, folder: Path, said: list[str]) -> Film:
    return Film(env, folder, 40, (64, 48), 2, 20, said.append)


def test_an_evaluation_is_filmed_as_it_runs(tmp_path: Path) -> None:
    said: list[str] = []
    env = Lights()
    plain = Evaluator(Lights(), PROTOCOLS["episodes"]).run(3, _still)
    filmed = Evaluator(env, PROTOCOLS["episodes"]).run(3, _still, watcher=_film(env, tmp_path / "video", said))
    assert filmed == plain, "filming changes nothing"
    assert not said
    assert set(env.drawn) == {0, 2}
    hold = 16
    counts = {path.name: imageio_ffmpeg.count_frames_and_secs(str(path))[0] for path in (tmp_path / "video").iterdir()}
    assert counts == {"40_bright.mp4": 10 + hold, "40_a-b-c.mp4": 20 + hold}  # as `record_videos` has them


def test_the_film_of_a_single_task_has_no_name_but_the_step(tmp_path: Path) -> None:
    env = Lights()
    env.tasks, env.slots_per_task = ("bright",), 4
    env.task_ids[:] = 0
    Evaluator(env, PROTOCOLS["episodes"]).run(1, _still, watcher=_film(env, tmp_path, []))
    assert [path.name for path in tmp_path.iterdir()] == ["40.mp4"]
    (video,) = find_videos(tmp_path, ["bright"])
    assert (video.step, video.task) == (40, "bright")


def test_a_film_that_fails_stops_no_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaks(Lights):
        def render_slot(self, slot: int, width: int = 320, height: int = 240) -> Any:
            if self.time[slot] >= 4:
                raise RuntimeError("gladLoadGL error")
            return super().render_slot(slot, width, height)

    env, said = Breaks(), list[str]()
    assert len(Evaluator(env, PROTOCOLS["episodes"]).run(1, _still, watcher=_film(env, tmp_path, said))) == 2
    (why,) = said
    assert "gladLoadGL error" in why
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    env, said = Lights(), []
    Evaluator(env, PROTOCOLS["episodes"]).run(1, _still, watcher=_film(env, tmp_path / "file", said))
    assert "cannot be written" in said[0]


@pytest.mark.parametrize("backend", ["nonsense", "disabled"])
def test_a_backend_that_was_asked_for_and_fails(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv("MUJOCO_GL", backend)
    assert find_gl() is None
    assert prepare_gl() is None


def test_backends_are_tried_in_order_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def run(command: Any, env: dict[str, str], **_: Any) -> Any:
        tried.append(env["MUJOCO_GL"])
        if tried[-1] == "egl":
            raise subprocess.TimeoutExpired(command, 60)
        return subprocess.CompletedProcess(command, 0 if tried[-1] == "osmesa" else -6, b"llvmpipe\n")

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(gl.subprocess, "run", run)
    gl._probe.cache_clear()
    try:
        assert find_gl() == "osmesa"
        assert find_gl() == "osmesa"
        assert gl.find_renderer() == "llvmpipe"
        assert tried == ["egl", "osmesa"]
        monkeypatch.setenv("MUJOCO_GL", "glfw")
        assert find_gl() is None
    finally:
        gl._probe.cache_clear()


@pytest.mark.parametrize("order", ["prepare_gl(); import mujoco", "import mujoco; prepare_gl()"])
def test_mujoco_draws_with_what_was_found(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if find_gl() is None:
        pytest.skip(HOW_TO_GET_VIDEOS)
    code = f"from medley.reporting.video import prepare_gl; {order}\n" + gl._PROBE
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == gl.find_renderer() != ""
