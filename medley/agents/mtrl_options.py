"""mtrl's names for what medley calls trunk, task input and temperature per task, and their translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medley.config.options import opt
from medley.errors import ConfigError, closest

if TYPE_CHECKING:
    from medley.agents.sac_options import SACConfig

ENCODERS = ("identity", "feedforward", "film", "moe")


@dataclass
class PretrainedConfig:
    should_use: bool = opt(False, "true: encode the vectors of `path_to_load_from`, not learned ones")
    path_to_load_from: str | None = opt(None, "same as agent.task_vectors")


@dataclass
class TaskEncoderModelConfig:
    pretrained_embedding_cfg: PretrainedConfig = opt(PretrainedConfig(), "")


@dataclass
class TaskEncoderConfig:
    embedding_dim: int = opt(50, "numbers in a task's embedding")
    hidden_dim: int = opt(50, "units per hidden layer of the task encoder")
    num_layers: int = opt(2, "hidden layers of the task encoder")
    output_dim: int = opt(50, "numbers the networks get per task")
    model_cfg: TaskEncoderModelConfig = opt(TaskEncoderModelConfig(), "")


@dataclass
class SoftModularizationConfig:
    should_use: bool = opt(False, "true: same as agent.trunk=soft_modules")
    mode: str = opt("soft_modularization", "the only mode there is")
    num_experts: int | None = opt(None, "same as agent.soft_modules.modules, if `should_use`")


@dataclass
class ConditioningConfig:
    should_condition_model_on_task_info: bool | None = opt(None, "accepted: the trunk decides")
    should_condition_encoder_on_task_info: bool | None = opt(None, "accepted: the trunk decides")
    should_concatenate_task_info_with_encoder: bool | None = opt(None, "accepted: the trunk decides")
    moe_cfg: SoftModularizationConfig = opt(SoftModularizationConfig(), "")


@dataclass
class MultitaskConfig:
    """null leaves things as they are."""

    num_envs: int | None = opt(None, "number of tasks; must agree with the env")
    should_use_disentangled_alpha: bool | None = opt(None, "same as agent.alpha_per_task")
    should_use_task_encoder: bool | None = opt(None, "true: same as agent.task_input=encoder")
    should_use_multi_head_policy: bool | None = opt(None, "true: same as agent.trunk=multi_head")
    should_use_disjoint_policy: bool | None = opt(None, "true, with multi-head: same as agent.trunk=disjoint")
    task_encoder_cfg: TaskEncoderConfig = opt(TaskEncoderConfig(), "")
    actor_cfg: ConditioningConfig = opt(ConditioningConfig(), "")


@dataclass
class ModeConfig:
    mode: str | None = opt(None, "same as agent.care.mode, with type_to_select=moe")


@dataclass
class MixtureOfEncodersConfig:
    num_experts: int | None = opt(None, "same as agent.care.experts, with type_to_select=moe")
    task_id_to_encoder_id_cfg: ModeConfig = opt(ModeConfig(), "")


@dataclass
class EncoderConfig:
    type_to_select: str | None = opt(
        None, "identity, feedforward: the trunk as it is | film: agent.trunk=film | moe: agent.trunk=care"
    )
    moe: MixtureOfEncodersConfig = opt(MixtureOfEncodersConfig(), "")


def translate(options: SACConfig, tasks: int) -> None:
    """Write into medley's own options what mtrl's say."""
    flags, encoder = options.multitask, options.encoder
    if flags.num_envs is not None and flags.num_envs != tasks:
        raise ConfigError(f"agent.multitask.num_envs={flags.num_envs}, but the env has {tasks} tasks: leave it out.")
    if flags.should_use_disjoint_policy and flags.should_use_multi_head_policy is False:
        raise ConfigError("agent.multitask.should_use_disjoint_policy needs should_use_multi_head_policy=True.")
    if encoder.type_to_select not in (None, *ENCODERS):
        near = closest(str(encoder.type_to_select), ENCODERS)
        raise ConfigError(f"agent.encoder.type_to_select={encoder.type_to_select!r} does not exist.{near}")
    if flags.should_use_disentangled_alpha is not None:
        options.alpha_per_task = flags.should_use_disentangled_alpha
    if flags.should_use_task_encoder:
        if options.task_input not in ("auto", "encoder"):
            raise ConfigError(
                f"agent.task_input={options.task_input} and agent.multitask.should_use_task_encoder=True ask for "
                "different labels of tasks: leave one out."
            )
        options.task_input = "encoder"
    moe = encoder.moe
    mode = moe.task_id_to_encoder_id_cfg.mode
    if encoder.type_to_select == "moe":
        if mode is not None:
            options.care.mode = mode
        if moe.num_experts is not None:
            options.care.experts = moe.num_experts
    elif moe.num_experts is not None:
        raise ConfigError("agent.encoder.moe.num_experts needs agent.encoder.type_to_select=moe.")
    experts = flags.actor_cfg.moe_cfg
    if experts.should_use and experts.num_experts is not None:
        options.soft_modules.modules = experts.num_experts
    if experts.mode != (known := SoftModularizationConfig().mode):
        raise ConfigError(f"agent.multitask.actor_cfg.moe_cfg.mode={experts.mode!r} does not exist: it is {known}.")
    options.trunk = _trunk(options)
    pretrained = flags.task_encoder_cfg.model_cfg.pretrained_embedding_cfg
    if pretrained.should_use:
        if pretrained.path_to_load_from is None:
            raise ConfigError(
                "agent.multitask.task_encoder_cfg.model_cfg.pretrained_embedding_cfg.should_use=true needs "
                "path_to_load_from: a JSON file {task: [numbers]}."
            )
        options.task_vectors = pretrained.path_to_load_from


def _trunk(options: SACConfig) -> str:
    """The one that all words agree on. mtrl puts some of these networks behind one another; here a trunk is one thing,
    and none is left out without a word."""
    flags, encoder = options.multitask, options.encoder.type_to_select
    heads = bool(flags.should_use_multi_head_policy) and not flags.should_use_disjoint_policy
    asked = {
        f"agent.trunk={options.trunk}": options.trunk,
        "agent.multitask.should_use_disjoint_policy=True": "disjoint" if flags.should_use_disjoint_policy else None,
        "agent.multitask.should_use_multi_head_policy=True": "multi_head" if heads else None,
        "agent.multitask.actor_cfg.moe_cfg.should_use=True": (
            "soft_modules" if flags.actor_cfg.moe_cfg.should_use else None
        ),
        f"agent.encoder.type_to_select={encoder}": {"film": "film", "moe": "care"}.get(str(encoder)),
    }
    if options.trunk == "shared" or (options.trunk == "multi_head" and flags.should_use_disjoint_policy):
        del asked[f"agent.trunk={options.trunk}"]  # the default, or what disjoint networks are a kind of
    wanted = {word: trunk for word, trunk in asked.items() if trunk is not None}
    if len(set(wanted.values())) > 1:
        raise ConfigError(
            f"{' and '.join(wanted)} ask for different networks ({', '.join(dict.fromkeys(wanted.values()))}): "
            "an agent has one trunk."
        )
    return next(iter(wanted.values()), options.trunk)
