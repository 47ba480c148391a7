"""A Meta-World task of your own, hold the hand above a puck: `python examples/metaworld_task.py` trains it."""

import argparse

import medley
from medley.envs.metaworld.tasks import TASKS, Task
from medley.envs.metaworld.tasks.base import FIRST
from medley.envs.metaworld.tasks.rewards import tolerance
from medley.envs.metaworld.tasks.shared import add, distance, flag, object_with_matrix, place_object, report, tcp, vec

# Where things are in MuJoCo's memory; medley/envs/metaworld/tasks/base.py lists what can be referred to.
PUCK, PUCK_MAT, GOAL_SITE = range(FIRST, FIRST + 3)
REFS = ("body obj", "geom_mat objGeom", "model_site goal")


def reset(s):
    """Place the puck where the episode's goal vector says, and the target above it."""
    puck = vec(s.goal)
    place_object(s, puck, add(puck, (0.0, 0.0, 0.1)), GOAL_SITE)


def evaluate(s):
    """Reward, success and the package's info fields; `s.obs` is the new observation, `s.action` the action."""
    start, hand, target = vec(s.init_tcp), tcp(s), vec(s.target)
    away = distance(hand, target)
    in_place = tolerance(away, 0.0, 0.05, distance(start, target))
    report(
        s,
        reward=10 * in_place,
        success=flag(away <= 0.05),
        near_object=flag(distance(hand, vec(s.obs[4:])) <= 0.1),
        grasp_success=0.0,
        grasp_reward=0.0,
        in_place_reward=in_place,
        obj_to_target=away,
    )


def register():
    TASKS.add(
        Task(
            name="hover",
            model="sawyer_reach_v3",
            refs=REFS,
            reset=reset,
            objects=object_with_matrix,
            evaluate_v1=evaluate,
            evaluate_v2=evaluate,
            hand_init=(0.0, 0.6, 0.2),
            goal_low=(-0.1, 0.6, 0.12),
            goal_high=(0.1, 0.7, 0.12),
            reset_low=(-0.1, 0.6, 0.02),
            reset_high=(0.1, 0.7, 0.02),
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000, help="training steps")
    parser.add_argument("--folder", default=".", help="folder that holds runs/")
    arguments = parser.parse_args()
    register()
    result = medley.train(
        "env=metaworld-mt1",
        "env.task=hover",
        "env.horizon=100",
        "setup.id=metaworld_task",
        f"setup.base_path={arguments.folder}",
        f"experiment.num_train_steps={arguments.steps}",
        fresh=True,  # an earlier run of this example is kept aside
    )
    print(result)
