"""SAC learns: every way of dividing a network between tasks solves `point`, and a broken update does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from medley.agents.sac import SAC
from medley.config.load import load_config
from medley.gradients.combiners import Combined, Mean
from medley.gradients.task_loss import TaskLoss
from medley.training.experiment import Experiment
from medley.training.run import Run

SOLVED = 0.95

VARIANTS = {
    "shared": ["agent.trunk=shared"],
    "multi_head": ["agent.trunk=multi_head", "agent.alpha_per_task=true"],
    "disjoint": ["agent.trunk=disjoint", "agent.alpha_per_task=true"],
    "task_encoder": ["agent.multitask.should_use_task_encoder=True"],
}


def learn(folder: Path, *words: str, seed: int = 1, steps: int = 2500) -> float:
    """Mean success over tasks of the last evaluation."""
    config = load_config(
        [
            "env=point",
            f"setup.seed={seed}",
            f"experiment.num_train_steps={steps}",
            "experiment.eval_freq=0",
            "experiment.save_freq=0",
            "experiment.eval_at_start=false",
            "replay_buffer.batch_size=192",
            "setup.threads=1",
            "logger.console=none",
            "logger.use_tb=false",
            *words,
        ]
    )
    run = Run(folder)
    run.create(config)
    experiment = Experiment(config, run)
    assert experiment.train() == "finished"
    return float(experiment.evaluations.made[-1]["success"])


@pytest.mark.parametrize(
    "name", [name if name != "task_encoder" else pytest.param(name, marks=pytest.mark.long) for name in VARIANTS]
)
def test_solves_point(tmp_path: Path, name: str) -> None:
    # A disjoint network learns every task from that task's rows alone, so it needs more of them.
    steps = {"disjoint": 5000, "task_encoder": 4000}.get(name, 2500)
    assert learn(tmp_path, *VARIANTS[name], steps=steps) >= SOLVED


def test_solves_point_with_collecting_beside_learning(tmp_path: Path) -> None:
    words = ["experiment.overlap=true", "experiment.eval_in_background=true", "env.slots_per_task=2"]
    assert learn(tmp_path, *VARIANTS["multi_head"], *words, steps=3000) >= SOLVED


def test_solves_point_with_every_option_on(tmp_path: Path) -> None:
    words = ["agent.n_step=3", "agent.reward_normalization=ema_std", "replay_buffer.sampling=uniform"]
    words += ["env.slots_per_task=2", "experiment.collect_steps=2", "agent.actor_update_freq=2"]
    assert learn(tmp_path, *VARIANTS["multi_head"], *words, steps=4000) >= SOLVED


def test_solves_point_single_task(tmp_path: Path) -> None:
    assert learn(tmp_path, "env.num_tasks=1", "replay_buffer.batch_size=128") >= SOLVED


# ---- mutants: what the tests above are worth


class Flipped(Mean):
    """Climbs the loss (and, not being `Mean` itself, keeps the compiled update away)."""

    def __call__(self, loss: TaskLoss, inputs: Sequence[Tensor], random: Tensor | None = None) -> Combined:
        done = super().__call__(loss, inputs, random)
        return done._replace(gradients={p: -g for p, g in done.gradients.items()})


def flip_actor_sign(self: SAC) -> None:
    self.combine_actor = Flipped(0, None, torch.device("cpu"))


def flip_critic_sign(self: SAC) -> None:
    self.combine_critic = Flipped(0, None, torch.device("cpu"))


def never_update_target(self: SAC) -> None:
    self.update_target = lambda: None  # type: ignore[method-assign]


def alpha_stuck(self: SAC) -> None:
    with torch.no_grad():
        self.log_alpha.fill_(1.0)
    self.update_alpha = lambda log_prob: {}  # type: ignore[method-assign]


def blind_to_the_task(self: SAC) -> None:
    self.task_input.table.zero_()  # type: ignore[union-attr, operator]


MUTANTS = [flip_actor_sign, flip_critic_sign, never_update_target, alpha_stuck, blind_to_the_task]


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_a_broken_update_does_not_solve_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[[SAC], None]
) -> None:
    original = SAC.__init__

    def broken(self: SAC, *args: object) -> None:
        original(self, *args)  # type: ignore[arg-type]
        mutant(self)

    monkeypatch.setattr(SAC, "__init__", broken)
    # What is broken here is Python code; tests/agents/test_native.py ties compiled updates to it.
    assert learn(tmp_path, *VARIANTS["shared"], "experiment.learner=eager") < SOLVED
