"""MUST, multi-task SAC with a mask per task: what `t3s_scripts/must/mt10/run_review.sh` starts."""

import math
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from starting import translate_and_train

CONFIG = Path(__file__).resolve().parents[1] / "meta_config" / "must_configs" / "mt10" / "must_mtsac.json"

NUMBERS = {
    "pruning_ratio": "agent.must.pruning_ratio",
    "generator_lr": "agent.must.generator_lr",
}
WHOLE = {
    "generator_mlp_hidden": "agent.must.hidden",
    "latent_size": "agent.must.latent",
    "recent_traj_window": "agent.must.window",
    "sl_optim_times": "agent.must.sl_steps",
}
EPOCHS = {
    "mask_update_interval": "agent.must.update_interval",
    "update_end_epoch": "agent.must.update_end",
}
SWITCHES = {
    "use_sl_loss": "agent.must.supervised",
    "use_trajectory_info": "agent.must.trajectories",
}
TASKS = ("selected_task_amount", "specify_single_task")
# What the project's files and flags have, and its code makes no use of.
UNUSED = (
    "success_traj_update_only",
    "mask_end_update_episode",
    "one_hot_mlp_hidden",
    "one_hot_result_dim",
    "task_embedding.em_hidden_shapes",
    "traj_encoder.hidden_shapes",
)


def translate(words):
    import torchrl_settings
    import torchrl_words

    more = [*NUMBERS, *WHOLE, *EPOCHS, *SWITCHES, *TASKS]
    flags = [*more, *(name for name in UNUSED if "." not in name)]
    arguments = torchrl_settings.parser(__doc__, flags).parse_intermixed_args(words)
    values, remarks = torchrl_settings.settings(arguments, CONFIG, more, UNUSED)
    if any("success_traj_update_only" in remark for remark in remarks):
        remarks.append("agent.must.success_only=true does what the name success_traj_update_only says.")
    tasks, name, made = _tasks(values)
    # The file's batch is MT10's: every task keeps its share.
    values["batch_size"] = torchrl_words.whole("batch_size", values["batch_size"]) * tasks // 10
    made += ["agent=must", "agent.alpha_per_task=true"]
    made += [f"{option}={torchrl_words.text(values[key])}" for key, option in NUMBERS.items()]
    made += [f"{option}={torchrl_words.whole(key, values[key])}" for key, option in WHOLE.items()]
    made += [f"{option}={_iterations(key, values, tasks)}" for key, option in EPOCHS.items()]
    made += [f"{option}={_switch(key, values.get(key, 1))}" for key, option in SWITCHES.items()]
    made += torchrl_words.run_words(arguments, name, CONFIG)
    made += torchrl_words.setting_words(values, tasks)
    return [*made, *arguments.options], remarks, arguments.print_only


def _tasks(values):
    """How many, what they are called together, and the words that choose them: the first so many of MT10."""
    from torchrl_words import whole

    from medley.envs.metaworld.names import benchmark_tasks
    from medley.errors import ConfigError

    mt10 = benchmark_tasks("mt10")
    count = whole("selected_task_amount", values.get("selected_task_amount", len(mt10)))
    single = values.get("specify_single_task")
    if not 1 <= count <= len(mt10):
        raise ConfigError(f"selected_task_amount={count} must lie in 1 to {len(mt10)}.")
    if single is not None and count > 1:
        raise ConfigError(f"specify_single_task={single} needs selected_task_amount=1, not {count}.")
    if count == 1:
        chosen = mt10[0] if single is None else mt10[single] if isinstance(single, int) and single < 10 else single
        return 1, str(chosen), ["env=metaworld-mt1", f"env.task={chosen}"]
    if count == len(mt10):
        return count, "mt10", ["env=metaworld-mt10"]
    return count, f"mt10-first-{count}", ["env=metaworld", f"env.tasks=[{','.join(mt10[:count])}]"]


def _iterations(key, values, tasks):
    """So many epochs in medley's iterations, which are an episode of every task; both are the same in MUST's files."""
    from torchrl_words import whole

    number = {k: whole(k, values[k]) for k in (key, "epoch_frames", "max_episode_frames", "num_envs") if k in values}
    slots = number.get("num_envs", tasks) // tasks
    return math.ceil(number[key] * number["epoch_frames"] * slots / max(1, number["max_episode_frames"]))


def _switch(key, value):
    from medley.errors import ConfigError

    if value not in (0, 1):
        raise ConfigError(f"{key}={value} must be 0 or 1.")
    return "true" if value else "false"


if __name__ == "__main__":
    raise SystemExit(translate_and_train(__file__, translate))
