"""The trained agent in results/mt10/agent still solves Meta-World's ten tasks."""

from __future__ import annotations

import shutil
from pathlib import Path

from medley.training.evaluate import evaluate

AGENT = Path(__file__).parents[2] / "results" / "mt10" / "agent"


def test_solves_mt10(tmp_path: Path) -> None:
    run = shutil.copytree(AGENT, tmp_path / "agent", ignore=shutil.ignore_patterns("evaluation_*"))
    _, table = evaluate(run, ["experiment.num_eval_episodes=6"], say=lambda text: None)
    by_task = {task: row["success"] for task, row in table["per_task"].items()}
    assert len(by_task) == 10
    assert table["complete"]
    assert all(row["episodes"] == 6 for row in table["per_task"].values())
    assert table["success"] >= 0.9, by_task
