"""The optimiser steps by what gradients say, however they lie in memory."""

from __future__ import annotations

import pytest
import torch

from medley.nn.optimizer import Optimizer, OptimizerConfig


def test_gradients_may_be_transposed_in_memory() -> None:
    g = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    plain, transposed = torch.zeros(3, 5), torch.zeros(3, 5)
    Optimizer([plain], OptimizerConfig()).step([g.clone()], None)
    Optimizer([transposed], OptimizerConfig()).step([g.T.contiguous().T], None)
    assert torch.equal(plain, transposed)
    assert torch.equal(plain.sign(), -g.sign())


@pytest.mark.parametrize("traceable", [False, True])
def test_weight_decay_equals_torch_adamw(traceable: bool) -> None:
    g = torch.Generator().manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(s, generator=g)) for s in ((3,), (2, 4))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    mine = Optimizer(ours, OptimizerConfig(lr=0.05, beta1=0.5, weight_decay=0.3))
    mine.traceable = traceable
    adam = torch.optim.AdamW(theirs, lr=0.05, betas=(0.5, 0.999), weight_decay=0.3)
    for _ in range(20):
        gradients = [torch.randn(p.shape, generator=g) for p in ours]
        for p, gradient in zip(theirs, gradients, strict=True):
            p.grad = gradient.clone()
        adam.step()
        mine.step(gradients, None)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
