"""Every trunk, combiner and algorithm solves `point`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.test_point import SOLVED, learn

COMBINERS = ["pcgrad", "cagrad", "nash", "gradnorm", "famo"]


@pytest.mark.parametrize("gradients", COMBINERS)
def test_combiners_solve_point(tmp_path: Path, gradients: str) -> None:
    assert learn(tmp_path, "agent.trunk=multi_head", f"agent.gradients={gradients}") >= SOLVED


@pytest.mark.parametrize(
    "agent", ["simba_v2", *(pytest.param(name, marks=pytest.mark.long) for name in ("brc", "flashsac"))]
)
def test_agents_of_residual_blocks_solve_point(tmp_path: Path, agent: str) -> None:
    steps = 1500 if agent == "simba_v2" else 2500
    assert learn(tmp_path, f"agent={agent}", "replay_buffer.batch_size=96", steps=steps) >= SOLVED


@pytest.mark.long
@pytest.mark.parametrize("trunk", ["bronet", "simba_v2", "flashsac"])
def test_plain_sac_with_residual_blocks_solves_point(tmp_path: Path, trunk: str) -> None:
    words = [f"agent.{net}.{size}" for net in ("actor", "critic") for size in ("num_layers=1", "hidden_dim=48")]
    assert learn(tmp_path, f"agent.trunk={trunk}", "replay_buffer.batch_size=96", *words) >= SOLVED


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("agent.reward_normalization=return_range", 2500),
        ("agent.reward_normalization=return_std", 2500),
        ("agent.reward_normalization=ars", 5000),  # three fresh starts, the last with 2000 steps left
        pytest.param("agent.normalize_obs=true", 2500, marks=pytest.mark.long),
        ("agent.noise_hold=16", 2500),
    ],
)
def test_statistics_and_fresh_starts_solve_point(tmp_path: Path, words: str, steps: int) -> None:
    assert learn(tmp_path, *words.split(), steps=steps) >= SOLVED
