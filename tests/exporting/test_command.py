"""`medley export`, from a trained run to actions in the env."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import medley
from medley.cli import main
from medley.exporting import onnx_file
from medley.training.acting import OwnPolicy
from medley.training.build import build_evaluator
from medley.training.evaluate import evaluate
from medley.training.run import Run
from tests.exporting.conftest import ROOT, train
from tests.exporting.policies import run, session_of

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


class Recorded:
    """Somebody who acts, and what was done."""

    def __init__(self, act: Any) -> None:
        self.act, self.actions = act, []  # type: ignore[var-annotated]

    def __call__(self, obs: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        self.actions.append(self.act(obs, noise))
        return self.actions[-1]  # type: ignore[no-any-return]


def test_acts_in_the_env_as_an_evaluation_does(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(place)]) == 0
    said = capsys.readouterr().out
    assert "observation [batch, 4] float32, task [batch] int64 -> action [batch, 2]" in said
    session = session_of(place / "policy.onnx")

    def act(obs: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        tasks, rows, _ = obs.shape
        numbers = torch.arange(tasks).repeat_interleave(rows)
        return torch.from_numpy(run(session, obs.flatten(0, 1), numbers)).view(tasks, rows, -1)

    config, policy = Run(place).config(), medley.load(place)
    by_file, by_agent = Recorded(act), Recorded(OwnPolicy(policy.agent, policy.device))
    scores, own = (build_evaluator(config).run(2, recorded) for recorded in (by_file, by_agent))
    gaps = [float((a - b).abs().max()) for a, b in zip(by_file.actions, by_agent.actions, strict=True)]
    assert len(gaps) >= 20
    assert max(gaps) < 1e-5
    assert max(float(a.abs().max()) for a in by_agent.actions) > 0.1
    _, evaluated = evaluate(place)
    for one, two, three in zip(scores, own, evaluated["episodes"], strict=True):
        assert (one.task, one.success, one.length) == (two.task, two.success, two.length)
        assert one.reward == pytest.approx(three["return"], abs=1e-4)


def test_the_file_says_what_it_is(place: Path) -> None:
    done = medley.export(place)
    about = session_of(done.path).get_modelmeta().custom_metadata_map
    assert json.loads(about["tasks"]) == ["east", "north", "west"]
    assert (about["agent"], about["env"], about["step"]) == ("state_sac", "point", "900")
    assert about["medley"] == medley.__version__
    assert json.loads(about["action_high"]) == [[1.0, 1.0]] * 3


def test_any_checkpoint_and_place(place: Path, tmp_path: Path) -> None:
    assert main(["export", str(place), "--checkpoint", "450"]) == 0
    assert main(["export", str(place), "--out", str(tmp_path / "last.onnx")]) == 0
    early, last = session_of(place / "policy_450.onnx"), session_of(tmp_path / "last.onnx")
    assert early.get_modelmeta().custom_metadata_map["step"] == "450"
    obs, task = torch.randn(4, 4), torch.tensor([0, 1, 2, 0])
    assert np.abs(run(early, obs, task) - run(last, obs, task)).max() > 1e-4


def test_actions_are_those_that_a_plain_env_takes(tmp_path: Path) -> None:
    """Pendulum's are in [-2, 2], and a single task has no number."""
    words = ["env=gym", "env.ids=[Pendulum-v1]", "experiment.num_train_steps=80", "replay_buffer.batch_size=16"]
    folder = train(tmp_path, *words)
    session, policy = session_of(medley.export(folder).path), medley.load(folder)
    env = gymnasium.make("Pendulum-v1")
    obs, _ = env.reset(seed=3)
    largest = 0.0
    for _ in range(50):
        (action,) = run(session, torch.from_numpy(obs)[None])
        assert action == pytest.approx(2 * policy.act(obs), abs=1e-5)
        obs = env.step(action)[0]
        largest = max(largest, float(np.abs(action).max()))
    assert largest > 0.01


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{folder}"], "is not a run folder"),
        (["{run}", "--checkpoint", "7"], "has no checkpoint 7; there are 450, 900"),
        (["{run}", "--out", "{folder}"], "is a folder: name a file in it"),
        (["{run}", "--out", "{run}/config.yaml/x.onnx"], "cannot be written: Not a directory"),
        (["{run}", "--out", "{folder}/no/x.onnx"], "cannot be written: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said(
    place: Path, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [word.format(folder=tmp_path, run=place) for word in words]
    assert main(["export", *filled]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_packages(
    place: Path, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["export", str(place)]) == 2
    assert "pip install 'medley[export]'" in capsys.readouterr().err


def test_nothing_is_left_half_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "policy.onnx").write_text("the one before")

    def full(self: Path, content: bytes) -> None:
        with self.open("wb") as f:
            f.write(content[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert main(["export", str(place)]) == 2
    assert "cannot be written: No space left on device" in capsys.readouterr().err
    assert (place / "policy.onnx").read_text() == "the one before"
    assert not list(place.glob(".policy*"))


def test_a_file_that_acts_otherwise_is_not_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scaled = onnx_file.PolicyNetwork.forward
    monkeypatch.setattr(onnx_file.PolicyNetwork, "forward", lambda *a: 0.9 * scaled(*a))
    assert main(["export", str(place)]) == 2
    assert "state_sac cannot be exported: the file would act otherwise, by up to" in capsys.readouterr().err
    assert not (place / "policy.onnx").exists()


def test_the_example_acts_without_torch(place: Path) -> None:
    medley.export(place)
    command = [sys.executable, str(ROOT / "examples/act_with_onnx.py"), str(place / "policy.onnx")]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT)}, cwd=place, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("state_sac on point, step 900")
    assert done.stdout.splitlines()[-1].startswith("west: ")
