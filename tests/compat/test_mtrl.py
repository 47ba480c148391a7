"""mtrl's documented commands, from the folder they are given in."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medley.agents.task_label import task_input_kind
from medley.config.load import load_config
from tests.compat.commands import bare_python

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "compat" / "mtrl"

PLAIN = """setup=metaworld \
agent=state_sac \
env=metaworld-mt10 \
agent.multitask.num_envs=10 \
agent.multitask.should_use_disentangled_alpha=True"""
MULTI_HEAD = f"{PLAIN} agent.multitask.should_use_multi_head_policy=True "
EVERYTHING = """setup=metaworld \
env=metaworld-mt10 \
agent=state_sac \
agent.multitask.num_envs=10 \
agent.multitask.should_use_disentangled_alpha=True \
agent.multitask.should_use_multi_head_policy=True \
experiment.num_train_steps=2000000 \
setup.seed=1 \
replay_buffer.batch_size=1280"""
TINY = """experiment.num_train_steps=40 experiment.init_steps=20 experiment.num_eval_episodes=1
experiment.eval_at_start=false experiment.eval_freq=0 env.horizon=20
experiment.save_video=false experiment.save_report=false
replay_buffer.capacity=1000 agent.actor.hidden_dim=32 agent.critic.hidden_dim=32 setup.threads=1 logger.train_freq=20"""


def _main(
    *words: str, python: str = sys.executable, main: Path = FOLDER / "main.py", path: str = str(ROOT)
) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join(filter(None, [".", path]))
    settings = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-u", "main.py", *words]
    return subprocess.run(command, cwd=main.parent, env=settings, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("command", [PLAIN, MULTI_HEAD, EVERYTHING])
def test_documented_commands_mean_what_they_say(command: str) -> None:
    config = load_config(shlex.split(command))
    assert config.agent.alpha_per_task  # type: ignore[attr-defined]
    assert config.agent.trunk == ("shared" if command is PLAIN else "multi_head")  # type: ignore[attr-defined]
    assert task_input_kind(config.agent) == "one_hot"  # type: ignore[arg-type]
    assert config.env.name == "metaworld-mt10"
    assert config.setup.setup == "metaworld"
    assert config.setup.seed == 1
    assert config.experiment.num_train_steps == 2_000_000
    assert config.replay_buffer.batch_size == 1280


def test_a_real_run(tmp_path: Path) -> None:
    done = _main(*shlex.split(PLAIN), *TINY.split(), f"setup.base_path={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\| train \| E: 20 \| S: 40 \|", done.stdout, re.M), done.stdout
    (results,) = tmp_path.glob("runs/metaworld-mt10/*/seed_1/results.json")
    last = json.loads(results.read_text())["evaluations"][-1]
    assert last["step"] == 40
    assert len(last["per_task"]) == 10


def test_another_setup_and_a_mistake(tmp_path: Path) -> None:
    words = ["setup=point", "env=point", "agent=state_sac", "experiment.num_train_steps=60", "setup.threads=1"]
    words += ["experiment.init_steps=40", "experiment.num_eval_episodes=1", "experiment.save_video=false"]
    done = _main(*words, f"setup.base_path={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("runs/point/*/seed_1/report.html"))
    done = _main("setup=point", "env=point", "agent=state_sacc")
    assert done.returncode == 2
    assert "Did you mean 'state_sac'" in done.stderr


def _copy(root: Path) -> Path:
    """The starter in a repository of its own, with what it shares with the others."""
    (root / "compat" / "mtrl").mkdir(parents=True)
    for name in ("starting.py", "mtrl/main.py"):
        shutil.copy(ROOT / "compat" / name, root / "compat" / name)
    return root / "compat" / "mtrl" / "main.py"


def test_without_medley_it_says_what_to_do(tmp_path: Path) -> None:
    copy = _copy(tmp_path / "repository")
    done = _main("env=point", python=bare_python(tmp_path / "bare"), main=copy, path="")
    assert done.returncode == 2
    assert "make install" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_it_finds_the_repositorys_own_python(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    copy = _copy(root)
    bare_python(root / ".venv")
    (site,) = (root / ".venv").glob("lib/python3.*/site-packages")
    # A stand-in for medley that shows who was asked for what.
    for name in ("medley/__init__.py", "medley/config/__init__.py", "medley/config/load.py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("")
    (site / "medley/cli.py").write_text("import sys\ndef main(words):\n    print(sys.prefix, *words)\n    return 7\n")
    done = _main("env=point", "agent.x=[1,2]", python=bare_python(tmp_path / "bare"), main=copy, path="")
    assert done.returncode == 7, done.stderr
    assert done.stdout.split() == [str(root / ".venv"), "train", "env=point", "agent.x=[1,2]"]
