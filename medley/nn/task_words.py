"""What tasks are about, in words, and clusters of tasks by such words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from medley.nn.task_input import without_version

# One encoder per line; a task is in a cluster if one of its words occurs in the task's name or description.
CLUSTERS = (
    ("close",),
    ("insert", "pick and place", "press", "reach"),
    ("open",),
    ("push",),
    ("button", "door", "peg", "revolving joint"),
    ("drawer",),
    ("goal",),
    ("puck",),
    ("window",),
)

# Beside its name, which counts too.
DESCRIPTIONS = {
    "assembly": "pick and place a nut onto a peg",
    "basketball": "pick and place a ball into a basket",
    "bin-picking": "pick and place a puck from one bin into another",
    "box-close": "pick and place a cover onto a box to close it",
    "coffee-button": "push a button of a machine",
    "coffee-pull": "pull a mug away to a goal",
    "coffee-push": "push a mug to a goal",
    "disassemble": "take a nut off a peg",
    "door-close": "close a door with a revolving joint",
    "door-open": "open a door with a revolving joint",
    "hammer": "press a nail in with a hammer",
    "hand-insert": "insert the hand into a hole",
    "handle-pull": "pull a handle up",
    "handle-press": "press a handle down",
    "peg-unplug-side": "take a peg out sideways",
    "pick-out-of-hole": "pick up a puck from a hole",
    "pick-place": "pick and place a puck to a goal",
    "pick-place-wall": "pick and place a puck over a wall to a goal",
    "plate-slide": "push a plate into a goal",
    "push": "push a puck to a goal",
    "push-back": "pull a puck to a goal",
    "push-wall": "push a puck around a wall to a goal",
    "reach": "reach a goal",
    "reach-wall": "reach a goal behind a wall",
    "shelf-place": "pick and place a puck onto a shelf",
    "soccer": "push a ball into a goal",
    "stick-pull": "pull a box with a stick to a goal",
    "stick-push": "push a box with a stick to a goal",
    "sweep": "push a puck off the table",
    "sweep-into": "push a puck into a hole",
}


def clusters_of(tasks: Sequence[str]) -> Tensor:
    """[T, clusters]: equal shares of the clusters a task is in; all of them if it is in none."""
    rows = []
    for task in tasks:
        name = without_version(task)
        text = f"{name.replace('-', ' ')} {DESCRIPTIONS.get(name, '')}"
        found = [float(any(word in text for word in words)) for words in CLUSTERS]
        rows.append(found if any(found) else [1.0] * len(CLUSTERS))
    table = torch.tensor(rows)
    return table / table.sum(-1, keepdim=True)
