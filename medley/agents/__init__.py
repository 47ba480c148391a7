"""Algorithms, one file each."""

from medley.agents import must as _must  # noqa: F401  (registers itself)
from medley.agents import sac as _sac  # noqa: F401
