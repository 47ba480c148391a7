"""`medley export --format safetensors`: a policy by itself scores as the run does, and nothing learns from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import medley
from medley.cli import main
from medley.files import read_json
from medley.scale.status import standings
from medley.training.policy_file import load_policy
from medley.training.run import POLICY
from tests.exporting.policies import TASKS, every_agent, make_agent, observations


def test_scores_as_the_run_does(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "given"
    assert main(["export", str(place), "--format", "safetensors", "--out", str(out)]) == 0
    assert f"medley evaluate {out}" in capsys.readouterr().out
    assert sorted(p.name for p in out.iterdir()) == ["config.yaml", POLICY]
    assert not any("critic" in name or "optimizer" in name for name in load_file(out / POLICY))
    assert str(tmp_path) not in (out / "config.yaml").read_text()
    scored = []
    for folder in (place, out):
        assert main(["evaluate", str(folder)]) == 0
        scored.append(read_json(folder / "evaluation_episodes_900.json"))
    counters = {"env_step", "frames", "updates", "episode"}  # a policy knows its step and no more
    assert scored[0].keys() - scored[1].keys() == counters
    assert {key: value for key, value in scored[0].items() if key not in counters} == scored[1]
    assert len(scored[0]["episodes"]) == 6
    obs = torch.randn(5, 4).numpy()
    assert (medley.load(out).act(obs, "west") == medley.load(place).act(obs, "west")).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_what_a_gpu_trained_acts_without_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(place)]) == 0
    here = read_json(place / "evaluation_episodes_900.json")
    config = place / "config.yaml"
    config.write_text(config.read_text().replace("device: cpu", "device: cuda"))
    (place / "evaluation_episodes_900.json").unlink()
    assert main(["evaluate", str(place), "setup.device=cuda"]) == 2
    assert "no such GPU" in capsys.readouterr().err
    assert main(["evaluate", str(place)]) == 0
    assert read_json(place / "evaluation_episodes_900.json") == here
    assert medley.load(place).device.type == "cpu"


def test_any_checkpoint(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = place / "config.yaml"
    config.write_text(config.read_text().replace("threads: null", "threads: 1", 1))
    assert main(["export", str(place), "--format", "safetensors", "--checkpoint", "450"]) == 0
    assert "threads: 1" not in (place / "policy" / "config.yaml").read_text(), "others have other cores"
    assert main(["evaluate", str(place / "policy"), "--video"]) == 0
    assert (place / "policy" / "evaluation_episodes_450.json").is_file()
    films = sorted((place / "policy" / "video").glob("450_*.mp4"))
    assert len(films) == len(medley.load(place).tasks) > 1
    assert all(film.stat().st_size > 1000 for film in films)
    assert f"Filmed: {place / 'policy' / 'video'}" in capsys.readouterr().out
    assert medley.load(place, checkpoint=450).step == 450
    assert main(["evaluate", str(place / "policy"), "--checkpoint", "900"]) == 2
    assert "has no checkpoint 900; its policy is of step 450" in capsys.readouterr().err
    assert [row.folder for row in standings([place])] == [place], "a policy is not a run"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resume", "{policy}"], "nothing to go on learning from"),
        (["train", "env=point", "setup.save_dir={policy}"], "nothing to go on learning from"),
        (["train", "env=point", "--init-from", "{policy}", "setup.save_dir={new}"], "nothing to go on learning from"),
        (["export", "{run}", "--format", "safetensors"], "exists: name a new folder"),
        (["export", "{run}", "--format", "safetensors", "--out", "{run}/config.yaml/x"], "cannot be written"),
    ],
)
def test_what_is_wrong_is_said(
    place: Path, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(place), "--format", "safetensors"]) == 0
    before = sorted((place / "policy").iterdir())
    filled = [w.format(run=place, policy=place / "policy", new=tmp_path / "new") for w in words]
    assert main(filled) == 2
    assert message in capsys.readouterr().err
    assert sorted((place / "policy").iterdir()) == before


def test_damaged(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(place), "--format", "safetensors"]) == 0
    path = place / "policy" / POLICY
    path.write_bytes(path.read_bytes()[:-10])
    assert main(["evaluate", str(place / "policy")]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("name", every_agent())
def test_what_acting_needs(name: str, tmp_path: Path) -> None:
    """Of every agent: what it names is enough to act as it does, and more is not named than half of it all."""
    agent, other = make_agent(name, seed=1), make_agent(name, seed=2)
    state = agent.state_dict()
    named = {k: state[k].contiguous() for k in agent.policy_names()}
    save_file(named, tmp_path / POLICY, {"step": "1"})
    obs = observations(agent, 7)
    every = obs.expand(TASKS, *obs.shape).contiguous()
    assert not torch.equal(agent.act(every, None), other.act(every, None))
    load_policy(other, tmp_path)
    assert torch.equal(agent.act(every, None), other.act(every, None))
    assert sum(v.numel() for v in named.values()) < 0.6 * sum(v.numel() for v in state.values())
