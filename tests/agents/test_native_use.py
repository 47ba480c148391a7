"""Compiled updates in use: their threads, where there are none, and whole runs."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medley.agents.api import Spaces
from medley.agents.native import blas
from medley.agents.sac import SAC
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.gradients import combiners
from medley.nn import trunks
from medley.replay.ring import Replay
from medley.training.build import build
from medley.training.learner import EagerUpdates, NativeUpdates
from tests.agents.native_sac import (
    ACT,
    MASK,
    OBS,
    TASKS,
    _threads_for_few_rows,
    agent,
    assert_alike,
    batch,
    compare,
    either_product,
    native,
    options,
)
from tests.faults import harness

__all__ = ["_threads_for_few_rows", "either_product"]  # fixtures

# ---- threads


def test_threads_sleep_between_updates_and_come_back_after_close() -> None:
    one, two = agent(options()), agent(options())
    compiled, other = native(one, 3), native(two, 3)
    for n in range(4):
        compiled.update(batch(n), "all")
        other.update(batch(n), "all")
        other.close()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05
    assert_alike(one, two, 1e-30)


def test_the_callers_own_matrix_products_keep_their_threads() -> None:
    found = blas.find_blas()
    assert found is not None
    set_threads = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(found.set_threads)
    before = set_threads(2)
    try:
        native(agent(options())).update(batch(0), "all")
        assert set_threads(2) == 2
    finally:
        set_threads(before)


def test_a_fork_hires_its_own_threads() -> None:
    one = agent(options())
    compiled = native(one, 3)
    compiled.update(batch(0), "all")

    def child(queue: Any) -> None:
        compiled.update(batch(1), "all")
        queue.put({k: v.numpy() for k, v in one.state_dict().items()})

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    theirs = queue.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    compiled.update(batch(1), "all")
    for name, value in one.state_dict().items():
        assert np.array_equal(value.numpy(), theirs[name]), name


def test_teams_are_let_go_with_their_owner() -> None:
    import threading

    def count() -> int:
        return sum(thread.name.startswith("medley-") for thread in threading.enumerate())

    time.sleep(0.1)  # until those of other tests have gone
    before = count()
    compiled = native(agent(options()), 4)
    compiled.update(batch(0), "all")
    assert count() == before + 3
    del compiled
    until = time.monotonic() + 5
    while count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert count() == before


def test_few_rows_get_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    compiled = native(agent(options()), 64)
    for rows, threads in ((6, 1), (64, 6)):
        compiled.update(batch(0, rows), "all")
        assert compiled._learners is not None
        assert compiled._learners.threads == threads


def test_batches_of_another_shape_are_refused() -> None:
    compiled = native(agent(options()))
    wrong = batch(0)
    wrong.next_obs = wrong.next_obs[:, :, 1:]
    with pytest.raises(ValueError, match=r"expected \[3, 6, 5\] numbers, got \[3, 6, 4\]"):
        compiled.update(wrong, "all")
    with pytest.raises(ValueError, match="expected"):
        compiled.act(torch.zeros(TASKS + 1, 1, OBS), None)
    other = Replay(TASKS, 2, 40, OBS + 1, ACT, torch.device("cpu"), 7)
    with pytest.raises(ValueError, match="another environment"):
        compiled.update_from(other, torch.ones(TASKS, 1), 4, "all")


# ---- where there is none


@pytest.fixture
def _other_kinds() -> Iterator[None]:
    class Own(trunks.SharedTrunk):
        pass

    class Sum(combiners.Mean):
        pass

    trunks.register_trunk("own", Own)
    combiners.register_combiner("sum", Sum)
    yield
    del trunks._TRUNKS["own"], combiners._COMBINERS["sum"]


@pytest.mark.usefixtures("_other_kinds")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"task_input": "encoder"}, "agent.task_input=encoder is not compiled"),
        ({"trunk": "own"}, "agent.trunk=own is not compiled"),
        ({"gradients": "sum"}, "agent.gradients=sum is not compiled"),
    ],
    ids=str,
)
def test_what_is_not_compiled_says_why(changes: dict[str, Any], why: str) -> None:
    assert agent(options(**changes)).native(1) == why


def test_an_agent_made_from_sac_is_not_sac() -> None:
    class Own(SAC):
        pass

    o = options()
    made = Own(o, Spaces(("a", "b", "c"), OBS, ACT, MASK), torch.device("cpu"), 0)
    assert made.native(1) == "Own may differ from the SAC that is compiled"


def test_without_a_library_there_is_no_compiled_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medley.agents.native.learner.find_blas", lambda: None)
    assert "matrix products" in str(agent(options()).native(1))
    monkeypatch.setattr(blas, "_candidates", lambda: [("none", Path("/nowhere.so"), "sgemm_", "set")])
    assert blas.find_blas.__wrapped__() is None


def test_numpys_own_library_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [c for c in blas._candidates() if c[0] == "OpenBLAS"]
    monkeypatch.setattr(blas, "_candidates", lambda: others)
    found = blas.find_blas.__wrapped__()
    if found is None:
        pytest.skip("NumPy brings no OpenBLAS here")
    monkeypatch.setattr("medley.agents.native.learner.find_blas", lambda: found)
    compare(options(trunk="multi_head"), updates=10)


def test_the_option_decides(tmp_path: Path) -> None:
    words = [*harness.OPTIONS, f"setup.save_dir={tmp_path}"]
    for word, compiled in (("auto", True), ("native", True), ("eager", False)):
        parts = build(load_config([*words, f"experiment.learner={word}"]))
        assert isinstance(parts.learner.runner, NativeUpdates) == compiled
    encoder = [*words, "agent.task_input=encoder"]
    assert isinstance(build(load_config(encoder)).learner.runner, EagerUpdates)
    with pytest.raises(ConfigError, match=r"learner=native: agent\.task_input=encoder is not compiled"):
        build(load_config([*encoder, "experiment.learner=native"]))
    with pytest.raises(ConfigError, match=r"experiment\.learner='fast' does not exist"):
        load_config([*words, "experiment.learner=fast"])


# ---- whole runs


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    more = ["setup.threads=2", "experiment.learner=native", "experiment.num_train_steps=300"]
    code, text = harness.run(harness.train_words(tmp_path / "whole", *more), tmp_path)
    assert code == 0, text
    words = harness.train_words(tmp_path / "killed", *more)
    child = harness.Child(words, tmp_path / "out")
    child.wait_for(tmp_path / "killed" / "checkpoints" / "160")
    assert child.kill_after(0.0)
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    harness.assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_both_learners_see_the_same_numbers(tmp_path: Path) -> None:
    """Early on, before rounding has had time to grow, two runs that differ in the learner alone are the same run."""
    logs = []
    for learner in ("eager", "native"):
        run = tmp_path / learner
        more = [f"experiment.learner={learner}", "experiment.num_train_steps=120", "agent.optimizers.actor.eps=1e-3"]
        code, text = harness.run(harness.train_words(run, *more), tmp_path)
        assert code == 0, text
        logs.append(harness.log_rows(run / "train.log"))
    assert len(logs[0]) == len(logs[1]) > 0
    for one, two in zip(*logs, strict=True):
        assert one.keys() == two.keys()
        for name, value in one.items():
            assert two[name] == pytest.approx(value, rel=1e-2, abs=1e-2), name
    assert os.path.exists(tmp_path / "native" / "results.json")
