"""The Ray cluster that sweeps and collection use: one that is there, or one of this machine."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np

from medley.errors import MedleyError


def connect(cpus: int | None = None) -> Any:
    """Ray, connected to the cluster that RAY_ADDRESS names, or to one on this machine, of so many CPUs."""
    try:
        import ray
    except ImportError:
        raise MedleyError("this needs Ray: pip install 'medley[ray]'.") from None
    if ray.is_initialized():
        return ray
    address = os.environ.get("RAY_ADDRESS") or "local"
    _check(address)
    paths = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    # A cluster that is there has its CPUs; one that is begun for this gets as many as are asked for.
    here = {"num_cpus": cpus, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(
            address=address,
            runtime_env={"env_vars": paths},
            logging_level="ERROR",
            log_to_driver=False,
            **here,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise MedleyError(f"Ray could not be reached or started ({address}): {error}") from None
    return ray


def _check(address: str) -> None:
    """Ray itself looks for minutes for a cluster that is not there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise MedleyError(f"there is no Ray cluster at RAY_ADDRESS={address}: {error.strerror or error}") from None


def with_room(workers: int, cpus: float) -> Any:
    """The same, where so many workers find room."""
    needed = workers * cpus
    ray = connect(cpus=max(os.cpu_count() or 1, int(np.ceil(needed))))
    machines = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
    there = sum(machines)
    if max(machines, default=0) < cpus:
        raise MedleyError(f"collect.cpus={cpus:g}: no machine of the Ray cluster has so many.")
    if there < needed:
        raise MedleyError(
            f"collect.workers={workers} of {cpus:g} CPUs each need {needed:g}, and the Ray cluster has {there:g}: "
            "take fewer, or add machines to it (ray start --address=...)."
        )
    return ray
