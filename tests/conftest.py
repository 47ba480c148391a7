"""One thread: tests run side by side with others, and exact arithmetic is part of what they check."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
