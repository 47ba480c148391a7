"""What MUST costs at the size of MT10, in processor time, which other programs on the machine hardly change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch

from medley.agents.api import Batch, Spaces
from medley.agents.must import MUST
from medley.agents.must_options import MustSACConfig
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.replay.ring import Step

pytestmark = pytest.mark.long
TASKS, ROWS, OBS, ACT, HORIZON = 10, 128, 39, 4, 500
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def spaces() -> Spaces:
    return Spaces(tuple("abcdefghij"), OBS, ACT, np.ones((TASKS, ACT), dtype=bool), HORIZON)


def make_must() -> MUST:
    return MUST(MustSACConfig(name="must", builder="must", trunk="must", alpha_per_task=True), spaces(), CPU, 0)


def batch() -> Batch:
    obs, action, reward = torch.randn(TASKS, ROWS, OBS), torch.randn(TASKS, ROWS, ACT).tanh(), torch.randn(TASKS, ROWS)
    return Batch(obs, action, reward, torch.full_like(reward, 0.99), torch.randn_like(obs), torch.ones_like(reward))


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def test_an_update_costs_less_than_twice_a_plain_one() -> None:
    plain = SAC(SACConfig(name="sac", builder="sac", trunk="multi_head", alpha_per_task=True), spaces(), CPU, 0)
    must, rows = make_must(), batch()
    costs = {
        name: min(seconds(partial(agent.update, rows, "all")) for _ in range(6))
        for name, agent in (("sac", plain), ("must", must))
    }
    print({name: f"{1000 * cost:.0f} ms" for name, cost in costs.items()})
    assert costs["must"] < 2 * costs["sac"]


def test_a_refresh_takes_two_cores_less_than_ten_seconds() -> None:
    must, rows = make_must(), batch()
    rng = np.random.default_rng(0)
    ended, none = np.zeros((TASKS, 1), dtype=bool), np.zeros((TASKS, 1))
    for k in range(4 * HORIZON):
        obs = rng.normal(size=(TASKS, 1, OBS)).astype(np.float32)
        must.observe([Step(obs, none, none, none, ended, ended | (k % HORIZON == HORIZON - 1))], 1)
    must.clock.numbers[:2] = torch.tensor([50 * HORIZON * TASKS, 1000])
    phases = [must.phase(1000 + k) for k in range(20)]
    assert "supervise" in phases[0]
    assert "publish" in phases[-1]
    whole = seconds(lambda: [must.update(rows, phase) for phase in phases])
    usual = 20 * min(seconds(lambda: must.update(rows, "all")) for _ in range(3))
    print(f"{whole:.1f} s, of which {usual:.1f} s are the updates that it is made of")
    assert whole < 20
