"""Whether a run can collect on a cluster, and with how many slots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from medley.agents.api import agent_kind
from medley.errors import ConfigError, closest

if TYPE_CHECKING:
    from medley.config.schema import Config

# Steps of every slot per chunk: a trip over the network takes as long as several of them.
_CHUNK = 32


def fill_and_check_collect(config: Config) -> None:
    c, e = config.collect, config.experiment
    if c.on not in ("local", "ray"):
        raise ConfigError(f"collect.on={c.on!r} does not exist.{closest(c.on, ['local', 'ray'])}")
    if c.on == "local":
        return
    slots = config.env.slots_per_task
    if slots < c.workers:
        config.env.slots_per_task = c.workers
    elif slots % c.workers:
        near = f"{slots // c.workers * c.workers} or {math.ceil(slots / c.workers) * c.workers}"
        raise ConfigError(
            f"env.slots_per_task={slots} cannot be divided between collect.workers={c.workers}: take {near} slots."
        )
    if agent_kind(config.agent.builder).has_intentions:
        raise ConfigError(
            f"agent={config.agent.name} chooses what to want while it collects: it needs collect.on=local."
        )
    for key, value, needed in (
        ("experiment.update_when", e.update_when, "at_step"),
        ("experiment.seeds_together", e.seeds_together, 1),
    ):
        if value != needed:
            raise ConfigError(f"collect.on=ray needs {key}={needed}, not {value}.")
    if (arm := getattr(config.env, "arm", "simulated")) != "simulated":
        raise ConfigError(f"env.arm={arm} is one arm, which is moved from here: it needs collect.on=local.")
    if c.lag > 1 and e.scheduler.kind != "uniform":
        raise ConfigError(
            f"collect.lag={c.lag} asks for steps before it is known who is to take them by "
            f"experiment.scheduler.kind={e.scheduler.kind}: take a lag of 0 or 1."
        )
    if e.overlap is not None and e.overlap != (c.lag > 0):
        raise ConfigError(
            f"experiment.overlap={e.overlap} and collect.lag={c.lag} contradict each other: give one of them."
        )
    e.overlap = c.lag > 0
    if e.collect_steps is None:
        e.collect_steps = max(config.agent.collect_steps, _CHUNK)
