"""Vectors of tasks from a file: in the order of the tasks, frozen, saved with the agent; a bad file is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from medley.errors import ConfigError
from medley.nn.task_input import read_vectors
from tests.nn.test_every_trunk import make

VECTORS = {"push-v2": [1.0, 2.0], "reach": [3.0, 4.0], "drawer-close-v3": [5.0, 6.0], "more": [7.0, 8.0]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps(VECTORS))
    return str(file)


def test_rows_follow_the_tasks_whatever_their_versions(path: str) -> None:
    assert read_vectors(path, ["reach-v3", "push", "drawer-close-v1"]).tolist() == [[3, 4], [1, 2], [5, 6]]


def test_vectors_are_encoded_by_two_layers_more_and_stay_as_they_are(path: str) -> None:
    agent = make(3, task_input="encoder", task_vectors=path)  # reach, drawer-close, push
    state = agent.task_input.state_dict()
    assert state["vectors"].tolist() == [[[3, 4], [5, 6], [1, 2]]]
    assert [tuple(state[f"layers.{i}.weight"].shape[1:]) for i in range(5)] == [
        (2, 100),
        (100, 50),
        (50, 50),
        (50, 50),
        (50, 50),
    ]
    z = agent._task()
    assert z is not None
    h = state["vectors"][0, 1]
    for i in range(5):
        h = h.clamp(min=0) @ state[f"layers.{i}.weight"][0] + state[f"layers.{i}.bias"][0, 0]
    assert torch.allclose(z[1], h, atol=1e-5)
    assert all("vectors" not in name for name, _ in agent.task_input.named_parameters())
    assert torch.equal(agent.state_dict()["task.vectors"], state["vectors"])  # a copy travels with the agent


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "one JSON object"),
        ('{"reach": [1, 2]}', "no vector for push"),
        ('{"reach": [1, 2], "push": [1]}', "equally many"),
        ('{"reach": [1, NaN], "push": [1, 2]}', "finite"),
        ('{"reach": ["a"], "push": ["b"]}', "finite"),
        ('{"reach": [], "push": []}', "finite"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "vectors.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=why):
        read_vectors(str(file), ["reach", "push"])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_vectors(str(tmp_path / "none.json"), ["reach"])


def test_vectors_need_the_encoder(path: str) -> None:
    with pytest.raises(ConfigError, match=r"needs agent.task_input=encoder"):
        make(3, task_vectors=path)
