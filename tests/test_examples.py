"""The examples do what their first line says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _run(*words: str, cwd: Path, path: str = "") -> str:
    search = os.pathsep.join(filter(None, [str(ROOT), path]))
    settings = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_train_and_act(tmp_path: Path) -> None:
    for _ in range(2):  # the second time, the first run is kept aside
        out = _run(str(ROOT / "examples/train_and_act.py"), "--steps", "100", "--folder", str(tmp_path), cwd=tmp_path)
    assert "<medley run" in out
    assert "finished, success" in out
    assert out.splitlines()[-1].startswith("west: ")
    assert (tmp_path / "runs/point/train_and_act/seed_1.old-1/report.html").is_file()


def test_plugin(tmp_path: Path) -> None:
    """Found by its entry point, listed, trained, and resumed like a built-in env."""
    place = tmp_path / "installed"
    info = place / "medley_corridor-0.1.0.dist-info"
    info.mkdir(parents=True)  # what pip leaves behind, without asking an index for build tools
    (place / "medley_corridor").symlink_to(ROOT / "examples/plugin/medley_corridor")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: medley-corridor\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[medley.plugins]\ncorridor = medley_corridor:register\n")

    def medley(*words: str) -> str:
        return _run("-m", "medley", *words, cwd=tmp_path, path=str(place))

    assert "corridor\tcorridor\tready\t2 tasks" in medley("list", "envs")
    tiny = ["experiment.init_steps=30", "experiment.num_eval_episodes=1", "experiment.save_video=false"]
    medley("train", "env=corridor", "env.goal=0.5", "experiment.num_train_steps=60", *tiny)
    found = [str(p.parent.relative_to(tmp_path)) for p in tmp_path.glob("runs/*/*/*/config.yaml")]
    assert len(found) == 1, found
    assert found[0].startswith("runs/corridor/state_sac_goal-0.5"), found
    medley("resume", found[0], "experiment.num_train_steps=90")
    assert "left" in medley("evaluate", found[0])
