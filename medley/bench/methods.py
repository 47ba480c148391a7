"""`medley bench methods`: what an update of each method costs, relative to plain multi-head SAC.

On MT10 with each method's own networks (BRC's critic at an eighth of its width), batch 1280, sampling included. Method
and plain SAC take turns, since a machine may be busier in one minute than in the next. On a CPU both run by PyTorch.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from medley.bench.learner import Updates, device_name

SETTING = ["env=metaworld-mt10", "agent.alpha_per_task=true", "replay_buffer.batch_size=1280"]
HEADS = "agent.trunk=multi_head"
METHODS: dict[str, list[str]] = {
    "shared": ["agent.trunk=shared"],
    "disjoint": ["agent.trunk=disjoint"],
    "task encoder": [HEADS, "agent.task_input=encoder"],
    "care": ["agent=care"],
    "film": ["agent=film"],
    "soft modules 2x2": ["agent=soft_modules"],
    "soft modules 4x4": ["agent=soft_modules", "agent.soft_modules.layers=4", "agent.soft_modules.modules=4"],
    "t3s": ["agent=t3s"],
    "paco": ["agent=paco"],
    "moore": ["agent=moore"],
    "must": ["agent=must", "agent.must.update_end=0"],  # between refreshes
    "distral": ["agent=distral"],
    "brc 512": ["agent=brc", "agent.critic.hidden_dim=512", "agent.alpha_per_task=false"],
    "simba_v2": ["agent=simba_v2", "agent.alpha_per_task=false"],
    "flashsac": ["agent=flashsac", "agent.alpha_per_task=false"],
    "pcgrad": [HEADS, "agent.gradients=pcgrad"],
    "cagrad": [HEADS, "agent.gradients=cagrad"],
    "nash": [HEADS, "agent.gradients=nash"],
    "gradnorm": [HEADS, "agent.gradients=gradnorm"],
    "famo": [HEADS, "agent.gradients=famo"],
}
TURNS = 3  # of each side


def bench(seconds: float, as_json: bool, options: list[str]) -> list[dict[str, Any]]:
    """About `seconds` for each side of each method; prints a table as it goes and returns it."""
    options = [*_eager(options), *options]
    plain = Updates([*SETTING, HEADS, *options])
    print(f"{'method':20} {'ms':>8} {'plain ms':>9} {'ratio':>6}   on {device_name(plain.device)}", flush=True)
    rows = []
    for name, words in METHODS.items():
        method = Updates([*SETTING, *words, *options])
        turns = [(method.milliseconds(seconds / TURNS), plain.milliseconds(seconds / TURNS)) for _ in range(TURNS)]
        row = {
            "method": name,
            "ms": round(median(m for m, _ in turns), 4),
            "plain_ms": round(median(p for _, p in turns), 4),
            "ratio": round(median(m / p for m, p in turns), 3),
            "options": words,
        }
        print(f"{name:20} {row['ms']:8} {row['plain_ms']:9} {row['ratio']:6}", flush=True)
        rows.append(row)
        del method
    if as_json:
        print(json.dumps({"device": device_name(plain.device), "options": options, "methods": rows}), flush=True)
    return rows


def _eager(options: list[str]) -> list[str]:
    """On a CPU all sides run by PyTorch, unless asked otherwise."""
    import torch

    device = next((o.split("=")[1] for o in options if o.startswith("setup.device=")), "auto")
    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    return ["experiment.learner=eager"] if on_cpu else []
