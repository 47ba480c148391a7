"""What `medley report` needs of a run, and no more, into methods/ID/seed_N beside this file, or DIR/ID/seed_N.

python results/mt10/keep_run.py [--into DIR] RUN...
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from medley.agents.actor_critic import ActorCritic
from medley.agents.api import Spaces, agent_kind
from medley.config.schema import Config
from medley.reporting.run_files import read_lines
from medley.reporting.runs import run_folders
from medley.training.run import Run

HERE = Path(__file__).parent / "methods"
TRAIN = ("step", "env_step", "frames", "updates", "duration", "fps", "success", "actor_loss", "critic_loss", "q_mean_")
OWN = ("setup.base_path=", "setup.save_dir=")  # where it happened to be
EVERY = 10  # lines of train.log


def thinned(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Every tenth line; durations are of all lines since the one before."""
    out, seconds = [], 0.0
    for number, row in enumerate(rows, 1):
        seconds += float(str(row.get("duration") or 0))
        if number % EVERY == 0 or number == len(rows):
            wanted = {k: v for k, v in row.items() if k.rstrip("0123456789") in TRAIN}
            out.append(wanted | {"duration": round(seconds, 3)})
            seconds = 0.0
    return out


def keep(run: Path, into: Path) -> Path:
    info = json.loads((run / "run.json").read_text())
    if info["status"] != "finished":
        raise SystemExit(f"{run} is not finished.")
    folder = into / info["config_name"] / f"seed_{info['seed']}"
    folder.mkdir(parents=True, exist_ok=True)
    info["parameters"] = parameters(Run(run).config(), info["tasks"])
    info["command"] = " ".join(word for word in info["command"].split() if not word.startswith(OWN))
    (folder / "run.json").write_text(json.dumps(info, indent=1) + "\n")
    config = (run / "config.yaml").read_text().splitlines()
    wanted = [line for line in config if not line.strip().startswith(("base_path:", "save_dir:"))]
    (folder / "config.yaml").write_text("\n".join(wanted) + "\n")
    problems: list[str] = []
    evaluations, training = (read_lines(run / name, problems) for name in ("eval.log", "train.log"))
    if problems:
        raise SystemExit("\n".join(problems))
    for name, rows in (("eval.log", evaluations), ("train.log", thinned(training))):
        text = "\n".join(json.dumps({k: _short(v) for k, v in row.items()}) for row in rows)
        (folder / name).write_text(text + "\n")
    return folder


def parameters(config: Config, tasks: list[str]) -> int:
    """What is learnt in all: actor, both critics and labels of tasks."""
    spaces = Spaces(tuple(tasks), 39, 4, np.ones((len(tasks), 4), bool))  # Meta-World's; not told which task it is
    agent = agent_kind(config.agent.builder).build(config.agent, spaces, torch.device("cpu"), 0)
    assert isinstance(agent, ActorCritic)
    learnt = {p for name in ("actor", "critic", "task") for p in agent.networks[name].parameters()}
    return sum(p.numel() for p in learnt)


def _short(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--into", type=Path, default=HERE, metavar="DIR")
    words = parser.parse_args()
    for run in run_folders(words.runs):
        print(keep(run, words.into))
