"""The examples do what their first line says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _run(*words: str, cwd: Path, path: str = "") -> str:
    search = os.pathsep.join(filter(None, [str(ROOT), path]))
    settings = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _medley(*commands: list[str], cwd: Path, path: str) -> str:
    """One process for several: most of the time of short ones is spent on imports."""
    code = f"from medley.cli import main; raise SystemExit(max(main(words) for words in {commands}))"
    return _run("-c", code, cwd=cwd, path=path)


def test_train_and_act(tmp_path: Path) -> None:
    for _ in range(2):  # the second time, the first run is kept aside
        out = _run(str(ROOT / "examples/train_and_act.py"), "--steps", "100", "--folder", str(tmp_path), cwd=tmp_path)
    assert "<medley run" in out
    assert "finished, success" in out
    assert out.splitlines()[-1].startswith("west: ")
    assert (tmp_path / "runs/point/train_and_act/seed_1.old-1/report.html").is_file()


def test_simulator(tmp_path: Path) -> None:
    out = _run(str(ROOT / "examples/simulator.py"), "--slots-per-task", "2", "--steps", "200", cwd=tmp_path)
    *per_task, speed, picture = out.splitlines()
    assert len(per_task) == 10
    assert all("success in 2 of 2 slots" in line for line in per_task if line.startswith(("reach", "push", "drawer")))
    assert "env steps/s in env.step" in speed
    if picture.startswith("no picture"):
        assert "OpenGL" in picture
    else:
        assert (tmp_path / "simulator.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("env_id", "steps"), [("medley/MT10", 130), pytest.param("Meta-World/MT10", 105, marks=pytest.mark.long)]
)
def test_sac_in_one_file(env_id: str, steps: int, tmp_path: Path) -> None:
    """The very same code on our simulator and on the package's envs, past the steps before it learns."""
    example = str(ROOT / "examples/sac_in_one_file.py")
    out = _run(example, "--env-id", env_id, "--steps", str(steps), "--batch-size", "32", cwd=tmp_path)
    assert out.startswith(f"step {steps}: ")
    assert "env steps/s" in out


def _install(module: Path, entry_point: str, place: Path) -> None:
    """What pip would leave behind, without asking an index for build tools."""
    info = place / f"{module.stem}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (place / module.name).symlink_to(module)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.stem}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[medley.plugins]\n{entry_point}\n")


def test_metaworld_task(tmp_path: Path) -> None:
    """On its own, and as a plugin by the entry point and the commands of CONTRIBUTING.md."""
    example = ROOT / "examples/metaworld_task.py"
    out = _run(str(example), "--steps", "100", "--folder", str(tmp_path), cwd=tmp_path)
    assert out.splitlines()[-1].startswith("<medley run")
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Add a Meta-World task in one file")[1].split("\n## ")[0]
    entry_point, commands = (re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)[0] for kind in ("toml", "bash"))
    _install(example, entry_point.splitlines()[1].strip().replace('"', ""), tmp_path / "installed")
    tiny = ["env.horizon=10", "experiment.num_train_steps=20", "experiment.num_eval_episodes=1"]
    said = [shlex.split(command) for command in commands.strip().splitlines()]
    assert {program for program, *_ in said} == {"medley"}
    out = _medley(*([*words, *tiny] for _, *words in said), cwd=tmp_path, path=str(tmp_path / "installed"))
    assert len(re.findall(r"^Report: ", out, re.M)) == len(said) == 2
    assert "hover" in out
    assert len(list(tmp_path.glob("runs/metaworld*/*/*/report.html"))) == 3


def test_plugin(tmp_path: Path) -> None:
    """Found by its entry point, listed, trained, and resumed like a built-in env."""
    place = tmp_path / "installed"
    _install(ROOT / "examples/plugin/medley_corridor", "corridor = medley_corridor:register", place)

    def medley(*commands: list[str]) -> str:
        return _medley(*commands, cwd=tmp_path, path=str(place))

    tiny = ["experiment.init_steps=30", "experiment.num_eval_episodes=1", "experiment.save_video=false"]
    train = ["train", "env=corridor", "env.goal=0.5", "experiment.num_train_steps=60", *tiny]
    assert "corridor\tcorridor\tready\t2 tasks" in medley(["list", "envs"], train)
    found = [str(p.parent.relative_to(tmp_path)) for p in tmp_path.glob("runs/*/*/*/config.yaml")]
    assert len(found) == 1, found
    assert found[0].startswith("runs/corridor/state_sac_goal-0.5"), found
    assert "left" in medley(["resume", found[0], "experiment.num_train_steps=90"], ["evaluate", found[0]])
