"""Train an agent from Python, load it, and let it act: `python examples/train_and_act.py`."""

import argparse

import numpy as np

import medley

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=4000, help="training steps per task")
parser.add_argument("--folder", default=".", help="folder that holds runs/")
arguments = parser.parse_args()

result = medley.train(
    "env=point",
    "setup.id=train_and_act",
    f"setup.base_path={arguments.folder}",
    f"experiment.num_train_steps={arguments.steps}",
    fresh=True,  # an earlier run of this example is kept aside
)
print(result)

policy = medley.load(result.path)
env = policy.make_env()
obs, _ = env.reset(seed=7)
succeeded = np.zeros(env.num_envs, dtype=bool)
for _ in range(env.horizon):
    # Observations and actions are ordered by task: [tasks, rows, numbers].
    by_task = obs.reshape(len(env.tasks), env.slots_per_task, -1)
    actions = policy.act(by_task).reshape(env.num_envs, -1)
    obs, reward, terminated, truncated, info = env.step(actions)
    succeeded |= info["success"]
for task, success in zip(env.tasks, succeeded, strict=True):
    print(f"{task}: {'reached' if success else 'not reached'}")
