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
from _pytest.terminal import TerminalReporter

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
    """Few processes run all tests: what one file needed for a moment, others would have to do without."""
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


class TellsFailures:
    """What failed is told at once: a process that dies before the end tells nothing."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.write_line(f"\n{report.nodeid}\n{report.longreprtext[-4000:]}")
            self.terminal.flush()


def pytest_sessionstart(session: pytest.Session) -> None:  # before, there is no terminal to tell them to
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, TerminalReporter):
        session.config.pluginmanager.register(TellsFailures(terminal))


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own, which would otherwise come before
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side (`-n 3`), a file stays in one process, and so do all that start a cluster: they take long, so they
    come first, and they take ports and cores, so they wait for each other."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        group = "cluster" if _starts_cluster(item) else str(item.path.relative_to(config.rootpath))
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: not _starts_cluster(item))


def _starts_cluster(item: pytest.Item) -> bool:
    return item.path.parent.name == "scale" or item.path.name == "test_sac_ae_cluster.py"
