"""Options of the arm that reaches, and what follows from them without any simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass

from medley.config.options import opt
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError, closest
from medley.robots.limits import Limits

HORIZON = 50
RATE = 5  # control steps per second
DT = 1.0 / RATE


@dataclass
class PandaConfig(EnvConfig):
    """Positions are those of the tool's centre point (TCP, between the fingers), in metres from the arm's base."""

    name: str = opt("panda-reach", "name of the environment, the first part of the run folder")
    builder: str = opt("panda", "which kind of environment this is (see `medley list envs`)")
    box_low: list[float] = opt([0.30, -0.15, 0.34], "lower corner of the box that the TCP is kept in, in metres")
    box_high: list[float] = opt([0.60, 0.15, 0.475], "upper corner of that box: a small one is learnt far faster")
    margin: float = opt(
        0.004, "metres that targets stay inside the box: the arm overshoots by up to 8 mm at full speed"
    )
    start: list[float] = opt([0.528, -0.100, 0.436], "where the TCP starts when randinit=false")
    randinit: bool = opt(True, "start anywhere in x .45 to .55, y -.15 to -.05, z .35 to .45, as far as the box goes")
    goals: dict[str, list[float]] = opt(
        {"main": [0.33, -0.12, 0.35]}, "places to reach, by name: one is an intention each, the first the main one"
    )
    radius: float = opt(0.02, "metres from a goal that count as being there")
    hold: float = opt(0.5, "seconds that it must be there for more than; success then lasts to the episode's end")
    max_vel: float = opt(0.2, "m/s at full action")
    stiffness: float = opt(250.0, "N/m with which the arm is drawn to its target (Kx); the same as on a real arm")
    max_force: float = opt(12.5, "N: a target is never farther from the arm than this force by that stiffness")
    arm: str = opt(
        "simulated",
        "simulated: as fast as it goes | wall_clock: in real time in a process of its own, as a real arm moves | "
        "bridge: whatever bridge_server.py serves, a real arm too (evaluations are simulated)",
    )
    bridge_address: str = opt("127.0.0.1:5757", "bridge: host and port at which bridge_server.py listens")
    rate: float = opt(1.0, "wall_clock, bridge: how much faster than real time, for tests")
    frame_stack: int = opt(2, "observations that are seen together, the newest last")


ARMS = ("simulated", "wall_clock", "bridge")
RANDOM_START = ((0.45, -0.15, 0.35), (0.55, -0.05, 0.45))


def panda_intentions(cfg: PandaConfig) -> list[str]:
    """Checked names of what may be wanted."""
    _check(cfg)
    return list(cfg.goals)


def panda_tasks(cfg: PandaConfig) -> list[str]:
    return panda_intentions(cfg)[:1]


def limits_of(cfg: PandaConfig) -> Limits:
    """With a box that the arm's targets stay in, a little smaller than the one that the arm stays in."""
    low, high = [x + cfg.margin for x in cfg.box_low], [x - cfg.margin for x in cfg.box_high]
    corners = (low[0], low[1], low[2]), (high[0], high[1], high[2])
    return Limits(*corners, cfg.max_vel, cfg.stiffness, cfg.max_force, DT)


def address_of(cfg: PandaConfig) -> tuple[str, int]:
    """Host and port of the bridge."""
    host, _, port = cfg.bridge_address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"env.bridge_address={cfg.bridge_address!r} must be a host and a port, as in 127.0.0.1:5757.")
    return host, int(port)


def observations_held(hold: float) -> int:
    """So many successive observations span more than `hold` seconds."""
    return 1 if hold == 0 else 2 + math.floor(hold / DT + 1e-9)


def _check(cfg: PandaConfig) -> None:
    if not cfg.goals:
        raise ConfigError("env.goals names no place to reach.")
    points = {"box_low": cfg.box_low, "box_high": cfg.box_high, "start": cfg.start}
    points |= {f"goals.{name}": goal for name, goal in cfg.goals.items()}
    for key, point in points.items():
        if len(point) != 3 or not all(map(math.isfinite, point)):
            raise ConfigError(f"env.{key}={point} must be three numbers: x, y and z in metres.")
        if not all(low <= x <= high for low, x, high in zip(cfg.box_low, point, cfg.box_high, strict=True)):
            raise ConfigError(f"env.{key}={point} lies outside the box from {cfg.box_low} to {cfg.box_high}.")
    if cfg.randinit and any(
        max(a, low) > min(b, high) for a, b, low, high in zip(*RANDOM_START, cfg.box_low, cfg.box_high, strict=True)
    ):
        raise ConfigError(
            "env.randinit=true needs a box that holds some of x .45 to .55, y -.15 to -.05, z .35 to .45."
        )
    for key, value in (("radius", cfg.radius), ("max_vel", cfg.max_vel), ("stiffness", cfg.stiffness)):
        if not 0 < value < math.inf:
            raise ConfigError(f"env.{key}={value} must be positive.")
    if cfg.max_force <= 0 or cfg.hold < 0 or cfg.frame_stack < 1:
        raise ConfigError("env.max_force must be positive, env.hold at least 0 and env.frame_stack at least 1.")
    if cfg.arm not in ARMS:
        raise ConfigError(f"env.arm={cfg.arm!r} does not exist.{closest(cfg.arm, ARMS)}")
    address_of(cfg)
    if not 0 < cfg.rate <= 10:
        raise ConfigError(f"env.rate={cfg.rate} must be positive and at most 10.")
    if cfg.arm != "simulated" and cfg.slots_per_task != 1:
        raise ConfigError(f"env.arm={cfg.arm} is a single arm: env.slots_per_task must be 1.")
    sides = [high - low for low, high in zip(cfg.box_low, cfg.box_high, strict=True)]
    if not 0 <= cfg.margin < min(sides) / 2:
        raise ConfigError(f"env.margin={cfg.margin} must be at least 0 and leave some of the box.")
