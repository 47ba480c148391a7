"""`medley status`: where the runs of a sweep are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medley.errors import ConfigError, DamagedError
from medley.files import by_number
from medley.scale.folder import noted
from medley.training.checkpoints import Checkpoints
from medley.training.run import POLICY, Run


@dataclass(frozen=True)
class Standing:
    folder: Path
    state: str  # finished | running | queued | stopped | failed | lost
    step: int
    of: int
    minutes: float
    job: str
    says: str  # the last error, where there is one

    @property
    def share(self) -> float:
        return self.step / self.of if self.of else 0.0


def standings(places: Sequence[str | Path]) -> list[Standing]:
    """Of every run in these folders."""
    found = sorted({folder for place in places for folder in _runs(Path(place))}, key=lambda f: by_number(str(f)))
    if not found:
        raise ConfigError(f"no runs in {', '.join(map(str, places))}.")
    return [_standing(folder) for folder in found]


def _runs(place: Path) -> Iterable[Path]:
    if not place.is_dir():
        raise ConfigError(f"{place} is not a folder.")
    for name in ("config.yaml", "run.sh"):
        for path in place.rglob(name):
            if "submitit" not in path.parts and not (path.parent / POLICY).exists():
                yield path.parent


def _standing(folder: Path) -> Standing:
    run, told = Run(folder), noted(folder)
    try:
        info = run.info()
    except DamagedError:
        info = {}
    of = run.config().experiment.num_train_steps if run.exists() else 0
    state = str(info.get("status", "queued"))
    if state != "finished":
        if run.is_busy():
            state = "running"
        elif told.get("error"):
            state = "failed"
        elif state == "running":
            state = "lost"  # its process is gone, and did not say so
    error = str(told.get("error") or "") if state == "failed" else ""
    # Of a run that is under way run.json is from its start, and the newest checkpoint says more.
    step = max([int(info.get("step", 0)), *Checkpoints(folder, 1).steps()])
    return Standing(folder, state, step, of, float(info.get("minutes", 0.0)), str(told.get("id", "")), error)


def table(rows: Sequence[Standing]) -> str:
    common = Path(os.path.commonpath([row.folder.parent for row in rows]))
    names = [str(row.folder.relative_to(common)) for row in rows]
    width = max(40, *map(len, names))
    lines = [f"{common}", f"{'run':{width}} {'state':9} {'step':>22} {'':>5}  job"]
    for row, name in zip(rows, names, strict=True):
        done = f"{row.step:,} of {row.of:,}" if row.of else ""
        lines.append(f"{name:{width}} {row.state:9} {done:>22} {row.share:>5.0%}  {row.job[:20]}")
        if row.says:
            lines.append(f"    {row.says}")
    counts = {state: sum(row.state == state for row in rows) for state in dict.fromkeys(row.state for row in rows)}
    lines.append(", ".join(f"{n} {state}" for state, n in counts.items()) + time.strftime(" at %H:%M:%S"))
    return "\n".join(lines)
