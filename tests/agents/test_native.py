"""Compiled updates against PyTorch's own, and against the float64 reference; their threads; when there are none."""

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
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.native import blas
from medley.agents.native.learner import NativeSAC
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.gradients import combiners
from medley.nn import trunks
from medley.replay.ring import Replay, Step
from medley.training.build import build
from medley.training.learner import EagerUpdates, NativeUpdates
from tests.agents.test_sac_reference import Reference
from tests.faults import harness

TASKS, OBS, ACT = 3, 5, 2
MASK = np.array([[True, True], [True, False], [True, True]])  # the second task has one action dimension less


@pytest.fixture(autouse=True)
def _threads_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medley.agents.native.learner.ROWS_PER_THREAD", 1)


@pytest.fixture(params=["tiles", "blas"])
def either_product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiles and with BLAS, whatever suits this machine: tiles compile for all, to slower code."""
    monkeypatch.setattr("medley.agents.native.memory.has_wide_vectors", lambda: request.param == "tiles")


def options(**changes: Any) -> SACConfig:
    o = SACConfig(name="sac", builder="sac", critic_tau=0.1, init_temperature=0.3)
    o.actor.hidden_dim, o.actor.num_layers = 20, 2
    o.critic.hidden_dim, o.critic.num_layers = 18, 3
    rates = o.optimizers
    rates.actor.lr, rates.critic.lr, rates.alpha.lr = 0.02, 0.01, 0.03
    rates.critic.beta1, rates.actor.beta2, rates.alpha.beta1 = 0.8, 0.99, 0.7
    for config in (rates.actor, rates.critic, rates.alpha):
        config.eps = 1e-3  # a small one turns rounding into steps where gradients are near zero
    for name, value in changes.items():
        place: Any = o
        *path, last = name.split("__")
        for word in path:
            place = getattr(place, word)
        setattr(place, last, value)
    return o


def agent(o: SACConfig, mask: Any = MASK, seed: int = 0) -> SAC:
    mask = np.asarray(mask)
    spaces = Spaces(tuple(f"t{i}" for i in range(len(mask))), OBS, mask.shape[1], mask)
    made = SAC(o, spaces, torch.device("cpu"), seed)
    generator = torch.Generator().manual_seed(seed + 10)
    with torch.no_grad():  # output layers start near zero, where mistakes hide: make everything matter
        for network in (made.actor, made.critic, made.target):
            for p in network.parameters():
                p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return made


def native(of: SAC, threads: int = 2) -> NativeSAC:
    made = of.native(threads)
    assert isinstance(made, NativeSAC), made
    return made


def batch(seed: int, rows: int = 6, mask: Any = MASK) -> Batch:
    g = torch.Generator().manual_seed(seed)
    shape = (len(mask), rows)

    def normal(*more: int) -> Tensor:
        return torch.randn(*shape, *more, generator=g)

    return Batch(
        obs=normal(OBS),
        action=torch.tanh(normal(len(mask[0]))) * torch.from_numpy(np.asarray(mask)).unsqueeze(1),
        reward=normal(),
        discount=0.9 * (torch.rand(shape, generator=g) > 0.3),
        next_obs=normal(OBS),
        weight=torch.rand(shape, generator=g) * 2,
    )


def assert_alike(one: SAC, two: SAC, tolerance: float, when: str = "") -> None:
    a, b = one.state_dict(), two.state_dict()
    assert torch.equal(a["generator"], b["generator"]), "they drew different numbers"
    for name, value in a.items():
        if name.endswith("step"):
            assert torch.equal(value, b[name]), f"{name} {when}"
        gap = float((value.double() - b[name].double()).abs().max())
        assert gap < tolerance, f"{name} differs by {gap} {when}"


def compare(o: SACConfig, threads: int = 2, updates: int = 30, rows: int = 6, mask: Any = MASK) -> None:
    eager, other = agent(o, mask), agent(o, mask)
    start = {k: v.clone() for k, v in eager.state_dict().items()}
    compiled = native(other, threads)
    for n in range(updates):
        b = batch(n, rows, mask)
        wanted, got = eager.update(b, eager.phase(n)), compiled.update(b, other.phase(n))
        assert wanted.keys() == got.keys()
        for name, value in wanted.items():
            assert value.shape == got[name].shape
            scale = max(1.0, float(value.abs().max()))
            assert torch.allclose(value, got[name], atol=2e-4 * scale), f"{name}, update {n}: {value}, {got[name]}"
        if n == 0:
            assert_alike(eager, other, 5e-6, "after one update")
    assert_alike(eager, other, 5e-4, f"after {updates} updates")
    for name in ("actor.", "critic.", "target."):
        moved = max(float((v - start[k]).abs().max()) for k, v in eager.state_dict().items() if k.startswith(name))
        assert moved > 0.004 * updates**0.5, f"{name} hardly moved: the comparison says little"
    compiled.close()


# ---- the numbers


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("alpha_per_task", [False, True])
@pytest.mark.parametrize("task_input", ["one_hot", "none"])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_equals_eager(trunk: str, task_input: str, alpha_per_task: bool) -> None:
    compare(options(trunk=trunk, task_input=task_input, alpha_per_task=alpha_per_task))


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
@pytest.mark.parametrize(
    "changes",
    [
        {"grad_clip": None},
        {"grad_clip": 0.05},
        {"learn_temperature": False, "init_temperature": 0.7},
        {"target_entropy": -0.5, "alpha_per_task": True},
        {"actor_update_freq": 2, "critic_target_update_freq": 3},
        {"critic_tau": 1.0},
        {"actor__log_std_bounding": "tanh", "actor__log_std_bounds": [-3.0, 1.0]},
        {"actor__log_std_bounds": [-0.3, 0.2]},  # so narrow that some outputs are cut and have no gradient
        {"actor__num_layers": 1, "critic__num_layers": 1},
        {"actor__num_layers": 4, "critic__num_layers": 2, "actor__hidden_dim": 7, "critic__hidden_dim": 1},
    ],
    ids=str,
)
def test_options_equal_eager(trunk: str, changes: dict[str, Any]) -> None:
    compare(options(trunk=trunk, **changes), updates=12)


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_any_number_of_threads(trunk: str, threads: int) -> None:
    compare(options(trunk=trunk), threads, rows=7)


@pytest.mark.usefixtures("either_product")
def test_fewer_rows_than_threads() -> None:
    for threads in (3, 5):
        compare(options(), threads, updates=5, rows=1)


@pytest.mark.usefixtures("either_product")
def test_one_task_with_a_batch_and_network_of_real_size() -> None:
    o = options(actor__hidden_dim=256, critic__hidden_dim=256, critic__num_layers=2)
    compare(o, updates=5, rows=256, mask=np.ones((1, 4), dtype=bool))


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
@pytest.mark.parametrize(("actor", "critic", "rows", "threads"), [(24, 40, 19, 2), (33, 17, 20, 3), (72, 400, 3, 1)])
def test_odd_widths(trunk: str, actor: int, critic: int, rows: int, threads: int) -> None:
    o = options(trunk=trunk, actor__hidden_dim=actor, critic__hidden_dim=critic)
    compare(o, threads, updates=6, rows=rows)


@pytest.mark.usefixtures("either_product")
def test_many_action_dimensions() -> None:
    compare(options(), updates=12, mask=np.arange(2 * 21).reshape(2, 21) % 5 > 0)


def test_rows_where_both_critics_agree_count_half_for_each() -> None:
    agents = [agent(options()) for _ in range(2)]
    for one in agents:
        with torch.no_grad():
            for network in (one.critic, one.target):
                for p in network.parameters():
                    p[1] = p[0]
    compiled = native(agents[1])
    for n in range(4):
        agents[0].update(batch(n), "all")
        compiled.update(batch(n), "all")
    assert_alike(*agents, 5e-5)


def test_a_tau_of_one_copies_the_critic() -> None:
    one = agent(options(critic_tau=1.0))
    native(one).update(batch(0), "all")
    for name, value in one.critic.state_dict().items():
        assert torch.equal(value, one.target.state_dict()[name]), name


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_equals_the_float64_reference(trunk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TASKS": TASKS, "ROWS": 6, "OBS": OBS, "ACT": ACT, "MASK": MASK}.items():
        monkeypatch.setattr(f"tests.agents.test_sac_reference.{name}", value)
    o = options(trunk=trunk, alpha_per_task=True)
    one = agent(o)
    compiled = native(one)
    exact = Reference(o, {k: v.double() for k, v in one.state_dict().items()})
    rng = np.random.default_rng(0)
    for n in range(3):
        noises = [torch.from_numpy(rng.normal(size=(TASKS, 6, ACT))) for _ in range(2)]
        queue = list(noises)
        compiled._draw = lambda noise, queue=queue: noise.copy_(queue.pop(0))  # type: ignore[method-assign, misc]
        b = batch(n)
        got = {k: float(v) for k, v in compiled.update(b, "all").items() if v.ndim == 0}
        torch.set_default_dtype(torch.float64)
        try:
            wanted = exact.update(Batch(**{k: v.double() for k, v in vars(b).items()}), noises, "all")
        finally:
            torch.set_default_dtype(torch.float32)
        for name, value in wanted.items():
            assert got[name] == pytest.approx(value, rel=1e-5, abs=1e-5), f"{name}, update {n}"
        for name, tensor in one.state_dict().items():
            if name in exact.p:
                gap = float((tensor - exact.p[name].detach()).abs().max())
                assert gap < 1e-5, f"{name} differs by {gap} after update {n}"


@pytest.mark.usefixtures("either_product")
def test_what_is_not_finite_does_not_get_lost() -> None:
    for field in ("obs", "action", "reward", "next_obs"):
        one = agent(options())
        b = batch(0)
        getattr(b, field)[1, 2] = float("nan")
        metrics = native(one).update(b, "all")
        assert not torch.isfinite(metrics["critic_loss_per_task"][1])
        assert torch.isfinite(metrics["critic_loss_per_task"][0])
        assert not torch.isfinite(one.state_dict()["critic.hidden.1.weight"]).all()


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("bounding", ["clamp", "tanh"])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_acts_alike(trunk: str, bounding: str, rows: int) -> None:
    one = agent(options(trunk=trunk, actor__log_std_bounding=bounding))
    compiled = native(one)
    for n in range(3):
        obs, noise = 3 * batch(n, rows).obs, batch(n + 7, rows).action
        for e in (noise, None):
            got = compiled.act(obs, e)
            assert torch.allclose(got, one.act(obs, e), atol=1e-6)
            assert torch.equal(got, compiled.act(obs.transpose(0, 1).contiguous().transpose(0, 1), e))
        compiled.update(batch(n), "all")
    assert compiled.act(torch.zeros(TASKS, 2, OBS), None).shape == (TASKS, 2, ACT)


# ---- rows straight from replay


def ring(n_step: int, uniform: bool, steps: int) -> Replay:
    made = Replay(TASKS, 2, 40, OBS, ACT, torch.device("cpu"), 7, n_step, 0.9, uniform)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        ended = rng.random((TASKS, 2)) < 0.2
        made.add(
            Step(
                obs=rng.normal(size=(TASKS, 2, OBS)).astype(np.float32),
                action=rng.normal(size=(TASKS, 2, ACT)).astype(np.float32),
                reward=rng.normal(size=(TASKS, 2)).astype(np.float32),
                next_obs=rng.normal(size=(TASKS, 2, OBS)).astype(np.float32),
                terminated=ended & (rng.random((TASKS, 2)) < 0.5),
                ended=ended,
            )
        )
    return made


@pytest.mark.parametrize("steps", [8, 50])  # before and after the ring wraps around
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
def test_rows_read_from_replay_are_those_of_sample(n_step: int, uniform: bool, steps: int) -> None:
    one, two = agent(options()), agent(options())
    a, b = ring(n_step, uniform, steps), ring(n_step, uniform, steps)
    factor = torch.tensor([[0.5], [2.0], [1.3]])
    first, second = native(one), native(two)
    for n in range(4):
        if n == 2:
            factor.mul_(1.7)
            a.set_written(a.written - 3)
            b.set_written(b.written - 3)
        sample = a.sample(9)
        sample.reward = sample.reward * factor
        wanted, got = first.update(sample, "all"), second.update_from(b, factor, 9, "all")
        for name, value in wanted.items():
            assert torch.equal(value, got[name]), name
        assert torch.equal(a.generator.get_state(), b.generator.get_state())
    assert_alike(one, two, 1e-30)
    second.update(a.sample(4), "all")  # another size, and back
    first.update_from(a, factor, 5, "critic")
    first.update_from(ring(1, False, 8), factor, 5, "critic")


# ---- state


@pytest.mark.usefixtures("either_product")
def test_saved_and_loaded_agents_go_on_bit_for_bit() -> None:
    one, two = agent(options()), agent(options(), seed=5)
    first, second = native(one), native(two)
    for n in range(3):
        first.update(batch(n), "all")
    second.update(batch(9), "all")
    two.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    for n in range(3, 6):
        first.update(batch(n), "all")
        second.update(batch(n), "all")
    assert_alike(one, two, 1e-30)


def test_the_learning_rate_is_read_at_every_update() -> None:
    one = agent(options(learn_temperature=False))
    compiled = native(one)
    for optimizer in one.optimizers.values():
        optimizer.lr.fill_(0.0)
    before = {k: v.clone() for k, v in one.state_dict().items() if k.startswith(("actor", "critic"))}
    compiled.update(batch(0), "all")
    for name, value in before.items():
        assert torch.equal(value, one.state_dict()[name])


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
    combiners.register_combiner("sum", lambda tasks: Sum())
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
        assert isinstance(parts.learner.how, NativeUpdates) == compiled
    encoder = [*words, "agent.task_input=encoder"]
    assert isinstance(build(load_config(encoder)).learner.how, EagerUpdates)
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
