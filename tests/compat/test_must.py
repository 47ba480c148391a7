"""Seed 003's command, and the files that it names."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from medley.cli import main
from medley.config.load import load_config
from medley.envs.metaworld.names import benchmark_tasks
from tests.compat.commands import COMPAT, printed_words, start, start_forked

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


# As liqianxi/DST_MTRL has it, with sizes of its own: those of its MT10 file are medley's defaults.
REFERENCE = {
    "env_name": "mt10",
    "selected_task_amount": 2,
    "env": {"reward_scale": 1, "obs_norm": False},
    "meta_env": {"obs_type": "with_goal_and_id"},
    "replay_buffer": {"size": 1e6},
    "net": {"hidden_shapes": [400, 400, 400]},
    "task_embedding": {"em_hidden_shapes": [256, 128]},
    "traj_encoder": {"latent_size": 32, "hidden_shapes": [256, 128]},
    "generator": {"one_hot_mlp_hidden": 64, "generator_mlp_hidden": 48, "one_hot_result_dim": 64},
    "sparse_training": {"pruning_ratio": 0.7},
    "general_setting": {
        "discount": 0.99,
        "pretrain_epochs": 20,
        "num_epochs": 3000,
        "epoch_frames": 150,
        "max_episode_frames": 150,
        "generator_lr": 1e-4,
        "batch_size": 1280,
        "min_pool": 10000,
        "success_traj_update_only": True,
        "target_hard_update_period": 1000,
        "use_soft_update": True,
        "tau": 0.005,
        "opt_times": 200,
        "update_end_epoch": 2000,
        "mask_update_interval": 25,
        "eval_episodes": 3,
        "recent_traj_window": 7,
    },
    "sac": {"plr": 3e-4, "qlr": 3e-4, "reparameterization": True, "automatic_entropy_tuning": True},
}


def _started(*words: str) -> tuple[dict[str, str], str]:
    done = start_forked(FOLDER / "starter" / "mt_must_sac.py", (*words, "--print-only"), FOLDER)
    return dict(word.split("=", 1) for word in printed_words(done)), done.stderr  # type: ignore[misc]


def test_a_file_of_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    path.write_text(json.dumps(REFERENCE))
    words, said = _started("--config", str(path))
    expected = {
        "agent.must.pruning_ratio": "0.7",
        "agent.must.hidden": "48",
        "agent.must.latent": "32",
        "agent.must.window": "7",
        "agent.must.update_interval": "25",
        "agent.must.update_end": "2000",
        "agent.actor.hidden_dim": "400",
        "agent.actor.num_layers": "3",
        "env.tasks": "[reach,push]",
        "env.goals": "single",
    }
    assert {key: words[key] for key in expected} == expected
    assert "nothing of that name" not in said
    assert (
        "Left out, for the project's own code does not use it either: task_embedding.em_hidden_shapes, "
        "traj_encoder.hidden_shapes, generator.one_hot_mlp_hidden, generator.one_hot_result_dim, "
        "general_setting.success_traj_update_only.\n" in said
    )
    assert "agent.must.success_only=true" in said
    must = load_config([f"{key}={value}" for key, value in words.items()]).agent.must  # type: ignore[attr-defined]
    assert (must.hidden, must.latent, must.window, must.update_end) == (48, 32, 7, 2000)


def test_masks_are_counted_in_epochs_there_and_in_episodes_here() -> None:
    words, said = _started("--epoch_frames", "300", "--mask_update_interval", "5", "--sl_optim_times", "9")
    assert words["agent.must.update_interval"] == "10"
    assert words["agent.must.update_end"] == "6000"
    assert words["agent.must.sl_steps"] == "9"
    assert not said
    words, _ = _started("--epoch_frames", "100", "--mask_update_interval", "1", "--num_envs", "20")
    assert words["agent.must.update_interval"] == "2"  # two episodes of 100 steps in each task, of 150


def test_our_settings_are_those_of_the_reference() -> None:
    """Goals above all: its file says nothing about them, and then they are fixed."""
    words, said = _started()
    assert words["env.goals"] == "single"
    assert not said
    must = {key: value for key, value in words.items() if key.startswith("agent.must.")}
    assert must == {
        "agent.must.pruning_ratio": "0.8",
        "agent.must.generator_lr": "0.0001",
        "agent.must.hidden": "256",
        "agent.must.latent": "256",
        "agent.must.window": "10",
        "agent.must.sl_steps": "5",
        "agent.must.update_interval": "50",
        "agent.must.update_end": "3000",
        "agent.must.supervised": "true",
        "agent.must.trajectories": "true",
    }
    assert _words(*["3", "50", "0.5", "1e-4", "1", "1", "10"])["env.goals"] == "single"
    assert "env.goals" not in _started("--random_init", "true")[0]


def test_a_flag_that_the_reference_does_not_use() -> None:
    _, said = _started("--success_traj_update_only", "1")
    assert "does not use it either: --success_traj_update_only." in said


@pytest.mark.parametrize("place", [".", "../../..", "../../../../.."])
def test_slurm_runs_a_copy_of_the_script(tmp_path: Path, place: str) -> None:
    """In a folder of its own, under another name; SLURM_SUBMIT_DIR is where sbatch was called."""
    copy = tmp_path / "job00007" / "slurm_script"
    copy.parent.mkdir()
    shutil.copy(SCRIPTS / "run_review.sh", copy)
    python = tmp_path / "python"
    python.write_text('#!/usr/bin/env bash\necho "$PWD: $*"\n')
    python.chmod(0o755)

    def job(submitted: Path) -> subprocess.CompletedProcess[str]:
        settings = [f"SLURM_SUBMIT_DIR={submitted}", f"PYTHON={python}"]
        return start(["env", *settings, "bash", str(copy), *["3", "50", "0.5", "1e-4", "1", "1", "10"]], submitted)

    done = job((SCRIPTS / place).resolve())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{FOLDER}: starter/mt_must_sac.py --config meta_config/")
    done = job(tmp_path)
    assert done.returncode == 2
    assert "submit it from the folder it is in" in done.stderr


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
