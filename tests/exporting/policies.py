"""Every agent that there is, small, with weights as if it had learnt; and what ONNX Runtime makes of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.agents.api import Spaces, agent_kind
from medley.config.load import choices, load_config, read_choice
from medley.exporting.network import PolicyNetwork
from medley.exporting.onnx_file import Exported, to_onnx

TASKS, OBS, ACT, IMAGE = 3, 5, 4, (9, 24, 24)
NAMES = ("reach-v3", "drawer-close-v3", "push-v3")
SMALL = ["agent.actor.hidden_dim=16", "agent.critic.hidden_dim=16"]
SMALL_PICTURES = ["agent.pixels.num_layers=2", "agent.pixels.num_filters=8", "agent.pixels.feature_dim=6"]


def every_agent() -> list[str]:
    return choices("agent")


def make_agent(name: str, *words: str, tasks: int = TASKS, seed: int = 0) -> Any:
    """On made-up spaces: the last action of the second task is padding."""
    kind = agent_kind(read_choice("agent", name)["builder"])
    more = [*SMALL, *SMALL_PICTURES] if kind.sees_pictures else SMALL
    env = ["env=point-aux"] if kind.has_intentions else ["env=point", f"env.num_tasks={tasks}"]
    demos = ["agent.expert.path=demos.npz"] if name in ("bc", "mtbc") else []
    options = load_config([*env, f"agent={name}", *more, *demos, *words]).agent
    mask = np.ones((tasks, ACT), dtype=bool)
    mask[1:2, -1] = False
    spaces = Spaces(NAMES[:tasks], OBS, ACT, mask)
    if kind.sees_pictures:
        spaces = dataclasses.replace(spaces, obs_dim=0, image=IMAGE)
    agent: Any = kind.build(options, spaces, torch.device("cpu"), seed)
    stir(agent, seed)
    return agent


def stir(agent: Any, seed: int = 0) -> None:
    """Untrained policies hardly move: their last layers start near zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for network in agent.networks.values():
            for p in network.parameters():
                p.add_(0.1 * torch.randn(p.shape, generator=generator))
    if agent.obs_norm is not None:
        agent.obs_norm.observe(torch.randn(50, OBS, generator=generator).numpy() * 3 + 1)


def what_of(agent: Any, path: Path = Path("policy.onnx")) -> Exported:
    spaces = agent.spaces
    shape = spaces.image or (spaces.obs_dim,)
    return Exported(path, agent.options.name, "point", 1, spaces.tasks, shape, spaces.action_dim)


def exported(agent: Any, low: float = -1.0, high: float = 1.0) -> bytes:
    mask = np.asarray(agent.spaces.action_mask)
    return to_onnx(PolicyNetwork(agent, np.where(mask, low, 0.0), np.where(mask, high, 0.0)), what_of(agent))


def observations(agent: Any, rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if agent.spaces.image is not None:
        return torch.randint(0, 256, (rows, *agent.spaces.image), generator=generator, dtype=torch.uint8)
    return 2 * torch.randn(rows, OBS, generator=generator)


def session_of(content: bytes | Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    source = str(content) if isinstance(content, Path) else content
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(session: Any, obs: Tensor, task: Tensor | None = None) -> npt.NDArray[np.float32]:
    inputs = {"observation": obs.numpy(), **({} if task is None else {"task": task.numpy()})}
    (action,) = session.run(None, inputs)
    return np.asarray(action)
