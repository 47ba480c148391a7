"""The options of SAC, and which combinations of them make sense."""

from __future__ import annotations

import math
from dataclasses import dataclass

from medley.agents.api import AgentConfig, Spaces
from medley.agents.mtrl_options import EncoderConfig, MultitaskConfig, translate
from medley.agents.task_label import task_input_kind
from medley.config.options import opt
from medley.errors import ConfigError, closest
from medley.gradients.combiners import combiner_names
from medley.gradients.gram import CAGradConfig, NashConfig
from medley.gradients.weighting import FAMOConfig, GradNormConfig
from medley.nn.film import FiLMConfig
from medley.nn.mixture import MODES, CareConfig
from medley.nn.moore import MooreConfig
from medley.nn.optimizer import OptimizerConfig
from medley.nn.paco import PaCoConfig
from medley.nn.soft_modules import SoftModulesConfig
from medley.nn.t3s import T3SConfig
from medley.nn.trunks import mixes_rows, task_inputs, trunk_names


@dataclass
class ActorConfig:
    num_layers: int = opt(3, "hidden layers")
    hidden_dim: int = opt(400, "units per hidden layer")
    log_std_bounds: list[float] = opt([-20.0, 2.0], "range of the policy's log standard deviation")
    log_std_bounding: str = opt("clamp", "how the range is enforced: clamp | tanh (starts with far less noise)")


@dataclass
class CriticConfig:
    num_layers: int = opt(3, "hidden layers")
    hidden_dim: int = opt(400, "units per hidden layer")


@dataclass
class OptimizersConfig:
    actor: OptimizerConfig = opt(OptimizerConfig(), "")
    critic: OptimizerConfig = opt(OptimizerConfig(), "")
    alpha: OptimizerConfig = opt(OptimizerConfig(), "")
    task_encoder: OptimizerConfig = opt(OptimizerConfig(), "")
    common: OptimizerConfig = opt(OptimizerConfig(), "")  # of parameters that actor and critic have in common


@dataclass
class SACConfig(AgentConfig):
    trunk: str = opt(
        "shared",
        "how networks divide between tasks: shared | multi_head | disjoint | care | film | soft_modules | t3s | paco | "
        "moore, or residual blocks that all tasks share: bronet | simba_v2 | flashsac (docs/methods.md)",
    )
    task_input: str = opt(
        "auto",
        "how networks are told the task: one_hot | encoder (learned, or made from `task_vectors`) | embedding (a "
        "learned vector of length one) | none; auto: what suits the trunk",
    )
    embedding_dim: int = opt(32, "task_input=embedding: numbers per task")
    task_vectors: str | None = opt(
        None, "task_input=encoder: JSON file {task: [numbers]} with vectors, of descriptions say; null: learned"
    )
    task_weights: str = opt("none", "weight of a task in both losses: none | temperature (more the lower its alpha)")
    alpha_per_task: bool = opt(False, "a temperature of its own for every task")
    gradients: str = opt("mean", "how per-task gradients are combined: mean | pcgrad | cagrad | nash | gradnorm | famo")
    init_temperature: float = opt(1.0, "alpha at the start")
    learn_temperature: bool = opt(True, "adapt alpha towards the target entropy")
    log_alpha_bounds: list[float] | None = opt(None, "log alpha is kept between these two; null: it is free")
    target_entropy: float | None = opt(None, "target entropy; null: target_entropy_per_dim for every action dimension")
    critic_tau: float = opt(0.005, "share of the critic that flows into its target per target update")
    actor_update_freq: int = opt(1, "actor and temperature are updated every n-th update")
    critic_target_update_freq: int = opt(1, "targets follow every n-th update")
    max_value: float | None = opt(
        None,
        "targets of the critics lie between minus and plus this; 0: anywhere; null: what the largest reward of the env "
        "allows, where that is known (Meta-World: 10 / (1 - discount)) and the temperature is learned",
    )
    grad_clip: float | None = opt(1.0, "largest gradient norm per network; null: no clipping")
    actor: ActorConfig = opt(ActorConfig(), "")
    critic: CriticConfig = opt(CriticConfig(), "")
    optimizers: OptimizersConfig = opt(OptimizersConfig(), "")
    multitask: MultitaskConfig = opt(MultitaskConfig(), "")
    encoder: EncoderConfig = opt(EncoderConfig(), "")
    cagrad: CAGradConfig = opt(CAGradConfig(), "")
    nash: NashConfig = opt(NashConfig(), "")
    gradnorm: GradNormConfig = opt(GradNormConfig(), "")
    famo: FAMOConfig = opt(FAMOConfig(), "")
    care: CareConfig = opt(CareConfig(), "")
    film: FiLMConfig = opt(FiLMConfig(), "")
    soft_modules: SoftModulesConfig = opt(SoftModulesConfig(), "")
    t3s: T3SConfig = opt(T3SConfig(), "")
    paco: PaCoConfig = opt(PaCoConfig(), "")
    moore: MooreConfig = opt(MooreConfig(), "")
    target_entropy_per_dim: float = opt(-1.0, "target entropy per action dimension, where target_entropy is null")
    normalize_obs: bool = opt(False, "networks see observations less their running mean, over their running deviation")


def max_value(options: SACConfig, spaces: Spaces) -> float:
    """No policy earns more than the largest reward in every step. Entropy adds to that: little once a learned alpha has
    become small, but a given one stays what it is."""
    if options.max_value is not None:
        return options.max_value or math.inf
    if spaces.max_reward is None or options.discount == 1 or options.reward_normalization != "none":
        return math.inf
    if not options.learn_temperature:
        return math.inf
    return spaces.max_reward * abs(options.reward_scale) / (1 - options.discount) or math.inf


def check(options: SACConfig, tasks: int) -> None:
    """Translate mtrl's flags into medley's words and refuse what does not fit together."""
    translate(options, tasks)
    flags = options.multitask
    for key, value, known in (
        ("trunk", options.trunk, trunk_names()),
        ("task_input", options.task_input, ["auto", "one_hot", "encoder", "embedding", "none"]),
        ("task_weights", options.task_weights, ["none", "temperature"]),
        ("care.mode", options.care.mode, list(MODES)),
        ("gradients", options.gradients, combiner_names()),
        ("actor.log_std_bounding", options.actor.log_std_bounding, ["clamp", "tanh"]),
    ):
        if value not in known:
            raise ConfigError(f"agent.{key}={value!r} does not exist.{closest(value, known)}")
    kind = task_input_kind(options)
    if kind not in (fit := task_inputs(options.trunk)):
        raise ConfigError(
            f"agent.task_input={kind} does not go with agent.trunk={options.trunk}: it needs {' or '.join(fit)}."
        )
    if mixes_rows(options.trunk) and options.gradients not in ("mean", "famo"):
        raise ConfigError(
            f"agent.gradients={options.gradients} needs the gradient of every task by itself, and the batch norm of "
            f"agent.trunk={options.trunk} mixes the tasks of a batch: use mean or famo, or another trunk."
        )
    if options.trunk == "must" and not hasattr(options, "must"):
        raise ConfigError("agent.trunk=must needs somebody to make masks: agent=must.")
    if options.task_vectors is not None and kind != "encoder":
        raise ConfigError("agent.task_vectors needs agent.task_input=encoder.")
    if options.task_weights == "temperature" and not options.alpha_per_task:
        raise ConfigError("agent.task_weights=temperature needs agent.alpha_per_task=true.")
    low_high = options.actor.log_std_bounds
    if len(low_high) != 2 or low_high[0] >= low_high[1]:
        raise ConfigError(f"agent.actor.log_std_bounds={low_high} must be two numbers, the smaller one first.")
    bounds = options.log_alpha_bounds
    if bounds is not None and (len(bounds) != 2 or bounds[0] >= bounds[1]):
        raise ConfigError(f"agent.log_alpha_bounds={bounds} must be two numbers, the smaller one first.")
    for key, number in (
        ("actor_update_freq", options.actor_update_freq),
        ("critic_target_update_freq", options.critic_target_update_freq),
        ("embedding_dim", options.embedding_dim),
        ("cagrad.steps", options.cagrad.steps),
        ("nash.steps", options.nash.steps),
        ("actor.num_layers", options.actor.num_layers),
        ("actor.hidden_dim", options.actor.hidden_dim),
        ("critic.num_layers", options.critic.num_layers),
        ("critic.hidden_dim", options.critic.hidden_dim),
        ("multitask.task_encoder_cfg.embedding_dim", flags.task_encoder_cfg.embedding_dim),
        ("multitask.task_encoder_cfg.hidden_dim", flags.task_encoder_cfg.hidden_dim),
        ("multitask.task_encoder_cfg.output_dim", flags.task_encoder_cfg.output_dim),
    ):
        if number < 1:
            raise ConfigError(f"agent.{key}={number} must be at least 1.")
    for key, rate in (
        ("cagrad.lr", options.cagrad.lr),
        ("cagrad.momentum", options.cagrad.momentum),
        ("gradnorm.lr", options.gradnorm.lr),
        ("famo.lr", options.famo.lr),
        ("famo.decay", options.famo.decay),
    ):
        if rate is not None and rate < 0:
            raise ConfigError(f"agent.{key}={rate} must be at least 0.")
    for key, optimizer in vars(options.optimizers).items():
        if not 0 <= optimizer.lr < math.inf:
            raise ConfigError(f"agent.optimizers.{key}.lr={optimizer.lr} must be a number of at least 0.")
        if not (0 <= optimizer.beta1 < 1 and 0 <= optimizer.beta2 < 1 and optimizer.eps > 0):
            raise ConfigError(f"agent.optimizers.{key}: beta1 and beta2 must lie in [0, 1), eps above 0.")
        if not 0 <= optimizer.weight_decay < math.inf or (optimizer.lr_end is not None and optimizer.lr_end < 0):
            raise ConfigError(f"agent.optimizers.{key}: weight_decay and lr_end must not be negative.")
    if options.grad_clip is not None and not options.grad_clip > 0:
        raise ConfigError(f"agent.grad_clip={options.grad_clip} must be positive; null turns clipping off.")
    if options.max_value is not None and not 0 <= options.max_value < math.inf:
        raise ConfigError(f"agent.max_value={options.max_value} must be a number of at least 0; 0 bounds nothing.")
    if not 0 < options.init_temperature < math.inf:
        raise ConfigError(f"agent.init_temperature={options.init_temperature} must be positive.")
    if not 0 < options.critic_tau <= 1:
        raise ConfigError(f"agent.critic_tau={options.critic_tau} must lie in (0, 1].")
