"""Files from strangers cannot run code: a pickle in the place of any file of a run is never executed."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

from tests.faults import harness


class Bomb:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> object:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("which", ["one of a kind", pytest.param("all", marks=pytest.mark.long)])
def test_no_file_of_a_run_is_unpickled(tmp_path: Path, which: str) -> None:
    mark = tmp_path / "executed"
    bomb = pickle.dumps(Bomb(mark))
    pickle.loads(bomb)
    assert mark.exists(), "the bomb itself works"
    mark.unlink()
    small = ("experiment.num_train_steps=80", "experiment.save.model.retain_last_n=1", "experiment.num_eval_episodes=1")
    code, text = harness.run(harness.train_words(tmp_path / "run", *small, "experiment.save_freq=0"), tmp_path)
    assert code == 0, text
    run = tmp_path / "run"
    files = [p.relative_to(run) for p in run.rglob("*") if p.is_file() and p.name != ".lock"]
    assert {"config.yaml", "run.json", "results.json", "train.log", "eval.log"} <= {p.name for p in files}
    assert any(p.suffix == ".safetensors" for p in files)
    if which == "one of a kind":
        files = list({p.suffix: p for p in files}.values())
        assert {p.suffix for p in files} >= {".yaml", ".json", ".log", ".safetensors"}
    other = tmp_path / "victim"
    for name in files:
        shutil.copytree(run, other)
        (other / name).write_bytes(bomb)
        for words in (
            ["resume", str(other), "experiment.num_train_steps=82"],
            ["evaluate", str(other)],
            ["report", str(other)],
            harness.train_words(tmp_path / "fresh", "experiment.num_train_steps=1", f"experiment.init_from={other}"),
        ):
            code, text = harness.run(words, tmp_path)
            assert not mark.exists(), f"{name} was executed by {words[0]}"
            assert code in (0, 2), f"{words[0]} with a bad {name}: {text}"
            assert "Traceback" not in text, f"{words[0]} with a bad {name}: {text}"
        shutil.rmtree(other)
        shutil.rmtree(tmp_path / "fresh", ignore_errors=True)


def test_yaml_cannot_build_objects(undisturbed: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    (run / "config.yaml").write_text(f"!!python/object/apply:os.system ['touch {mark}']\n")
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 2
    assert not mark.exists()
    assert "Traceback" not in text


@pytest.mark.parametrize("name", ["../../outside.safetensors", "/etc/hostname"])
def test_manifest_cannot_name_files_outside(undisturbed: Path, tmp_path: Path, name: str) -> None:
    import json

    from medley.files import sha256

    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    for step in (run / "checkpoints").iterdir():
        replay = step / "replay.json"
        manifest = json.loads(replay.read_text())
        manifest["segments"][0]["file"] = name
        replay.write_text(json.dumps(manifest))
        listing = json.loads((step / "manifest.json").read_text())
        listing["replay.json"] = sha256(replay)
        (step / "manifest.json").write_text(json.dumps(listing))
    code, text = harness.run(["resume", str(run), "experiment.num_train_steps=850"], tmp_path)
    assert code == 2
    assert "outside its folder" in text
