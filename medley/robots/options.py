"""Whether the options of a run allow it to learn in real time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medley.errors import ConfigError, closest

if TYPE_CHECKING:
    from medley.config.schema import Config

UPDATE_WHEN = ("at_step", "between_episodes", "during_step")


def check_update_when(config: Config, tasks: int) -> None:
    """Learning that is put off goes with one slot, single steps and a loop that does one thing after another."""
    e = config.experiment
    if e.update_when not in UPDATE_WHEN:
        raise ConfigError(
            f"experiment.update_when={e.update_when!r} does not exist.{closest(e.update_when, UPDATE_WHEN)}"
        )
    arm = getattr(config.env, "arm", "simulated")
    if arm != "simulated" and config.agent.n_step != 1:
        # A step that an arm dropped is not in replay: its neighbours belong to two episodes, and would be summed.
        raise ConfigError(f"env.arm={arm} needs agent.n_step=1, not {config.agent.n_step}.")
    if e.update_when == "at_step" and arm == "simulated":
        return
    what = f"env.arm={arm}" if e.update_when == "at_step" else f"experiment.update_when={e.update_when}"
    if e.overlap is None:
        e.overlap = False
    for key, value, needed in (
        ("the number of tasks", tasks, 1),
        ("env.slots_per_task", config.env.slots_per_task, 1),
        ("experiment.collect_steps", e.collect_steps, 1),
        ("experiment.seeds_together", e.seeds_together, 1),
        ("agent.n_step", config.agent.n_step, 1),
        ("experiment.overlap", e.overlap, False),
        ("agent.burst", config.agent.burst, False),
        ("experiment.scheduler.kind", config.experiment.scheduler.kind, "uniform"),
    ):
        if value != needed:
            raise ConfigError(f"{what} needs {key}={needed}, not {value}.")
