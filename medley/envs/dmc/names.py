"""The suite's tasks by name, known without importing it, and how long its benchmarks repeat an action in each."""

from __future__ import annotations

from medley.errors import ConfigError, closest

SUITE: dict[str, tuple[str, ...]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": ("balance", "balance_sparse", "swingup", "swingup_sparse", "two_poles", "three_poles"),
    "cheetah": ("run",),
    "dog": ("stand", "walk", "trot", "run", "fetch"),
    "finger": ("spin", "turn_easy", "turn_hard"),
    "fish": ("upright", "swim"),
    "hopper": ("stand", "hop"),
    "humanoid": ("stand", "walk", "run", "run_pure_state"),
    "humanoid_CMU": ("stand", "walk", "run"),
    "lqr": ("lqr_2_1", "lqr_6_2"),
    "manipulator": ("bring_ball", "bring_peg", "insert_ball", "insert_peg"),
    "pendulum": ("swingup",),
    "point_mass": ("easy", "hard"),
    "quadruped": ("walk", "run", "escape", "fetch"),
    "reacher": ("easy", "hard"),
    "stacker": ("stack_2", "stack_4"),
    "swimmer": ("swimmer6", "swimmer15"),
    "walker": ("stand", "walk", "run"),
}
TASKS = tuple(f"{domain}-{task}" for domain, tasks in SUITE.items() for task in tasks)

# The ten tasks of the SAC+AE document.
TESTBED = (
    "cartpole-swingup",
    "reacher-easy",
    "cheetah-run",
    "finger-spin",
    "ball_in_cup-catch",
    "walker-walk",
    "walker-stand",
    "walker-run",
    "hopper-stand",
    "hopper-hop",
)

# PlaNet's and SAC+AE's, for the tasks they have one for; later benchmarks repeat every action twice.
_ACTION_REPEAT = {
    "cartpole-swingup": 8,
    "reacher-easy": 4,
    "cheetah-run": 4,
    "finger-spin": 2,
    "ball_in_cup-catch": 4,
    "walker-walk": 2,
}
DEFAULT_REPEAT = 2

# DrQ-v2's and TD-MPC2's short name of a domain, and names written with an underscore throughout (`walker_walk`).
_ALIASES = {name.replace("-", "_"): name for name in TASKS} | {"cup_catch": "ball_in_cup-catch"}


def suite_task(name: str) -> str:
    """`domain-task` as the suite spells it."""
    known = _ALIASES.get(name.replace("-", "_"))
    if known is None:
        raise ConfigError(f"dm_control's suite has no task {name!r}.{closest(name, TASKS)}")
    return known


def usual_repeat(tasks: list[str]) -> int:
    """One task is repeated as its benchmark does; several alike, since the repeat scales their rewards."""
    return _ACTION_REPEAT.get(tasks[0], DEFAULT_REPEAT) if len(tasks) == 1 else DEFAULT_REPEAT
