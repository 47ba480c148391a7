"""Where the numbers of a run go: JSON lines, TensorBoard, Weights & Biases, and the console."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Protocol

from medley.config.schema import LoggerConfig
from medley.reporting import episodes

Row = dict[str, Any]


class Sink(Protocol):
    def write(self, kind: str, row: Row) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """`train.log`, `eval.log` and, where it is wanted, `episodes.jsonl`. A checkpoint remembers how long they were; a
    resumed run cuts them back to that."""

    def __init__(self, folder: Path, lengths: dict[str, int], with_episodes: bool = False) -> None:
        self.files = {}
        for kind in ("train", "eval"):
            path = folder / f"{kind}.log"
            path.touch()
            os.truncate(path, min(lengths.get(kind, 0), path.stat().st_size))
            self.files[kind] = path.open("a", encoding="utf-8")
        path = folder / episodes.NAME
        if with_episodes or path.exists():  # one that is not wanted any more is kept, for whoever wants it again
            path.touch()
            episodes.cut_back(path, lengths.get("episodes", 0))
            self.files["episodes"] = path.open("a", encoding="utf-8")

    def write(self, kind: str, row: Row) -> None:
        self.files[kind].write(json.dumps(row) + "\n")
        self.files[kind].flush()

    def lengths(self) -> dict[str, int]:
        """Sizes in bytes, of what is safely on the disk."""
        for f in self.files.values():
            f.flush()
            os.fsync(f.fileno())
        return {kind: f.tell() for kind, f in self.files.items()}

    def close(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for f in self.files.values():
                all_of_them.callback(f.close)


class TensorBoard:
    def __init__(self, folder: Path, resume_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # On resume, TensorBoard is told to forget what a run that was cut off wrote after its last checkpoint.
        purge = None if resume_step is None else resume_step + 1
        self.writer = SummaryWriter(str(folder / "tb"), purge_step=purge, flush_secs=30)

    def write(self, kind: str, row: Row) -> None:
        for key, value in row.items():
            if isinstance(value, int | float) and key != "step":
                self.writer.add_scalar(f"{kind}/{key}", value, row["step"])
        if kind == "eval":
            self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    def __init__(self, project: str, name: str, folder: Path, config: dict[str, Any]) -> None:
        import wandb

        self.run = wandb.init(project=project, name=name, dir=str(folder), config=config, resume="allow")

    def write(self, kind: str, row: Row) -> None:
        self.run.log({f"{kind}/{k}": v for k, v in row.items()}, step=row["step"])

    def close(self) -> None:
        self.run.finish()


class Logger:
    """Sends every row to every place."""

    def __init__(
        self,
        folder: Path,
        options: LoggerConfig,
        config: dict[str, Any],
        lengths: dict[str, int],
        resume_step: int | None,
        console: Sink,
        with_episodes: bool = False,
    ) -> None:
        self.sinks: list[Sink] = []
        if options.use_wandb:
            self.sinks.append(WeightsAndBiases(options.wandb_project, "/".join(folder.parts[-3:]), folder, config))
        self.files = JsonLines(folder, lengths, with_episodes)
        self.sinks += [self.files, console]
        if options.use_tb:
            self.sinks.append(TensorBoard(folder, resume_step))

    def write(self, kind: str, row: Row) -> None:
        for sink in self.sinks:
            sink.write(kind, row)

    def write_episode(self, row: Row) -> None:
        """To its file alone: elsewhere there are means over episodes."""
        self.files.write("episodes", row)

    def close(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for sink in self.sinks:
                all_of_them.callback(sink.close)
