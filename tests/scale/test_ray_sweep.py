"""A sweep on a real Ray cluster of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medley.cli import main
from medley.scale.folder import noted
from tests.faults.harness import assert_same_run
from tests.scale.test_sweep import NAMED


def test_a_sweep(ray: Any, tmp_path: Path, capsys: Any) -> None:
    """Two runs in one task; one of them fails whatever is done."""
    words = ["launch", "on=ray", "seeds=2", "resources.per_job=2", "retries=1", *NAMED]
    broken = [
        "resources.before=[ -e mended ] || { [ $(basename $(dirname $0)) != seed_2 ] || { echo bad >&2; exit 3; }; }"
    ]
    assert main([*words, *broken]) == 1
    said = capsys.readouterr().out
    assert "1 finished, 1 failed" in said
    assert "seed_2: failed 2 times, the last time: bad" in said
    runs = tmp_path / "runs" / "point" / "tiny"
    assert noted(runs / "seed_1")["engine"] == "ray"
    (tmp_path / "mended").touch()
    assert main([*words, *broken]) == 0
    assert "1 finished, 1 to do" in capsys.readouterr().out
    assert main(["train", *NAMED, "setup.seed=2", f"setup.save_dir={tmp_path / 'alone'}"]) == 0
    assert_same_run(runs / "seed_2", tmp_path / "alone")
