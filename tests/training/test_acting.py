"""Copies of a policy act as the agent did when they were refreshed."""

from __future__ import annotations

import pytest
import torch

from medley.training.acting import CopyOnCPU, CopyOnGPU, OwnPolicy, acts_on_gpu
from medley.training.stacking import stack_in_place
from tests.training.updates import ACT, OBS, TASKS, make_agent

CPU = torch.device("cpu")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def rows(count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(TASKS, count, OBS, generator=generator), torch.randn(TASKS, count, ACT, generator=generator)


@pytest.mark.parametrize("task_input", ["one_hot", "encoder"])
def test_a_copy_on_the_cpu_follows_only_when_refreshed(task_input: str) -> None:
    agent = make_agent(task_input=task_input)
    copy = CopyOnCPU(agent, make_agent(seed=9, task_input=task_input))
    obs, noise = rows()
    first = agent.act(obs, noise)
    torch.testing.assert_close(copy(obs, noise), first)
    with torch.no_grad():
        for tensor in agent.policy_tensors():
            tensor.add_(0.02)
    torch.testing.assert_close(copy(obs, noise), first)
    copy.refresh()
    second = agent.act(obs, None)
    assert (second - agent.act(obs, noise)).abs().max() > 1e-3
    torch.testing.assert_close(copy(obs, None), second)
    assert (copy(obs, noise) - first).abs().max() > 1e-3


def test_a_copy_finds_weights_that_were_moved() -> None:
    """Seeds that are trained together get their tensors laid side by side after the copies were made."""
    one, two = make_agent(), make_agent(seed=1)
    copy = CopyOnCPU(one, make_agent(seed=9))
    for pair in zip(one.actor.parameters(), two.actor.parameters(), strict=True):
        stack_in_place(pair).mul_(1.5)
    copy.refresh()
    obs, noise = rows()
    torch.testing.assert_close(copy(obs, noise), one.act(obs, noise))


def test_the_agent_itself_needs_no_refresh() -> None:
    agent = make_agent()
    own, (obs, noise) = OwnPolicy(agent, CPU), rows()
    with torch.no_grad():
        agent.policy_tensors()[0].add_(0.3)
    assert torch.equal(own(obs, noise), agent.act(obs, noise))


def test_without_a_gpu_everything_acts_on_the_cpu() -> None:
    assert not acts_on_gpu(make_agent(), 10**6, 1, CPU)


def test_many_rows_act_on_the_gpu_and_few_rows_with_lasting_weights_do_not() -> None:
    device = torch.device("cuda")
    assert acts_on_gpu(make_agent(), 80, 1, device)
    assert not acts_on_gpu(make_agent(), 1, 100, device)


@gpu
def test_a_copy_on_the_gpu_follows_only_when_refreshed() -> None:
    agent, on_cpu = make_agent("cuda"), make_agent()
    copy = CopyOnGPU(agent, make_agent("cuda", seed=9))
    for count in (1, 4, 4):
        obs, noise = rows(count)
        torch.testing.assert_close(copy(obs, noise), on_cpu.act(obs, noise), atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(copy(obs, None), on_cpu.act(obs, None), atol=1e-3, rtol=1e-3)
    before = copy(obs, noise)
    with torch.no_grad():
        for tensor in agent.policy_tensors():
            tensor.add_(0.02)
    torch.cuda.synchronize()
    assert torch.equal(copy(obs, noise), before)
    copy.refresh()
    assert (copy(obs, noise) - before).abs().max() > 1e-3
    mixed = CopyOnCPU(agent, make_agent(seed=9))
    torch.testing.assert_close(mixed(obs, noise), copy(obs, noise), atol=1e-3, rtol=1e-3)
