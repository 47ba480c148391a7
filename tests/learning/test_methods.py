"""Every trunk, combiner and algorithm solves `point`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.test_point import SOLVED, learn

TRUNKS = {
    "care": [],
    "care by words": ["agent.care.mode=ensemble"],
    "film": [],
    "soft_modules": ["agent.soft_modules.width=32", "agent.soft_modules.gating_dim=32"],
    "t3s": ["agent.t3s.width=64", "agent.t3s.mask_dim=32"],
    "paco": ["agent.optimizers.alpha.lr=3e-3"],
    "moore": ["agent.optimizers.alpha.lr=3e-3"],
}
COMBINERS = ["pcgrad", "cagrad", "nash", "gradnorm", "famo"]


@pytest.mark.long
@pytest.mark.parametrize("gradients", COMBINERS)
def test_combiners_solve_point(tmp_path: Path, gradients: str) -> None:
    assert learn(tmp_path, "agent.trunk=multi_head", f"agent.gradients={gradients}") >= SOLVED


@pytest.mark.long
@pytest.mark.parametrize("trunk", TRUNKS)
def test_trunks_solve_point(tmp_path: Path, trunk: str) -> None:
    agent = trunk.split()[0]
    steps = 4000 if agent == "paco" else 2500  # tasks start with nearly the same network, and come apart slowly
    assert learn(tmp_path, f"agent={agent}", *TRUNKS[trunk], steps=steps) >= SOLVED


@pytest.mark.long
def test_temperature_weights_solve_point(tmp_path: Path) -> None:
    words = ["agent.trunk=multi_head", "agent.alpha_per_task=true", "agent.task_weights=temperature"]
    assert learn(tmp_path, *words) >= SOLVED


@pytest.mark.long
def test_distral_solves_point(tmp_path: Path) -> None:
    assert learn(tmp_path, "agent=distral", "agent.distral.alpha=0.05", steps=4000) >= SOLVED


@pytest.mark.long
@pytest.mark.parametrize("agent", ["state_deepmdp", "pcgrad_state_deepmdp", "gradnorm_state_deepmdp"])
def test_deepmdp_solves_point(tmp_path: Path, agent: str) -> None:
    assert learn(tmp_path, f"agent={agent}", "agent.trunk=multi_head", "agent.model_dim=64") >= SOLVED


def test_a_schedule_by_success_solves_point(tmp_path: Path) -> None:
    words = ["experiment.scheduler.kind=success", "experiment.scheduler.tasks=1", "agent.alpha_per_task=true"]
    assert learn(tmp_path, "agent.trunk=multi_head", *words) >= SOLVED


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
