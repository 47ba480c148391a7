"""How agents are scored. The name of the protocol stands in every results file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Protocol:
    meaning: str
    episodes: int
    success: str  # "any": flagged at some step of the episode; "last": flagged at its last step
    stop_at_success: bool
    env: dict[str, Any] = field(default_factory=dict)  # options of the env while evaluating, where it has them


PROTOCOLS = {
    "metaworld+": Protocol("50 goals, one episode each; success at any step, where the episode stops", 50, "any", True),
    "held-out": Protocol(
        "50 goals that training does not have; otherwise as metaworld+", 50, "any", True, {"goals": "fresh"}
    ),
    "mtrl": Protocol(
        "one goal per task, horizon 150; success at any step", 1, "any", False, {"goals": "single", "horizon": 150}
    ),
    "tdmpc2": Protocol("success at the last step of the episode", 50, "last", False),
    "episodes": Protocol("whole episodes; success at any step", 10, "any", False),
}
