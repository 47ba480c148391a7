"""medley from Python: `medley.train(...)`, `medley.load(run)`, and a result that a notebook can show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medley.config.load import load_config
from medley.files import read_json
from medley.training import start
from medley.training.finish import finish
from medley.training.policy import Policy
from medley.training.run import Run


class Result:
    """A trained run: its scores, its curve, its policy. In a notebook it shows itself as a table."""

    def __init__(self, path: str | Path, status: str | None = None) -> None:
        self.path = Path(path)
        self.status = status or str(Run(self.path).info().get("status", "unknown"))

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        path = self.path / "results.json"
        return list(read_json(path)["evaluations"]) if path.is_file() else []

    @property
    def success(self) -> float:
        """Mean success over tasks at the last evaluation."""
        return float(self.evaluations[-1]["success"])

    @property
    def per_task(self) -> dict[str, dict[str, float]]:
        return dict(self.evaluations[-1]["per_task"])

    @property
    def curve(self) -> list[tuple[int, float]]:
        """(step, mean success) for every evaluation."""
        return [(e["step"], e["success"]) for e in self.evaluations]

    def policy(self) -> Policy:
        return Policy(self.path)

    def report(self) -> Path:
        from medley.reporting.report import write_report

        return write_report([self.path])

    def __repr__(self) -> str:
        score = f"success {self.success:.0%}" if self.evaluations else "not evaluated yet"
        return f"<medley run {self.path}: {self.status}, {score}>"

    def _repr_html_(self) -> str:
        from html import escape

        if not self.evaluations:
            return escape(repr(self))
        rows = "".join(
            f"<tr><td>{escape(task)}</td><td>{v['success']:.0%}</td><td>{v['return']:.1f}</td></tr>"
            for task, v in self.per_task.items()
        )
        head = "<tr><th>task</th><th>success</th><th>return</th></tr>"
        caption = escape(f"{self.path} · step {self.evaluations[-1]['step']:,} · mean success {self.success:.0%}")
        return f"<table><caption>{caption}</caption>{head}{rows}</table>"


def train(*words: str, fresh: bool = False, config_dirs: Sequence[str | Path] = (), **options: Any) -> Result:
    """Train as `medley train` does. Options as words, `train("env=point", "setup.seed=2")`, or as keywords with two
    underscores for a dot, `train(env="point", setup__seed=2)`. Goes on with an unfinished run of the same options."""
    words = (*words, *(f"{key.replace('__', '.')}={_literal(value)}" for key, value in options.items()))
    run, status = start.train(load_config(words, config_dirs), fresh=fresh)
    if status == "finished":
        finish(run)
    return Result(run.path, status)


def load(run: str | Path, checkpoint: int | None = None) -> Policy:
    """The trained agent of a run folder, ready to act: the newest checkpoint, or that of a step."""
    return Policy(run, checkpoint)


def results(run: str | Path) -> Result:
    """The results of a run folder."""
    Run(Path(run)).config()  # says so if this is no run folder
    return Result(run)


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_literal(v) for v in value) + "]"
    return str(value)
