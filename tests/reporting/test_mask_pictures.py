"""What a report shows of MUST's masks is what the checkpoint holds."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from medley.reporting.report import write_report
from tests.agents.must_agent import TASKS, episode, make
from tests.reporting.conftest import MakeRun


def save(run: Path, step: int, seed: int, stored: bool = True) -> dict[str, torch.Tensor]:
    agent = make(seed=seed)
    if stored:
        agent.observe(episode(), 0)
    agent._put(agent.makers.current())
    state = {name: value.contiguous() for name, value in agent.state_dict().items()}
    folder = run / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    save_file(state, folder / "agent.safetensors")
    return state


def table(run: Path) -> dict[tuple[str, str, str], float]:
    with (run / "report" / "masks.csv").open() as file:
        return {(r["of"], r["task"], r["other_task"]): float(r["similarity"]) for r in csv.DictReader(file)}


def test_overlap_of_the_newest_checkpoint(make_run: MakeRun) -> None:
    run = make_run(config="must")
    save(run, 90, 1)
    state = save(run, 100, 2)
    text = write_report([run]).read_text()
    assert "<h2>Masks</h2>" in text
    assert (run / "report" / "masks.png").stat().st_size > 1000
    found, tasks = table(run), ("reach", "push", "pick-place")
    for title, network, member in (
        ("actor", "actor", 0),
        ("first critic", "critic", 0),
        ("second critic", "critic", 1),
    ):
        layers = [v[member] for n, v in state.items() if n.startswith(network) and n.endswith("mask")]
        for i in range(TASKS):
            for j in range(TASKS):
                both = sum(int((m[i] & m[j]).sum()) for m in layers)
                used = sum(int(m[i].sum()) for m in layers)
                assert found[title, tasks[i], tasks[j]] == pytest.approx(both / used, rel=1e-4)
    for i in range(TASKS):
        for j in range(TASKS):
            wanted = float(state["must.trajectory_similarity"][i, j])
            assert found["trajectories", tasks[i], tasks[j]] == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_without_trajectories_or_without_masks(make_run: MakeRun) -> None:
    plain, masked = make_run(seed=1), make_run(config="must", seed=2)
    save(masked, 100, 0, stored=False)
    text = write_report([masked]).read_text()
    assert "<h2>Masks</h2>" in text
    assert not any(of == "trajectories" for of, _, _ in table(masked))
    assert "<h2>Masks</h2>" not in write_report([plain]).read_text()
    both = write_report([plain, masked], masked.parent / "both").read_text()
    assert both.count("<h2>Masks</h2>") == 1


def test_a_damaged_checkpoint_does_not_stop_a_report(make_run: MakeRun) -> None:
    run = make_run(config="must")
    save(run, 100, 0)
    (run / "checkpoints" / "100" / "agent.safetensors").write_bytes(b"nothing of the kind")
    assert "<h2>Masks</h2>" not in write_report([run]).read_text()
