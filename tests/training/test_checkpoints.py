"""Which checkpoints stay, and how a run keeps its arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medley.cli import main
from medley.config.load import load_config
from medley.errors import MedleyError
from medley.training.checkpoints import Checkpoints
from medley.training.experiment import Experiment
from medley.training.start import train
from tests.faults import harness


def test_the_last_n_stay_and_long_term_agents_for_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment.save.model.retain_last_n=3", "experiment.save.model.long_term_freq=100"]
    assert main(harness.train_words(tmp_path / "run", "experiment.num_train_steps=240", *words)) == 0
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) == [160, 200, 240]
    # the first checkpoint in every hundred steps: 0, then 120, then 200
    assert {p.name for p in folder.glob("long_term_*")} == {"long_term_0", "long_term_120", "long_term_200"}
    for place in folder.glob("long_term_*"):
        assert sorted(p.name for p in place.iterdir()) == ["agent.safetensors", "counters.json", "manifest.json"]
    assert main(["evaluate", str(tmp_path / "run"), "--checkpoint", "120", "experiment.num_eval_episodes=1"]) == 0
    evaluation = json.loads((tmp_path / "run" / "evaluation_episodes_120.json").read_text())
    assert (evaluation["step"], evaluation["env_step"], evaluation["frames"]) == (120, 120, 360)
    # What an earlier version did not count is left out.
    counters = json.loads((folder / "200" / "counters.json").read_text())
    del counters["env_step"]
    (folder / "200" / "counters.json").write_text(json.dumps(counters))
    assert main(["evaluate", str(tmp_path / "run"), "--checkpoint", "200", "experiment.num_eval_episodes=1"]) == 0
    evaluation = json.loads((tmp_path / "run" / "evaluation_episodes_200.json").read_text())
    assert (evaluation["frames"], "env_step" in evaluation) == (600, False)
    # One that is asked for by its step is checked like the newest.
    for step, name in (("160", "160"), ("120", "long_term_120")):
        path = folder / name / "agent.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 0xFF
        path.unlink()  # a long-term agent is the same file as that of its checkpoint
        path.write_bytes(bytes(data))
        capsys.readouterr()
        assert main(["evaluate", str(tmp_path / "run"), "--checkpoint", step]) == 2
        assert "its checksum does not fit" in capsys.readouterr().err


def test_segments_follow_the_kept_checkpoints(tmp_path: Path) -> None:
    assert main(harness.train_words(tmp_path / "run")) == 0
    folder = tmp_path / "run"
    named = {
        segment["file"]
        for manifest in (folder / "checkpoints").glob("*/replay.json")
        for segment in json.loads(manifest.read_text())["segments"]
    }
    assert {p.name for p in (folder / "buffer").iterdir()} == named


def test_what_a_network_disk_keeps_for_a_reader_ends_no_run(tmp_path: Path) -> None:
    """A file that is deleted while somebody reads it leaves one by another name there, and its folder stays."""
    assert main(harness.train_words(tmp_path / "run", "experiment.num_train_steps=80")) == 0
    kept = Checkpoints(tmp_path / "run", keep=1)
    (kept.folder / ".80.old").mkdir()
    (kept.folder / ".80.old" / ".nfs0001").touch()
    snapshot = kept.load(kept.folder / "80", None)
    for step in (120, 160):
        kept.save(step, snapshot, None)
        kept.settle()
        assert [path.name for path in kept.folder.iterdir() if not path.name.startswith("long")] == [str(step)]


def test_a_save_that_fails_says_which_checkpoint_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(harness.train_words(tmp_path / "run", "experiment.num_train_steps=80")[1:])
    run, _ = train(config)
    x = Experiment(config, run, console=False)
    x.begin()

    def full(*args: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("medley.training.checkpoints.seal", full)
    with pytest.raises(MedleyError, match=r"step 80 could not be saved \(no space\); the checkpoint of step 80 still"):
        x.save()
    assert Checkpoints(run.path, 1).latest(print) == run.path / "checkpoints" / "80"
    x.close()


def test_a_resumed_run_keeps_its_number_of_threads(tmp_path: Path) -> None:
    """Another number of threads would round matrix products differently."""
    import torch

    words = [*harness.train_words(tmp_path / "run", "experiment.num_train_steps=40"), "setup.threads=null"]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert main(words) == 0
        torch.set_num_threads(2)  # as on a machine with more cores
        assert main(["resume", str(tmp_path / "run"), "experiment.num_train_steps=60"]) == 0
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["threads"] == 1
