"""Which device a run computes on, and how exactly."""

from __future__ import annotations

import os

import torch

from medley.config.schema import Config
from medley.errors import MedleyError


def prepare_device(config: Config, or_cpu: bool = False) -> torch.device:
    """`auto` takes a GPU where there is one. Threads are part of a CPU run's exact arithmetic.

    `or_cpu`: what a GPU trained may act without one.
    """
    name = config.setup.device
    if config.setup.threads is not None:
        torch.set_num_threads(config.setup.threads)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        if or_cpu:
            return torch.device("cpu")
        raise MedleyError(f"setup.device={name}: this machine has no such GPU. setup.device=cpu works everywhere.")
    if device.type == "cuda" and config.setup.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for to promise it
        torch.use_deterministic_algorithms(True)
    if device.type == "cuda":
        if device.index is not None:
            torch.cuda.set_device(device)  # streams, events and transfers go to the current one
        torch.set_float32_matmul_precision("highest" if config.setup.precision == "fp32" else "high")
        torch.backends.cudnn.benchmark = not config.setup.deterministic  # convolutions: the quickest way is looked for
    return device
