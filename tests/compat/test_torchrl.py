"""Seed 000's command, its settings, and where its logs are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medley.cli import main
from medley.config.load import load_config
from medley.envs.metaworld.names import benchmark_tasks
from medley.envs.registry import env_kind
from tests.compat.commands import COMPAT, bare_python, printed_words, start, start_forked

FOLDER = COMPAT / "torchrl"
# As the seed's table has them, and what these tasks are called today.
TASKS = [
    ("reach-v1", "reach"),
    ("push-v1", "push"),
    ("pick-place-v1", "pick-place"),
    ("door-v1", "door-open"),
    ("drawer-open-v1", "drawer-open"),
    ("drawer-close-v1", "drawer-close"),
    ("button-press-topdown-v1", "button-press-topdown"),
    ("ped-insert-side-v1", "peg-insert-side"),
    ("window-open-v1", "window-open"),
    ("window-close-v1", "window-close"),
]
TINY = [
    *("--num_epochs", "2", "--epoch_frames", "40", "--pretrain_epochs", "1", "--opt_steps", "3"),
    *("--max_episode_frames", "20", "--eval_episodes", "1", "--hidden_shapes", "[16,16]", "--buffer_size", "1e3"),
]


def _starter(*words: str, name: str = "st_sac.py", folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return start_forked(FOLDER / "starter" / name, words, folder)


def _words(*words: str, name: str = "st_sac.py") -> dict[str, str]:
    done = _starter("--print-only", *words, name=name)
    return dict(word.split("=", 1) for word in printed_words(done))  # type: ignore[misc]


def _file(path: Path, **sections: object) -> str:
    path.write_text(json.dumps(sections))
    return str(path)


def test_the_seeds_command_trains_where_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["python", "starter/st_sac.py", "--id", "MT10_Individual_Tasks", "--task_id", "4", "--seed", "1"]
    more = [*TINY, "--log_dir", str(tmp_path / "log"), "--no_cuda", "experiment.save_video=false", "setup.threads=1"]
    done = start([sys.executable, *command[1:], *more], FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "log" / "MT10_Individual_Tasks" / "drawer-open-v1" / "1"
    info = json.loads((run / "run.json").read_text())
    assert (info["tasks"], info["seed"], info["status"]) == (["drawer-open"], 1, "finished")
    assert (info["step"], info["updates"]) == (80, 6)  # an epoch of random actions, then three updates after each
    assert list(run.glob("tb/events.out.tfevents.*"))
    assert (run / "report.html").is_file()

    # What it printed does the same; the folder is a run folder like any other.
    assert main(["train", *printed_words(done)]) == 2
    assert "is finished" in capsys.readouterr().err
    assert main(["resume", str(run), "experiment.num_train_steps=120"]) == 0
    assert json.loads((run / "run.json").read_text())["step"] == 120
    assert main(["report", str(run.parent)]) == 0


def test_every_id_is_the_seeds_task() -> None:
    starter = (FOLDER / "starter" / "st_sac.py").read_text()
    names: dict[str, list[str]] = {"__file__": str(FOLDER / "starter" / "st_sac.py"), "__name__": "st_sac"}  # type: ignore[dict-item]
    exec(compile(starter, "st_sac.py", "exec"), names)
    assert names["TASKS"] == [old for old, _ in TASKS]
    for old, today in TASKS:
        config = load_config(["env=metaworld-mt1", f"env.task={old}"])
        assert env_kind("metaworld").tasks(config.env) == [today]
    assert {today for _, today in TASKS} == set(benchmark_tasks("mt10"))


@pytest.mark.parametrize("task_id", [0, 7, 9])
def test_an_id_leads_to_its_task_and_folder(task_id: int) -> None:
    old, today = TASKS[task_id]
    words = printed_words(_starter("--id", "x", "--task_id", str(task_id), "--seed", "5", "--print-only"))
    config = load_config(words)
    assert env_kind("metaworld").tasks(config.env) == [today]
    assert config.setup.seed == 5
    assert config.setup.save_dir == f"log/x/{old}/5"


def test_our_settings_are_the_seeds() -> None:
    config = load_config(printed_words(_starter("--task_id", "4", "--print-only")))
    e = config.experiment
    assert (e.num_train_steps, e.collect_steps, e.updates) == (1_000_000, 200, 200)
    assert (e.init_steps, e.num_eval_episodes, e.eval_freq) == (4000, 3, 10_000)
    assert (config.replay_buffer.batch_size, config.replay_buffer.capacity) == (256, 1_000_000)
    assert (config.env.horizon, config.env.slots_per_task) == (200, 1)
    assert config.agent.actor.num_layers == 3  # type: ignore[attr-defined]
    assert config.setup.save_dir == "log/sac_ind/drawer-open-v1/0"


def test_a_file_of_the_family_is_read_key_by_key(tmp_path: Path) -> None:
    path = _file(
        tmp_path / "own.json",
        general_setting={
            "num_epochs": 30,
            "epoch_frames": 100,
            "num_envs": 4,
            "opt_times": 50,
            "pretrain_epochs": 2,
            "min_pool": 1000,
            "batch_size": 64,
            "max_episode_frames": 150,
            "discount": 0.9,
            "tau": 0.01,
            "use_soft_update": True,
            "eval_episodes": 5,
            "eval_interval": 10,
            "save_interval": 15,
            "colour": "red",
        },
        sac={"plr": 1e-3, "qlr": 2e-3, "automatic_entropy_tuning": False, "reparameterization": True},
        replay_buffer={"size": 2e4},
        net={"hidden_shapes": [32, 32], "append_hidden_shapes": [32]},
        env={"reward_scale": 0.1, "obs_norm": False},
        meta_env={"obs_type": "plain"},
    )
    done = _starter("--task_id", "0", "--config", path, "--tau", "0.02", "--print-only", "agent.n_step=2")
    assert "Left out, for this starter has nothing of that name: general_setting.colour." in done.stderr
    words = dict(word.split("=", 1) for word in printed_words(done))  # type: ignore[misc]
    assert words == {
        "env": "metaworld-mt1",
        "env.task": "reach-v1",
        "agent": "state_sac",
        "setup.seed": "0",
        "setup.id": "own",
        "setup.save_dir": "log/own/reach-v1/0",
        "env.slots_per_task": "4",
        "experiment.num_train_steps": "12000",
        "experiment.init_steps": "1000",  # the pool is more than two epochs of 400
        "experiment.collect_steps": "100",
        "experiment.updates": "50",
        "experiment.eval_freq": "4000",
        "experiment.save_freq": "6000",
        "replay_buffer.batch_size": "64",
        "replay_buffer.capacity": "20000",
        "env.horizon": "150",
        "experiment.num_eval_episodes": "5",
        "agent.discount": "0.9",
        "agent.critic_tau": "0.02",
        "agent.optimizers.actor.lr": "0.001",
        "agent.optimizers.alpha.lr": "0.001",
        "agent.optimizers.critic.lr": "0.002",
        "agent.learn_temperature": "false",
        "agent.reward_scale": "0.1",
        "agent.actor.num_layers": "3",
        "agent.actor.hidden_dim": "32",
        "agent.critic.num_layers": "3",
        "agent.critic.hidden_dim": "32",
        "env.partially_observable": "true",
        "env.goals": "single",
        "agent.n_step": "2",
    }
    load_config(printed_words(done))  # and medley knows all of them


def test_hard_target_updates_and_a_name_with_spaces(tmp_path: Path) -> None:
    path = _file(tmp_path / "c.json", general_setting={"use_soft_update": False, "target_hard_update_period": 7})
    words = printed_words(_starter("--task_id", "8", "--config", path, "--id", "it's copy 2, again", "--print-only"))
    config = load_config(words)
    assert (config.agent.critic_tau, config.agent.critic_target_update_freq) == (1.0, 7)  # type: ignore[attr-defined]
    assert config.setup.save_dir == "log/it's copy 2, again/window-open-v1/0"


@pytest.mark.parametrize(
    ("sections", "hint"),
    [
        ({"general_setting": {"num_epoch": 3}}, "Did you mean 'num_epochs'"),
        ({"sac": {"reparameterization": False}}, "medley has only true"),
        ({"net": {"hidden_shapes": [400, 200]}}, "of one width"),
        ({"net": {"hidden_shapes": 400}}, "must be a list"),
        ({"net": {"num_modules": 4}}, "soft modules"),
        ({"meta_env": {"obs_type": "with_gaol"}}, "Did you mean 'with_goal'"),
        ({"general_setting": {"batch_size": 2.5}}, "must be a whole number"),
    ],
)
def test_settings_that_cannot_be_meant(sections: dict[str, object], hint: str, tmp_path: Path) -> None:
    done = _starter("--task_id", "0", "--config", _file(tmp_path / "c.json", **sections))
    assert done.returncode == 2
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


@pytest.mark.parametrize(
    ("text", "hint"), [("{", "is not JSON"), ("[1]", "does not hold settings"), (None, "No such file")]
)
def test_files_that_cannot_be_read(text: str | None, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    if text is not None:
        path.write_text(text)
    done = _starter("--task_id", "0", "--config", str(path))
    assert done.returncode == 2
    assert hint in done.stderr


def test_anew_is_for_medley() -> None:
    assert printed_words(_starter("--task_id", "0", "--print-only", "--fresh"))[-1] == "--fresh"


def test_ids_that_do_not_exist() -> None:
    for task_id in ("10", "-1", "reach"):
        assert _starter("--task_id", task_id, "--print-only").returncode == 2
    assert _starter("--seed", "1", "--print-only").returncode == 2


def test_without_medley_it_says_what_to_do(tmp_path: Path) -> None:
    copy = shutil.copytree(COMPAT, tmp_path / "compat", ignore=shutil.ignore_patterns("log", "__pycache__"))
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [bare_python(tmp_path / "bare"), "starter/st_sac.py", "--task_id", "4"]
    done = subprocess.run(command, cwd=copy / "torchrl", env=settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "make install" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "tasks", "batch"), [("MT10", 10, 1280), ("MT50", 50, 6400)])
def test_many_tasks(name: str, tasks: int, batch: int) -> None:
    done = _starter("--id", name, "--worker_nums", "10", "--print-only", name="mt_sac.py")
    assert "Not needed: --worker_nums" in done.stderr
    config = load_config(printed_words(done))
    assert config.env.name == f"metaworld-{name.lower()}"
    assert len(env_kind("metaworld").tasks(config.env)) == tasks
    assert config.replay_buffer.batch_size == batch
    assert config.agent.alpha_per_task  # type: ignore[attr-defined]
    assert config.setup.save_dir == f"log/{name}/{name.lower()}/0"


def test_many_tasks_share_the_simulators_evenly() -> None:
    words = _words("--id", "MT10", "--num_envs", "20", "--obs_type", "with_goal", name="mt_sac.py")
    assert words["env.slots_per_task"] == "2"
    assert words["experiment.num_train_steps"] == "3000000"
    assert words["agent.task_input"] == "none"
    done = _starter("--id", "MT10", "--num_envs", "15", "--print-only", name="mt_sac.py")
    assert "num_envs=15 is no multiple of 10" in done.stderr
