"""Algorithms, one file each."""

from medley.agents import brc as _brc  # noqa: F401  (registers itself)
from medley.agents import sac as _sac  # noqa: F401
