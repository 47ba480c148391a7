"""`runs.ipynb`, executed by a real kernel: on made-up logs, on real runs, and where there are none."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from tests.compat.sac_ae import FOLDER
from tests.scale.test_sweep import TINY

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


def execute(folder: Path) -> tuple[str, list[str]]:
    """What it prints, and the pictures that it shows, with `folder` as the place where it was opened."""
    notebook = nbformat.read(FOLDER / "runs.ipynb", 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # those of somebody else's runs
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs: list[Any] = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    return said, [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "runs" / "aggregate.csv").open() as f:
        return list(csv.DictReader(f))


def test_seeds_are_aggregated(tmp_path: Path) -> None:
    """Ten of them, as the seed's document has it; one is behind, one was cut off in the middle of a line."""
    for seed in range(1, 11):
        run = tmp_path / "runs" / "walker_walk" / "sac_states" / f"seed_{seed}"
        run.mkdir(parents=True)
        steps = (0, 100, 200, 300)[: 3 if seed == 7 else 4]
        rows = [{"step": s, "env_step": 2 * s, "episode_reward": seed**2 * s} for s in steps]
        (run / "eval.log").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 4' * (seed == 7))
    (tmp_path / "runs" / "walker_walk" / "empty").mkdir()
    said, pictures = execute(tmp_path)
    assert "sac_states: 10 seeds, 7700 [" in said
    assert "after 400 env steps" in said
    assert "behind the others, which are at 600: seed_7 (400)" in said
    assert len(pictures) == 2
    assert all(len(picture) > 10_000 for picture in pictures)
    rows = table(tmp_path)
    assert [row["env_step"] for row in rows] == ["0", "200", "400"]  # as far as all seeds are
    assert [float(row["mean_episode_reward"]) for row in rows] == [
        0,
        3850,
        7700,
    ]  # the mean of squares up to ten is 38.5
    assert {row["seeds"] for row in rows} == {"10"}
    low, high = float(rows[-1]["low"]), float(rows[-1]["high"])
    # They deviate by 32.42 from it, and means of ten redrawn ones by a root of ten less.
    assert 7700 - 2.3 * 2050 < low < 7700 - 1.6 * 2050
    assert 7700 + 1.6 * 2050 < high < 7700 + 2.3 * 2050


def test_runs_of_medley_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    assert main(["launch", "seeds=2", "jobs=2", "setup.id=tiny", *TINY]) == 0
    said, pictures = execute(tmp_path)
    assert "tiny: 2 seeds" in said
    assert len(pictures) == 2
    last = []
    for seed in (1, 2):
        log = tmp_path / "runs" / "point" / "tiny" / f"seed_{seed}" / "eval.log"
        last.append(json.loads(log.read_text().splitlines()[-1])["episode_reward"])
    assert float(table(tmp_path)[-1]["mean_episode_reward"]) == pytest.approx(sum(last) / 2, rel=1e-4)


def test_without_runs_it_says_so(tmp_path: Path) -> None:
    said, _ = execute(tmp_path)
    assert "No evaluations in" in said
