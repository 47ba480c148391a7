"""Algorithms, one file each; importing this package makes all of them known by name."""

from medley.agents import brc, distral, must, paco, sac  # noqa: F401
