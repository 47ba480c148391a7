"""Runs medley in child processes that can be killed, and compares run folders."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import load_file

from medley.training.build import build
from medley.training.checkpoints import Checkpoints
from medley.training.run import Run

# Wall-clock fields: the only ones that may differ between a run that was disturbed and one that was not.
WALL_CLOCK = {"duration", "fps", "checkpoint_ms", "minutes", "started", "command", "time", "delays"}
WALL_CLOCK |= {"collector_fps", "collect_wait_ms", "worker_restarts"}

OPTIONS = [
    "env=point",
    "env.slots_per_task=2",
    "setup.threads=1",
    "setup.device=cpu",
    "agent.trunk=multi_head",
    "agent.alpha_per_task=true",
    "agent.reward_normalization=ema_std",
    "agent.n_step=2",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.batch_size=48",
    "replay_buffer.capacity=450",  # wraps around several times
    "experiment.num_train_steps=800",
    "experiment.init_steps=60",
    "experiment.eval_freq=150",
    "experiment.save_freq=40",
    "experiment.num_eval_episodes=4",
    "experiment.eval_slots_per_task=2",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "logger.train_freq=70",
    "logger.use_tb=false",
    "logger.console=lines",
]

_FORK = multiprocessing.get_context("fork")  # medley is imported once; each child starts in milliseconds


def _child(words: list[str], output: Path, prepare: Callable[[], None] | None) -> None:
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    import sys

    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    if torch.cuda._is_in_bad_fork():  # type: ignore[no-untyped-call]
        torch.cuda.is_available = lambda: False  # the parent has used a GPU, so its children cannot
    if prepare is not None:
        prepare()
    from medley.cli import main

    code = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Child:
    def __init__(self, words: list[str], output: Path, prepare: Callable[[], None] | None = None) -> None:
        self.output = output
        self.process = _FORK.Process(target=_child, args=(words, output, prepare))
        self.process.start()

    def kill_after(self, seconds: float) -> bool:
        """SIGKILL after so long; False if it had ended by itself."""
        self.process.join(seconds)
        if not self.process.is_alive():
            return False
        self.signal(signal.SIGKILL)
        self.process.join()
        return True

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self, seconds: float = 120) -> int:
        self.process.join(seconds)
        assert not self.process.is_alive(), "the run hangs"
        code = self.process.exitcode
        assert code is not None
        return code

    def wait_for(self, path: Path, seconds: float = 60) -> None:
        wait_until(lambda: came(path) or not self.process.is_alive(), f"{path} never came", seconds, 0.005)
        assert came(path), self.text()

    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""


def wait_until(true: Callable[[], object], otherwise: str, seconds: float = 60, look: float = 0.05) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, otherwise
        time.sleep(look)


def came(path: Path) -> bool:
    """Whether it is there; or, of a checkpoint, a later one: on a busy machine it may come and go between two looks."""
    if path.exists() or path.parent.name != "checkpoints" or not path.parent.is_dir():
        return path.exists()
    return any(p.name.isdigit() and int(p.name) >= int(path.name) for p in path.parent.iterdir())


def run(words: list[str], folder: Path, prepare: Callable[[], None] | None = None) -> tuple[int, str]:
    """One command to its end: exit status and everything it printed."""
    output = folder / f"output-{time.monotonic_ns()}"
    child = Child(words, output, prepare)
    return child.wait(), child.text()


def stop_at(step: int, number: int = signal.SIGTERM) -> Callable[[], None]:
    """A signal to oneself, SIGTERM unless told otherwise, right after the checkpoint of `step`."""

    def prepare() -> None:
        from medley.training.checkpoints import Checkpoints

        original = Checkpoints.save

        def save(self: Checkpoints, at: int, *args: Any) -> Path:
            path = original(self, at, *args)
            if at == step:
                os.kill(os.getpid(), number)
            return path

        Checkpoints.save = save  # type: ignore[method-assign, assignment]

    return prepare


def train_words(folder: Path, *more: str) -> list[str]:
    return ["train", *OPTIONS, f"setup.save_dir={folder}", *more]


def log_rows(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in WALL_CLOCK} for row in rows]


def assert_same_run(a: Path, b: Path, replay: Callable[[Path, int], list[bytes]] | None = None) -> None:
    """Weights, optimiser, replay, results and logs, bit for bit. `replay` reads a run's replay at a step."""
    replay = replay or replay_rows
    assert json.loads((a / "results.json").read_text()) == json.loads((b / "results.json").read_text())
    for name in ("train.log", "eval.log"):
        assert log_rows(a / name) == log_rows(b / name), name
    if (a / "episodes.jsonl").exists() or (b / "episodes.jsonl").exists():
        assert log_rows(a / "episodes.jsonl") == log_rows(b / "episodes.jsonl")
    last = max(int(p.name) for p in (a / "checkpoints").iterdir() if p.name.isdigit())
    for name in ("agent", "learner", "collector", "rewards"):
        x = load_file(a / "checkpoints" / str(last) / f"{name}.safetensors")
        y = load_file(b / "checkpoints" / str(last) / f"{name}.safetensors")
        assert x.keys() == y.keys()
        for key in x:
            assert x[key].tobytes() == y[key].tobytes(), f"{name}: {key}"
    assert replay(a, last) == replay(b, last)
    assert not [p for p in a.rglob(".*") if p.suffix in (".tmp", ".old")], "a draft was left behind"


def replay_samples(run: Path, step: int) -> list[bytes]:
    """Many more samples than there are transitions, from replay as a resumed run would have it."""
    parts = build(Run(run).config())
    Checkpoints(run, keep=2).load(run / "checkpoints" / str(step), parts.replay)
    parts.replay.generator.manual_seed(0)
    batches = [parts.replay.sample(100) for _ in range(5)]
    parts.env.close()
    parts.evaluator.env.close()
    return [piece for batch in batches for piece in _pieces(batch)]


def _pieces(batch: object) -> list[bytes]:
    """All tensors of a batch, those of batches within it too."""
    found: list[bytes] = []
    for value in vars(batch).values():
        if isinstance(value, torch.Tensor):
            found.append(value.numpy().tobytes())
        elif value is not None:
            found += _pieces(value)
    return found


def replay_rows(run: Path, step: int) -> list[bytes]:
    """The live rows of every ring in order, whatever segments they were saved in."""
    manifest = json.loads((run / "checkpoints" / str(step) / "replay.json").read_text())
    rows: list[list[bytes]] = [[] for _ in manifest["written"]]
    for segment in manifest["segments"]:
        tensors = load_file(run / "buffer" / segment["file"])
        at = 0
        for task, (first, end) in enumerate(zip(segment["from"], segment["to"], strict=True)):
            for count in range(first, end):
                if count >= manifest["written"][task] - manifest["capacity"]:
                    rows[task].append(b"".join(tensors[name][at].tobytes() for name in sorted(tensors)))
                at += 1
    return [row for task in rows for row in task]
