"""What an env is trained with when no agent is named: the words of its `best`, and the user's over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from medley.config.load import load_config, read_choice
from medley.training.folder_name import config_name

ENV = """
name: mine
builder: point
setup: point
best:
  cuda: [agent=brc, env.slots_per_task=8]
  cpu: [agent=film, agent.n_step=2, env.slots_per_task=3]
"""


@pytest.fixture
def mine(tmp_path: Path) -> list[Path]:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "mine.yaml").write_text(ENV)
    return [tmp_path]


def test_by_device(mine: list[Path]) -> None:
    on_cpu = load_config(["env=mine", "setup.device=cpu"], mine)
    assert (on_cpu.agent.name, on_cpu.agent.n_step, on_cpu.env.slots_per_task) == ("film", 2, 3)
    assert on_cpu.setup.setup == "point"
    on_gpu = load_config(["setup.device=cuda:1", "env=mine"], mine)
    assert (on_gpu.agent.name, on_gpu.agent.n_step, on_gpu.env.slots_per_task) == ("brc", 1, 8)


def test_a_device_without_words_of_its_own(mine: list[Path]) -> None:
    (mine[0] / "env" / "mine.yaml").write_text(ENV[: ENV.index("  cpu:")])
    assert load_config(["env=mine", "setup.device=cpu"], mine).agent.name == "state_sac"
    assert load_config(["env=mine", "setup.device=cuda"], mine).agent.name == "brc"


def test_what_is_asked_for_comes_last(mine: list[Path]) -> None:
    changed = load_config(["env=mine", "setup.device=cpu", "agent.n_step=4", "env.slots_per_task=1"], mine)
    assert (changed.agent.name, changed.agent.n_step, changed.env.slots_per_task) == ("film", 4, 1)


def test_an_agent_that_is_named_brings_nothing_along(mine: list[Path]) -> None:
    named = load_config(["env=mine", "setup.device=cpu", "agent=film"], mine)
    assert (named.agent.name, named.agent.n_step, named.env.slots_per_task) == ("film", 1, 1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("env", ["metaworld-mt10", "metaworld-mt50", "metaworld-quick"])
def test_run_folders(env: str, device: str) -> None:
    words = [f"env={env}", f"setup.device={device}"]
    best = load_config(words)
    assert f"agent={best.agent.name}" in read_choice("env", env)["best"][device]
    assert config_name(best) == best.agent.name
    assert config_name(load_config([*words, "agent.discount=0.9"])) == f"{best.agent.name}_discount-0.9"
    plain = load_config([*words, f"agent={best.agent.name}"])
    assert config_name(plain) != best.agent.name or plain.env == best.env
    assert config_name(load_config([*words, "agent=state_sac"])) == "state_sac"
