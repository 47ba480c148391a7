"""Act with an exported policy, without PyTorch: `medley export RUN`, then `python examples/act_with_onnx.py FILE`."""

import argparse
import json
import sys

import gymnasium
import numpy as np
import onnxruntime

import medley  # noqa: F401  (registers medley/Point; any env with the same observations would do)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("file", help="policy.onnx of a run with env=point")
parser.add_argument("--slots-per-task", type=int, default=2)
arguments = parser.parse_args()

policy = onnxruntime.InferenceSession(arguments.file, providers=["CPUExecutionProvider"])
about = policy.get_modelmeta().custom_metadata_map
tasks = json.loads(about["tasks"])
slots = len(tasks) * arguments.slots_per_task
env = gymnasium.make_vec("medley/Point", num_envs=slots, num_tasks=len(tasks))
task = np.repeat(np.arange(len(tasks)), arguments.slots_per_task)  # slots are ordered by task

obs, _ = env.reset(seed=7)
succeeded = np.zeros(slots, dtype=bool)
for _ in range(env.unwrapped.horizon):
    inputs = {"observation": obs.astype(np.float32), "task": task} if len(tasks) > 1 else {"observation": obs}
    (actions,) = policy.run(None, inputs)
    obs, reward, terminated, truncated, info = env.step(actions)
    succeeded |= info["success"]

print(f"{about['agent']} on {about['env']}, step {about['step']}, by medley {about['medley']}")
for i, name in enumerate(tasks):
    print(f"{name}: {succeeded[task == i].sum()} of {arguments.slots_per_task} reached")
assert "torch" not in sys.modules
