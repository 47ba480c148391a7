"""Building blocks of networks; importing this package makes all trunks known by name."""

from medley.nn import must as _must  # noqa: F401
