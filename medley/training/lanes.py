"""Parts of a traced update that do not need one another, side by side on a GPU.

One update of a small network leaves most of a GPU idle. Its graph holds chains of matrix products that only meet at
the loss: the target's way (policy at the next observation, then target critics), the critics, the policy. Each chain
becomes a piece of its own and gets a stream of its own; everything that joins them follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.split_module import split_module

from medley.training.tracing import PRODUCTS, changes_first, is_view

START, END = 0, 99  # what several chains need, and what needs several chains; chains are numbered between
SHORTEST = 2  # products in a chain that is worth a stream


class Plan:
    """Which stage (a number that grows along the update) and which lane of it a node belongs to."""

    def __init__(self, module: fx.GraphModule, lasting: int) -> None:
        self.module = module
        self._data = _data(module, lasting)
        self.stage: dict[fx.Node, int] = {}
        self.lane: dict[fx.Node, int] = {}
        self._base: dict[Any, fx.Node] = {}  # of arguments and their views
        self._late: set[fx.Node] = set()  # what sees a change made in its own stage
        self._find_stages()
        for stage in range(max(self.stage.values(), default=-1) + 1):
            self._find_lanes([node for node, at in self.stage.items() if at == stage])
        self._give_everyone_own_views()

    def place(self, node: fx.Node) -> int:
        return 100 * self.stage[node] + self.lane[node]

    def _find_stages(self) -> None:
        """A new stage begins where a product reads what was changed before it (the critic, after its optimiser).

        A compiler that sees both would keep old and new weights side by side and copy the new ones back at the end.
        """
        stage, changed = 0, set[fx.Node]()
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._base[node] = node
            if node.op != "call_function":
                continue
            if node.target in PRODUCTS and any(self._base.get(read) in changed for read in node.all_input_nodes):
                stage, changed = stage + 1, set()
            if any(self._base.get(read) in changed or read in self._late for read in node.all_input_nodes):
                self._late.add(node)
            self.stage[node] = stage
            if changes_first(node) and node.args[0] in self._base:
                changed.add(self._base[node.args[0]])
            elif is_view(node) and node.args[0] in self._base:
                self._base[node] = self._base[node.args[0]]

    def _find_lanes(self, nodes: list[fx.Node]) -> None:
        chain_of = self._chains(nodes)
        needed: dict[fx.Node, set[int]] = {}  # by which chains
        for node in reversed(nodes):
            own = {chain_of[node]} if node in chain_of else set[int]()
            needed[node] = own.union(*(needed.get(user, set()) for user in node.users))
        for node in nodes:
            chains = needed[node]
            if node in self._late or not chains:
                self.lane[node] = END
            else:
                self.lane[node] = 1 + next(iter(chains)) if len(chains) == 1 else START

    def _give_everyone_own_views(self) -> None:
        """A view of an argument belongs to whoever reads it. Handed from one piece to another, it would be a second
        name for memory that the other may change, and a compiler makes copies to be safe."""
        graph: fx.Graph = self.module.graph
        for node in reversed(list(graph.nodes)):
            if node.op != "call_function" or node not in self._base:
                continue
            readers: dict[int, list[fx.Node]] = {}
            for user in node.users:
                readers.setdefault(self.place(user), []).append(user)
            for i, (place, users) in enumerate(sorted(readers.items())):
                own = node
                if i:
                    with graph.inserting_after(node):
                        own = graph.node_copy(node, lambda n: n)
                    for user in users:
                        user.replace_input_with(node, own)
                self.stage[own], self.lane[own] = divmod(place, 100)

    def _chains(self, nodes: list[fx.Node]) -> dict[fx.Node, int]:
        """Products that follow from one another and from no others, numbered by chain; the longest first.

        A chain may branch and meet itself again, as networks with modules and gates do. Products of weights alone, such
        as what a network makes of a task's name, belong to whoever needs them.
        """
        above: dict[fx.Node, frozenset[fx.Node]] = {}  # the nearest products a node follows from
        chain_of: dict[fx.Node, int] = {}
        for i, node in enumerate(nodes):
            before: set[fx.Node] = set()
            for read in node.all_input_nodes:
                counts = read in above and read.target in PRODUCTS and read in self._data
                before |= {read} if counts else above.get(read, frozenset())
            above[node] = frozenset(before)
            if node.target not in PRODUCTS or node in self._late or node not in self._data:
                continue
            chains = {chain_of.get(last) for last in before}
            if not chains:
                chain_of[node] = i
            elif len(chains) == 1 and (only := chains.pop()) is not None:
                chain_of[node] = only
        sizes = Counter(chain_of.values())
        kept = [chain for chain, size in sizes.most_common() if size >= SHORTEST]
        return {n: kept.index(c) for n, c in chain_of.items() if c in kept} if len(kept) > 1 else {}


def _data(module: fx.GraphModule, lasting: int) -> set[fx.Node]:
    """What depends on the update's random numbers, and so on its batch."""
    found = set[fx.Node]()
    arguments = 0
    for node in module.graph.nodes:
        if node.op == "placeholder":
            arguments += 1
            if arguments > lasting:
                found.add(node)
        elif any(read in found for read in node.all_input_nodes):
            found.add(node)
    return found


def split(module: fx.GraphModule, lasting: int) -> fx.GraphModule:
    """One submodule per stage and lane, named `submod_<100 * stage + lane>`, in an order that can be run.

    The first `lasting` arguments are the tensors that an update reads and changes; the others are its random numbers.
    """
    plan = Plan(module, lasting)
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    nodes = list(module.graph.nodes)
    ordered = [n for n in nodes if n.op == "placeholder"]
    ordered += sorted((n for n in nodes if n.op == "call_function"), key=plan.place)  # a stable sort
    ordered += [n for n in nodes if n.op == "output"]
    for node in ordered:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    places = {copies[node]: plan.place(node) for node in plan.stage}
    sorted_module = fx.GraphModule(module, graph)
    return split_module(sorted_module, module, lambda node: places[node], keep_original_order=True)


class SideBySide(fx.Interpreter):
    """Runs a split module on a GPU, every chain on a stream of its own."""

    def __init__(self, module: fx.GraphModule, prepare: Callable[[torch.nn.Module], Callable[..., Any]]) -> None:
        # Values must stay until all lanes have met: memory freed on one stream could be taken by another too early.
        super().__init__(module, garbage_collect_values=False)
        self._pieces = {name: prepare(piece) for name, piece in module.named_children()}
        lanes = {int(name.removeprefix("submod_")) % 100 for name in self._pieces} - {START, END, 1}
        self._streams: dict[int, Any] = {lane: torch.cuda.Stream() for lane in lanes}  # type: ignore[no-untyped-call]
        self._busy: set[int] = set()
        self._forked: Any = None

    def run(self, *inputs: Any, **more: Any) -> Any:
        try:
            return super().run(*inputs, **more)
        finally:
            self.env.clear()

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        lane = int(target.removeprefix("submod_")) % 100
        main: Any = torch.cuda.current_stream()
        if lane in (START, END):
            self._join(main)
        elif self._forked is None:
            self._forked = main.record_event()
        if lane not in self._streams:
            return self._pieces[target](*args, **kwargs)
        stream = self._streams[lane]
        stream.wait_event(self._forked)
        self._busy.add(lane)
        with torch.cuda.stream(stream):
            return self._pieces[target](*args, **kwargs)

    def _join(self, main: Any) -> None:
        for lane in sorted(self._busy):
            main.wait_stream(self._streams[lane])
        self._busy.clear()
        self._forked = None
