"""`medley bench methods`: what an update of each method costs, relative to plain multi-head SAC.

On MT10 with each method's own networks (BRC's critic at an eighth of its width), batch 1280, sampling included. Method
and plain SAC take turns, since a machine may be busier in one minute than in the next. On a CPU both run by PyTorch; on
a GPU several methods are compiled side by side before they are timed.
"""

from __future__ import annotations

import json
import os
from statistics import median
from typing import Any

from medley.bench.prepared import Prepared

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


def bench(seconds: float, as_json: bool, options: list[str], at_once: int | None = None) -> list[dict[str, Any]]:
    """About `seconds` for each side of each method; prints a table as it goes and returns it.

    `at_once` methods are prepared side by side: on a GPU, by default, as many as the compilers have cores for.
    """
    on_cpu = _on_cpu(options)
    options = [*(["experiment.learner=eager"] if on_cpu else []), *options]  # unless asked otherwise
    at_once = at_once or (1 if on_cpu else max(1, (os.cpu_count() or 2) // 2))
    plain = Prepared([*SETTING, HEADS, *options])
    device = plain.facts()["device"]
    print(f"{'method':20} {'ms':>8} {'plain ms':>9} {'ratio':>6}   on {device}", flush=True)
    rows, names = [], list(METHODS)
    for first in range(0, len(names), at_once):
        ready = {name: Prepared([*SETTING, *METHODS[name], *options]) for name in names[first : first + at_once]}
        failures = {name: _failure(method) for name, method in ready.items()}  # and all of them are ready
        for name, method in ready.items():
            row = {"failure": failures[name]} if failures[name] else _compare(method, plain, seconds)
            rows.append({"method": name, **row, "options": METHODS[name]})
            print(_line(rows[-1]), flush=True)
            method.close()
    plain.close()
    if as_json:
        print(json.dumps({"device": device, "options": options, "methods": rows}), flush=True)
    return rows


def _failure(method: Prepared) -> str:
    try:
        method.facts()
    except RuntimeError as error:
        return str(error)
    return ""


def _compare(method: Prepared, plain: Prepared, seconds: float) -> dict[str, Any]:
    turns = [(method.milliseconds(seconds / TURNS), plain.milliseconds(seconds / TURNS)) for _ in range(TURNS)]
    return {
        "ms": round(median(m for m, _ in turns), 4),
        "plain_ms": round(median(p for _, p in turns), 4),
        "ratio": round(median(m / p for m, p in turns), 3),
        "ready_s": round(method.facts()["ready"], 1),
    }


def _line(row: dict[str, Any]) -> str:
    if "failure" in row:
        return f"{row['method']:20} failed: {row['failure']}"
    return f"{row['method']:20} {row['ms']:8} {row['plain_ms']:9} {row['ratio']:6}"


def _on_cpu(options: list[str]) -> bool:
    import torch

    device = next((o.split("=")[1] for o in options if o.startswith("setup.device=")), "auto")
    return device == "cpu" or (device == "auto" and not torch.cuda.is_available())
