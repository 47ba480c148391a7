"""A run by SAC+AE's command line: console lines, logs, folders and videos as its document shows them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.compat.sac_ae import EVAL, SEED, TINY, TRAIN, run_train

KEYS = {
    *("episode", "step", "duration", "episode_reward", "batch_reward", "actor_loss", "critic_loss", "ae_loss"),
    *("actor_entropy", "actor_target_entropy", "alpha_loss", "alpha_value", "env_step", "updates", "fps"),
}
EVAL_KEYS = {
    *("episode", "step", "episode_reward", "env_step", "updates", "duration"),
    *("episode_rewards", "episode_reward_std"),
}


def _pattern(example: str) -> str:
    """Any line like the example: as many decimals, single spaces, the same words."""
    made = ""
    for part in re.split(r"(\d+(?:\.\d+)?)", example):
        whole, dot, decimals = part.partition(".")
        number = dot and whole.isdigit()
        made += rf"-?\d+\.\d{{{len(decimals)}}}" if number else r"\d+" if part.isdigit() else re.escape(part)
    return made


def _log(run: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{kind}.log").read_text().splitlines()]


@pytest.fixture(scope="module")
def pixel_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The seed's command in small."""
    run = tmp_path_factory.mktemp("sac_ae") / "log"
    done = run_train(*SEED, *TINY, "--work_dir", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    return run, done


def test_console_lines_are_the_seeds(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, done = pixel_run
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    train = [line for line in lines if re.fullmatch(_pattern(TRAIN), line)]
    evaluations = [line for line in lines if re.fullmatch(_pattern(EVAL), line)]
    assert sorted(train + evaluations) == sorted(lines)
    # One line per episode of 50 steps; evaluations at the start, at multiples of eval_freq, and at the end.
    assert [line.split(" | ")[1:3] for line in train] == [["E: 1", "S: 50"], ["E: 2", "S: 100"]]
    assert [line.split(" | ")[1] for line in evaluations] == ["S: 0", "S: 40", "S: 80", "S: 110"]
    rows = _log(run, "train")
    assert len(rows) == len(train)
    for line, row in zip(train, rows, strict=True):
        assert line.endswith(f"| RLOSS: {row['ae_loss']:.4f}")
        assert row["ae_loss"] > 0
        assert f"| R: {row['episode_reward']:.4f} |" in line


def test_logs_and_files_are_the_seeds(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, _ = pixel_run
    for row in _log(run, "train"):
        assert row.keys() >= KEYS
        assert row["env_step"] == 20 * row["step"]
    evaluations = _log(run, "eval")
    for row in evaluations:
        assert row.keys() >= EVAL_KEYS
        assert row["episode_rewards"] == [row["episode_reward"]]
    assert [row["episode"] for row in evaluations] == [0, 0, 1, 2]
    assert list(run.glob("tb/events.out.tfevents.*"))
    assert list(run.glob("checkpoints/*/agent.safetensors"))
    assert json.loads((run / "args.json").read_text())["action_repeat"] == 20
    assert sorted(path.name for path in (run / "video").iterdir()) == ["0.mp4", "110.mp4", "40.mp4", "80.mp4"]


def test_videos_are_the_seeds(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    import imageio_ffmpeg

    about = next(imageio_ffmpeg.read_frames(str(pixel_run[0] / "video" / "40.mp4")))
    assert about["size"] == (256, 256)
    assert about["fps"] == 30
    assert about["duration"] == pytest.approx(50 / 30 + 0.8, abs=0.1)  # every step, and the last picture a while


def test_the_folder_can_be_gone_on_with_or_begun_anew(
    pixel_run: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    run = tmp_path / "log"
    shutil.copytree(pixel_run[0], run)
    before = (run / "args.json").read_text()
    again = run_train(*SEED, *TINY, "--work_dir", str(run))
    assert again.returncode == 2
    assert "is finished" in again.stderr
    assert "A folder of its own: setup.save_dir=FOLDER." in again.stderr
    assert (run / "args.json").read_text() == before
    other = ["--encoder_type", "identity", "--num_train_steps", "31", "experiment.save_report=false"]
    anew = run_train(*TINY, *other, "--work_dir", str(run), "--fresh")
    assert anew.returncode == 0, anew.stdout + anew.stderr
    assert json.loads((run / "args.json").read_text())["num_train_steps"] == 31
    assert (tmp_path / "log.old-1" / "args.json").read_text() == before


@pytest.mark.long
def test_from_states(tmp_path: Path) -> None:
    words = ["--encoder_type", "identity", "--domain_name", "walker", "--task_name", "walk", *TINY, "--save_video"]
    done = run_train(*words, "--work_dir", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    train = [line for line in done.stdout.splitlines() if line.startswith("| train")]
    assert len(train) == 2
    assert all(re.fullmatch(_pattern(TRAIN), line) and line.endswith("RLOSS: 0.0000") for line in train)
    assert (tmp_path / "run" / "video" / "110.mp4").is_file()
    assert not (tmp_path / "run" / "tb").exists()
