"""Updates traced, compiled and captured are the agent's own updates. The GPU's part runs where there is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from medley.config.load import load_config
from medley.errors import ConfigError
from medley.training.build import build
from medley.training.graphs import LONGEST, GraphedUpdates
from medley.training.lanes import END, START, split
from medley.training.learner import EagerUpdates, Learner, learn_together
from medley.training.seed import Seed
from medley.training.tracing import PRODUCTS, _lift, changes_first, divide_long_products, trace
from tests.training.updates import PHASES, TASKS, largest_gap, make_seed

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize(
    ("trunk", "task_input"),
    [
        ("multi_head", "one_hot"),
        ("shared", "encoder"),
        pytest.param("disjoint", "one_hot", marks=pytest.mark.long),
        pytest.param("shared", "one_hot", marks=pytest.mark.long),
        pytest.param("multi_head", "encoder", marks=pytest.mark.long),
        pytest.param("disjoint", "encoder", marks=pytest.mark.long),
    ],
)
def test_a_trace_is_the_whole_update(trunk: str, task_input: str) -> None:
    """Sampling, backward passes, clipping, Adam, targets, metrics: nothing happens outside the traced graph."""
    eager, traced = (make_seed(trunk=trunk, task_input=task_input) for _ in range(2))
    traced.set_traceable()
    start = traced.state()
    for phase in PHASES:
        traced.update(phase, traced.draw(phase))
    graphs = {phase: trace(traced, phase) for phase in PHASES}
    traced.set_state(*start)
    for step in range(20):
        phase = PHASES[step % 4]
        eager.update(phase, eager.draw(phase))
        module, tensors = graphs[phase]
        with torch.no_grad():
            split(module, len(tensors))(*tensors, *traced.draw(phase))
    assert largest_gap(eager, traced) < 5e-4  # one step of Adam is 3e-4 per weight; rounding differs between CPUs


@pytest.mark.parametrize("options", [{"uniform": True}, {"n_step": 3}])
def test_every_kind_of_sampling_can_be_traced(options: dict[str, Any]) -> None:
    eager, traced = (make_seed(**options) for _ in range(2))
    module, tensors = trace_from_here(traced)
    follow(eager, traced, module, tensors)


def trace_from_here(seed: Seed) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """The trace of an update, and the seed as it was before."""
    seed.set_traceable()
    start = seed.state()
    seed.update("all", seed.draw("all"))  # so that every metric has a place
    traced = trace(seed, "all")
    seed.set_state(*start)
    return traced


def follow(eager: Seed, traced: Seed, module: torch.fx.GraphModule, tensors: list[torch.Tensor]) -> None:
    for _ in range(5):
        eager.update("all", eager.draw("all"))
        with torch.no_grad():
            module(*tensors, *traced.draw("all"))
    assert largest_gap(eager, traced) < 1e-4


def test_a_trace_is_cut_where_new_weights_are_read() -> None:
    """The critic is trained, then read by the policy's loss: a compiler must not see both at once."""
    pieces = pieces_of(make_seed())
    assert {name // 100 for name in pieces} >= {0, 1}
    for piece in pieces.values():
        changed: set[str] = set()
        for node in piece.graph.nodes:
            if changes_first(node):
                changed.add(node.args[0].name)
            if node.target in PRODUCTS:
                assert not changed & {n.name for n in node.all_input_nodes}


def pieces_of(seed: Seed) -> dict[int, torch.nn.Module]:
    module, tensors = trace_from_here(seed)
    return {int(name.removeprefix("submod_")): piece for name, piece in split(module, len(tensors)).named_children()}


def test_chains_that_do_not_need_one_another_get_lanes() -> None:
    """The target's way, the critics and the policy, until the loss joins them; nothing changes inside a lane."""
    pieces = pieces_of(make_seed())
    lanes = [piece for name, piece in pieces.items() if 0 < name < END]
    products = [sum(node.target in PRODUCTS for node in piece.graph.nodes) for piece in lanes]
    assert sorted(products, reverse=True) == products
    assert len(products) == 3
    assert pieces.keys() >= {START, END}
    for lane in lanes:
        assert not any(changes_first(node) for node in lane.graph.nodes)


def test_chains_that_branch_and_take_in_a_task_are_chains() -> None:
    """Gates beside modules, and a task's label that the weights alone decide: still three ways that do not meet."""
    pieces = pieces_of(make_seed(trunk="soft_modules"))
    lanes = [piece for name, piece in pieces.items() if 0 < name < END]
    products = [sum(node.target in PRODUCTS for node in piece.graph.nodes) for piece in lanes]
    assert len(products) == 3
    assert min(products) >= 8  # a whole network each


def test_a_chain_that_reads_a_change_stays_behind_it() -> None:
    """Statistics are updated and then used on the way into a chain of products: the chain may not overtake them."""

    def update(x: torch.Tensor, w: torch.Tensor, statistic: torch.Tensor, out: torch.Tensor) -> None:
        one = torch.relu(x @ w) @ w @ w
        statistic.add_(1)
        two = torch.relu((x * statistic) @ w) @ w
        three = torch.relu((x + 1) @ w) @ w
        out.copy_(one + two + three)

    inputs = [torch.randn(3, 3, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    expected, got = [x.clone() for x in inputs], [x.clone() for x in inputs]
    module = make_fx(update)(*(x.clone() for x in inputs))
    _lift(module)  # as `trace` does: who reads a changed argument names the argument
    update(*expected)
    pieces = split(module, 0)
    assert len(list(pieces.children())) > 2
    pieces(*got)
    for one, two in zip(expected, got, strict=True):
        torch.testing.assert_close(one, two)


def test_no_piece_hands_over_views_of_arguments() -> None:
    """They would be second names for memory that another piece changes."""
    seed = make_seed()
    module, tensors = trace_from_here(seed)
    known = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    whole = split(module, len(tensors))

    class Watch(torch.fx.Interpreter):
        handed = 0

        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            out = super().call_module(target, args, kwargs)
            for value in out if isinstance(out, tuple) else (out,):
                if isinstance(value, torch.Tensor):
                    self.handed += 1
                    assert value.untyped_storage().data_ptr() not in known
            return out

    watch = Watch(whole)
    with torch.no_grad():
        watch.run(*tensors, *seed.draw("all"))
    assert watch.handed > 3


def test_long_sums_are_divided() -> None:
    eager, traced = (make_seed(rows=512) for _ in range(2))
    module, tensors = trace_from_here(traced)
    before = sum(n.target in PRODUCTS for n in module.graph.nodes)
    divide_long_products(module)
    assert sum(n.target in PRODUCTS for n in module.graph.nodes) < before
    follow(eager, traced, module, tensors)


def test_longer_sums_are_divided_further_until_the_gpu_is_busy() -> None:
    def parts(rows: int, columns: int) -> list[int]:
        module = make_fx(torch.mm, tracing_mode="real")(torch.randn(columns, rows), torch.randn(rows, columns))
        divide_long_products(module)
        left, right = torch.randn(columns, rows, dtype=torch.float64), torch.randn(rows, columns, dtype=torch.float64)
        assert torch.allclose(module(left, right), left @ right)
        return [n.args[2] for n in module.graph.nodes if n.op == "call_function" and len(n.args) == 3]

    assert parts(1280, 400) == [4]  # gradients of a layer
    assert parts(160_000, 10) == [256]  # inner products of ten tasks' gradients
    assert parts(1280, 10) == [4]  # no part under 256 rows
    assert parts(1000, 10) == parts(1282, 10) == parts(1280, 1000) == []


def test_a_long_product_with_a_bias_is_divided_too() -> None:
    bias, left, right = (torch.randn(*shape, dtype=torch.float64) for shape in ((5,), (8, 39_200), (39_200, 5)))
    module = make_fx(torch.addmm, tracing_mode="real")(bias, left, right)
    divide_long_products(module)
    assert not any(n.target is torch.ops.aten.addmm.default for n in module.graph.nodes)
    assert torch.allclose(module(bias, left, right), left @ right + bias)


def test_modes_that_need_a_gpu_are_refused_without_one() -> None:
    for mode in ("graph", "compiled"):
        with pytest.raises(ConfigError, match="needs a GPU"):
            build(load_config(["env=point", "setup.device=cpu", f"experiment.learner={mode}"]))
    with pytest.raises(ConfigError, match="Did you mean 'graph'"):
        load_config(["env=point", "experiment.learner=grahp"])


def learners(mode: str, seeds: int = 1, **changes: Any) -> list[Learner]:
    made = [make_seed("cuda", i, **changes) for i in range(seeds)]
    tasks = tuple("abc")[:TASKS]
    if mode == "eager":
        return [Learner(seed, EagerUpdates(seed), tasks) for seed in made]
    graphs = GraphedUpdates(made, mode == "compiled")
    return [Learner(seed, graphs, tasks) for seed in made]


@gpu
@pytest.mark.parametrize("mode", ["graph", "compiled"])
@pytest.mark.parametrize("changes", [{}, {"actor_update_freq": 2, "critic_target_update_freq": 3}])
def test_captured_updates_are_eager_ones(mode: str, changes: dict[str, Any]) -> None:
    torch.set_float32_matmul_precision("highest")
    (slow,), (fast,) = learners("eager", **changes), learners(mode, **changes)
    for count in (1, LONGEST + 3, 200 - LONGEST - 4):
        slow.learn(count)
        fast.learn(count)
    assert slow.updates == fast.updates == 200
    one, two = slow.drain(0), fast.drain(0)
    assert one == pytest.approx(two, rel=1e-3, abs=1e-4)
    assert largest_gap(slow.seed, fast.seed) < (1e-12 if mode == "graph" else 2e-3)


@gpu
@pytest.mark.parametrize("mode", ["graph", "compiled"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_a_restart_goes_on_exactly(mode: str, seeds: int) -> None:
    before = learners(mode, seeds)
    learn_together(before, 40)
    saved = [({k: v.clone() for k, v in x.seed.agent.state_dict().items()}, x.state()) for x in before]
    saved = [(agent, ({k: v.clone() for k, v in sums.items()}, counts)) for agent, (sums, counts) in saved]
    learn_together(before, 40)
    after = learners(mode, seeds)
    for x, (agent, (sums, counts)) in zip(after, saved, strict=True):
        x.seed.agent.load_state_dict(agent)
        x.set_state(sums, counts)
        x.updates = 40
    learn_together(after, 40)
    for one, two in zip(before, after, strict=True):
        assert one.drain(0) == two.drain(0)
        assert largest_gap(one.seed, two.seed) == 0.0


@gpu
def test_seeds_together_are_the_seeds_alone() -> None:
    torch.set_float32_matmul_precision("highest")
    together, alone = learners("compiled", 3), learners("eager", 3)
    learn_together(together, 100)
    learn_together(alone, 100)
    for one, two in zip(together, alone, strict=True):
        assert one.drain(0) == pytest.approx(two.drain(0), rel=1e-3, abs=1e-4)
        assert largest_gap(one.seed, two.seed) < 2e-3


@gpu
def test_bf16_follows_32_bits_for_a_while() -> None:
    (plain,), (reduced,) = learners("eager", layers=3), learners("compiled", layers=3)
    reduced.seed.agent.reduce_precision()
    plain.learn(20)
    reduced.learn(20)
    one, two = plain.drain(0), reduced.drain(0)
    assert one["critic_loss"] == pytest.approx(two["critic_loss"], rel=0.05)
    assert one["critic_loss"] != two["critic_loss"]
