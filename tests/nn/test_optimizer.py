"""The optimiser steps by what gradients say, however they lie in memory."""

from __future__ import annotations

import torch

from medley.nn.optimizer import Optimizer, OptimizerConfig


def test_gradients_may_be_transposed_in_memory() -> None:
    g = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    plain, transposed = torch.zeros(3, 5), torch.zeros(3, 5)
    Optimizer([plain], OptimizerConfig()).step([g.clone()], None)
    Optimizer([transposed], OptimizerConfig()).step([g.T.contiguous().T], None)
    assert torch.equal(plain, transposed)
    assert torch.equal(plain.sign(), -g.sign())
