"""One thread: tests run side by side with others, and exact arithmetic is part of what they check."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)
# Whether there is a GPU is asked of the driver: by the usual way, children that a test forks could not use it any more.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

# absl (of dm_control) writes to the stderr that it finds when it is imported, and closes it when somebody configures
# logging, as submitit does, unless it is that of the system: in a test it would be pytest's own.
with contextlib.suppress(ImportError):
    import absl.logging

    absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__


@pytest.fixture(scope="module", autouse=True)
def memory_given_back() -> Iterator[None]:
    """One process runs all tests: what one file needed for a moment, others would have to do without."""
    yield
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """New tensors have 64 bits, as those of references do."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def pytest_exception_interact(node: pytest.Item, report: pytest.TestReport) -> None:
    """What failed is told at once: a process that dies before the end tells nothing."""
    terminal = node.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.write_line(f"\n{report.nodeid}\n{report.longreprtext[-4000:]}")
        terminal.flush()
