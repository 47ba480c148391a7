"""What the tests of SAC+AE's command line have in common."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from medley.config.schema import Config
from medley.training.changes import flatten
from tests.compat.commands import COMPAT, start

FOLDER = COMPAT / "sac_ae"
SEED = [
    *("--domain_name", "cheetah", "--task_name", "run", "--encoder_type", "pixel", "--decoder_type", "pixel"),
    *("--action_repeat", "4", "--save_video", "--save_tb", "--work_dir", "./log", "--seed", "1"),
]
TINY = [
    *("--image_size", "20", "--num_layers", "2", "--num_filters", "4", "--encoder_feature_dim", "6"),
    *("--hidden_dim", "16", "--batch_size", "8", "--replay_buffer_capacity", "500"),
    *("--num_train_steps", "110", "--init_steps", "30", "--eval_freq", "40", "--num_eval_episodes", "1"),
    *("--action_repeat", "20", "env.render_profile=fast", "setup.device=cpu", "setup.threads=1"),
]
# As the seed shows them.
TRAIN = "| train | E: 1 | S: 1000 | D: 0.8 s | R: 0.0000 | BR: 0.0000 | ALOSS: 0.0000 | CLOSS: 0.0000 | RLOSS: 0.0000"
EVAL = "| eval | S: 0 | ER: 21.1676"
TESTBED = [
    *("cartpole swingup", "reacher easy", "cheetah run", "finger spin", "ball_in_cup catch"),
    *("walker walk", "walker stand", "walker run", "hopper stand", "hopper hop"),
]
# Every option with its default, another value, and where medley has it. The bounds of log sigma are one option.
OPTIONS: dict[str, tuple[Any, Any, list[str]]] = {
    "image_size": (84, 64, ["env.image_size"]),
    "action_repeat": (1, 8, ["env.action_repeat"]),
    "frame_stack": (3, 4, ["env.frame_stack"]),
    "replay_buffer_capacity": (1_000_000, 5000, ["replay_buffer.capacity"]),
    "init_steps": (1000, 77, ["experiment.init_steps"]),
    "num_train_steps": (1_000_000, 999, ["experiment.num_train_steps"]),
    "batch_size": (128, 32, ["replay_buffer.batch_size"]),
    "hidden_dim": (1024, 48, ["agent.actor.hidden_dim", "agent.critic.hidden_dim"]),
    "eval_freq": (10_000, 500, ["experiment.eval_freq"]),
    "num_eval_episodes": (10, 3, ["experiment.num_eval_episodes"]),
    "critic_lr": (1e-3, 2e-4, ["agent.optimizers.critic.lr"]),
    "critic_beta": (0.9, 0.8, ["agent.optimizers.critic.beta1"]),
    "critic_tau": (0.01, 0.02, ["agent.critic_tau"]),
    "critic_target_update_freq": (2, 3, ["agent.critic_target_update_freq"]),
    "actor_lr": (1e-3, 3e-4, ["agent.optimizers.actor.lr"]),
    "actor_beta": (0.9, 0.7, ["agent.optimizers.actor.beta1"]),
    "actor_update_freq": (2, 4, ["agent.actor_update_freq"]),
    "encoder_feature_dim": (50, 20, ["agent.pixels.feature_dim"]),
    "encoder_lr": (1e-3, 4e-4, ["agent.optimizers.encoder.lr"]),
    "encoder_tau": (0.05, 0.03, ["agent.pixels.tau"]),
    "decoder_lr": (1e-3, 5e-4, ["agent.optimizers.decoder.lr"]),
    "decoder_update_freq": (1, 5, ["agent.decoder.update_freq"]),
    "decoder_latent_lambda": (1e-6, 2e-6, ["agent.decoder.latent_lambda"]),
    "decoder_weight_lambda": (1e-7, 3e-7, ["agent.decoder.weight_lambda"]),
    "num_layers": (4, 2, ["agent.pixels.num_layers"]),
    "num_filters": (32, 8, ["agent.pixels.num_filters"]),
    "discount": (0.99, 0.9, ["agent.discount"]),
    "init_temperature": (0.1, 0.2, ["agent.init_temperature"]),
    "alpha_lr": (1e-4, 6e-4, ["agent.optimizers.alpha.lr"]),
    "alpha_beta": (0.5, 0.6, ["agent.optimizers.alpha.beta1"]),
    "seed": (1, 42, ["setup.seed"]),
}
OTHERS = ["domain_name", "task_name", "agent", "encoder_type", "decoder_type", "actor_log_std_min", "work_dir"]
OTHERS += ["actor_log_std_max", "save_tb", "save_model", "save_buffer", "save_video"]


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("sac_ae_train", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRAINER = _module()


def words_of(*words: str) -> list[str]:
    made, remarks, print_only = TRAINER.translate([*words, "--print-only"])
    assert print_only
    assert not remarks
    return list(made)


def flat_options(config: Config) -> dict[str, Any]:
    from medley.config.load import to_dict

    return flatten(to_dict(config))


def run_train(*words: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return start([sys.executable, str(FOLDER / "train.py"), *words], folder)
