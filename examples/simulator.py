"""Meta-World's scripted policies on our simulator, an episode in every slot: `python examples/simulator.py`."""

import argparse
import time
import warnings

import gymnasium
import numpy as np
from metaworld.policies import ENV_POLICY_MAP
from PIL import Image

import medley  # noqa: F401  (registers medley/...)
from medley.reporting.video import HOW_TO_GET_VIDEOS, prepare_gl

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--slots-per-task", type=int, default=4)
parser.add_argument("--steps", type=int, default=500, help="length of the episodes")
parser.add_argument("--picture", default="simulator.png", help="where to save a picture of the last slot")
arguments = parser.parse_args()
warnings.filterwarnings("ignore", "Constant", module="metaworld")  # its policies ask for more than a full move

env = gymnasium.make_vec(
    "medley/MT10", num_envs=10 * arguments.slots_per_task, seed=1, max_episode_steps=arguments.steps
)
tasks, task_ids = env.unwrapped.tasks, env.unwrapped.task_ids
policies = [ENV_POLICY_MAP[f"{tasks[task]}-v3"]() for task in task_ids]
can_draw = prepare_gl() is not None

obs, _ = env.reset()
succeeded = np.zeros(env.num_envs, dtype=bool)
acting = stepping = 0.0
for step in range(arguments.steps):
    if can_draw and step == arguments.steps - 1:  # the last step already starts the next episode
        Image.fromarray(env.unwrapped.render_slot(env.num_envs - 1, 480, 360)).save(arguments.picture)
    start = time.perf_counter()
    actions = np.stack([policy.get_action(row) for policy, row in zip(policies, obs, strict=True)])
    between = time.perf_counter()
    obs, reward, terminated, truncated, info = env.step(actions.astype(np.float32))
    acting, stepping = acting + between - start, stepping + time.perf_counter() - between
    succeeded |= info["success"]
env.close()

for index, task in enumerate(tasks):
    print(f"{task:24} success in {succeeded[task_ids == index].sum()} of {arguments.slots_per_task} slots")
count = arguments.steps * env.num_envs
print(f"{count / stepping:.0f} env steps/s in env.step ({stepping:.1f} s); the policies took {acting:.1f} s")
print(f"picture: {arguments.picture}" if can_draw else f"no picture. {HOW_TO_GET_VIDEOS}")
