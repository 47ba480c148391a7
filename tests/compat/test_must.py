"""Seed 003's command, and the files that it names."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from medley.cli import main
from medley.config.load import load_config
from medley.envs.metaworld.names import benchmark_tasks
from tests.compat.commands import COMPAT, printed_words, start

FOLDER = COMPAT / "must"
SCRIPTS = FOLDER / "t3s_scripts" / "must" / "mt10"


def _review(*words: str) -> subprocess.CompletedProcess[str]:
    return start(["bash", "run_review.sh", *words], SCRIPTS)


def _words(*words: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in printed_words(_review(*words, "--print-only")))  # type: ignore[misc]


def test_the_seeds_command_in_medleys_words() -> None:
    words = _words(*["3", "50", "0.5", "1e-4", "1", "1", "10"])
    expected = {
        "env": "metaworld-mt10",
        "agent": "must",
        "agent.must.pruning_ratio": "0.5",
        "agent.must.update_interval": "50",
        "agent.must.generator_lr": "0.0001",
        "agent.must.supervised": "true",
        "agent.must.trajectories": "true",
        "setup.seed": "3",
        "setup.save_dir": "log/itv50_pr0.5_sllr1e-4_slloss1_trajinfo1_selected10/mt10/3",
        "experiment.collect_steps": "150",
        "experiment.updates": "200",
        "replay_buffer.batch_size": "1280",
    }
    assert {key: words[key] for key in expected} == expected


def test_every_position_of_the_command_counts() -> None:
    # The two switches differ, so that neither passes for the other.
    words = _words(*["4", "25", "0.7", "3e-4", "0", "1", "3"])
    assert words["env"] == "metaworld"
    assert words["env.tasks"] == f"[{','.join(benchmark_tasks('mt10')[:3])}]"
    assert words["replay_buffer.batch_size"] == "384"
    assert words["agent.must.pruning_ratio"] == "0.7"
    assert words["agent.must.update_interval"] == "25"
    assert words["agent.must.generator_lr"] == "0.0003"
    assert words["agent.must.supervised"] == "false"
    assert words["agent.must.trajectories"] == "true"
    assert words["setup.seed"] == "4"


@pytest.mark.parametrize(
    ("more", "task"),
    [([], "reach"), (["--specify_single_task", "door-open"], "door-open"), (["--specify_single_task", "2"], None)],
)
def test_a_single_task(more: list[str], task: str | None) -> None:
    words = _words(*["3", "50", "0.5", "1e-4", "1", "1", "1"], *more)
    assert words["env"] == "metaworld-mt1"
    assert words["env.task"] == (task or benchmark_tasks("mt10")[2])
    assert words["replay_buffer.batch_size"] == "128"


def test_all_but_the_method_is_known_to_medley() -> None:
    words = printed_words(_review(*["3", "50", "0.5", "1e-4", "1", "1", "4"], "--print-only"))
    plain = [word for word in words if not word.startswith(("agent=", "agent.must."))]
    config = load_config(plain)
    assert config.experiment.num_train_steps == 450_000


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("3 50 0.5", "SEED UPDATE_INTERVAL"),
        ("3 50 0.5 1e-4 1 1 11", "must lie in 1 to 10"),
        ("3 50 0.5 1e-4 2 1 10", "must be 0 or 1"),
        ("3 50 0.5 1e-4 1 1 10 --specify_single_task reach", "needs selected_task_amount=1"),
    ],
)
def test_positions_that_cannot_be_meant(words: str, hint: str) -> None:
    done = _review(*words.split())
    assert done.returncode == 2
    assert hint in done.stderr


def test_files_are_where_the_seed_says(tmp_path: Path) -> None:
    assert (FOLDER / "starter" / "mt_must_sac.py").is_file()
    for path in (FOLDER / "meta_config" / "must_configs").rglob("*.json"):
        assert json.loads(path.read_text())["env_name"] == "mt10"
    (line,) = (FOLDER / "req.txt").read_text().splitlines()
    flag, target = line.split()
    assert flag == "-e"
    assert tomllib.loads((FOLDER / target / "pyproject.toml").read_text())["project"]["name"] == "medley"


def test_a_file_of_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    path.write_text(
        json.dumps(
            {
                "selected_task_amount": 2,
                "traj_encoder": {"latent_size": 256, "hidden_shapes": [256, 128]},
                "task_embedding": {"em_hidden_shapes": [256, 128]},
                "sparse_training": {"pruning_ratio": 0.8},
                "general_setting": {"mask_update_interval": 25, "recent_traj_window": 10},
            }
        )
    )
    starter = str(FOLDER / "starter" / "mt_must_sac.py")
    done = start([sys.executable, starter, "--config", str(path), "--print-only"], FOLDER)
    words = dict(word.split("=", 1) for word in printed_words(done))  # type: ignore[misc]
    assert words["agent.must.pruning_ratio"] == "0.8"
    assert words["agent.must.update_interval"] == "25"
    assert words["agent.actor.hidden_dim"] == "400"
    assert words["env.tasks"] == "[reach,push]"
    for name in ("traj_encoder.latent_size", "task_embedding.em_hidden_shapes", "recent_traj_window"):
        assert name in done.stderr


def test_the_seeds_command_trains_and_leaves_weights(tmp_path: Path) -> None:
    tiny = [
        *("--num_epochs", "3", "--epoch_frames", "20", "--pretrain_epochs", "1", "--opt_steps", "2"),
        *("--max_episode_frames", "20", "--eval_episodes", "1", "--hidden_shapes", "[16,16]", "--buffer_size", "1e4"),
        *(
            "--log_dir",
            str(tmp_path / "log"),
            "--no_cuda",
            "experiment.save_video=false",
            "experiment.save_report=false",
            "setup.threads=1",
        ),
    ]
    done = _review(*["3", "1", "0.5", "1e-4", "1", "1", "10"], *tiny)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "log").glob("*/mt10/3")
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    assert list(run.glob("checkpoints/*/agent.safetensors"))
    assert main(["report", str(run)]) == 0
