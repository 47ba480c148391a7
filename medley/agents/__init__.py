"""Algorithms, one file each."""

from medley.agents import sac as _sac  # noqa: F401  (registers itself)
