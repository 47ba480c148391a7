"""Building blocks and trunks; importing this package makes all trunks known by name."""

from medley.nn import bronet, flashsac, simba_v2  # noqa: F401
