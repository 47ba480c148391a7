"""Gradient combiners; importing this package makes all of them known by name."""

from medley.gradients import gram, weighting  # noqa: F401
