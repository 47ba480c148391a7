"""Pictures of MUST's masks: how much of its network a task shares with the others, and how alike their episodes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.colors import LinearSegmentedColormap
from safetensors import SafetensorError, safe_open

from medley.reporting import style
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.style import Picture

Matrix = npt.NDArray[np.float64]
_SHADES = LinearSegmentedColormap.from_list("shades", ["#f7f9fb", style.COLOURS[4], style.COLOURS[0], "#00304f"])
_NETWORKS = (("actor", 0, "actor"), ("critic", 0, "first critic"), ("critic", 1, "second critic"))


def mask_picture(group: RunGroup, stem: Path) -> Picture | None:
    """Of the group's first run with masks in its newest checkpoint; None if there is no such run."""
    for run in group.runs:
        found = _read(run)
        if found is not None and len(run.tasks) == len(found[1]["actor"]):
            return _draw(run, *found, stem)
    return None


def _read(run: RunData) -> tuple[int, dict[str, Matrix], float] | None:
    """Version of the masks, similarities by name, and the share of weights kept."""
    steps = sorted(int(p.parent.name) for p in run.path.glob("checkpoints/[0-9]*/agent.safetensors"))
    if not steps:
        return None
    try:
        with safe_open(run.path / "checkpoints" / str(steps[-1]) / "agent.safetensors", framework="numpy") as file:
            names = list(file.keys())
            if "must.version" not in names:
                return None
            found: dict[str, Matrix] = {}
            share = 1.0
            for network, member, title in _NETWORKS:
                layers = [n for n in names if n.startswith(f"{network}.") and n.endswith("mask")]
                masks = np.concatenate([_flat(file.get_tensor(n)[member]) for n in layers], axis=1)
                found[title], share = _overlap(masks), float(masks.mean())
            episodes = file.get_tensor("must.trajectory_similarity").astype(np.float64)
            if episodes.any():
                found["trajectories"] = episodes
            return int(file.get_tensor("must.version")), found, share
    except (SafetensorError, OSError, KeyError, ValueError, IndexError):
        return None  # damaged, or from elsewhere: a report shows what can be read


def _flat(mask: npt.NDArray[Any]) -> Matrix:
    return mask.reshape(len(mask), -1).astype(np.float64)


def _overlap(masks: Matrix) -> Matrix:
    """Of the weights that one task uses, the share that the other uses too; all have the same number."""
    both: Matrix = masks @ masks.T
    used: Matrix = both.diagonal()
    return both / np.maximum(used, 1)[:, None]


def _draw(run: RunData, version: int, found: dict[str, Matrix], share: float, stem: Path) -> Picture:
    tasks = [style.clean(task, 22) for task in run.tasks]
    count = len(tasks)
    side = min(max(1.7, 0.3 * count), 4.2)
    # Two rows once names and cells need room.
    columns = len(found) if count <= 5 else 2
    rows = -(-len(found) // columns)
    margin = 0.075 * max(map(len, tasks))
    figure = style.new_figure(columns * (side + 0.25) + margin + 0.9, rows * (side + 0.35) + margin + 0.1)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in panels.ravel()[len(found) :]:
        axes.set_visible(False)
    size = 7.5 if count <= 12 else 5
    image: Any = None
    for axes, (title, matrix) in zip(panels.ravel(), found.items(), strict=False):
        image = axes.imshow(matrix, cmap=_SHADES, vmin=0, vmax=1)
        axes.set_title(title, fontsize=9.5, color=style.INK, loc="left", parse_math=False)
        axes.tick_params(colors=style.INK, labelsize=size, length=0)
        axes.spines[:].set_visible(False)
        axes.set_xticks(range(count), tasks, rotation=90, parse_math=False)
        axes.set_yticks(range(count), tasks, parse_math=False)
        if count <= 12:
            for (i, j), value in np.ndenumerate(matrix):
                ink = "white" if value > 0.45 else style.INK
                axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=6, color=ink)
    bar = figure.colorbar(image, ax=panels, fraction=0.04, pad=0.02, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.ax.set_yticklabels(["0", "25", "50", "75", "100 %"])
    bar.ax.tick_params(colors=style.INK, labelsize=7, length=0)
    bar.outline.set_visible(False)
    caption = (
        f"Seed {run.seed}, masks number {version}. Networks: of the weights that the task in a row uses, the share "
        f"that the task in a column uses too; masks made by chance would share {share:.0%}."
    )
    if "trajectories" in found:
        caption += " Trajectories: how alike recent episodes are, as the masks' similarity loss saw it last."
    table = [
        [title, run.tasks[i], run.tasks[j], float(value)]
        for title, matrix in found.items()
        for (i, j), value in np.ndenumerate(matrix)
    ]
    return style.save(figure, stem, caption, ["of", "task", "other_task", "similarity"], table)
