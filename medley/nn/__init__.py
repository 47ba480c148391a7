"""Building blocks and trunks; importing this package makes all trunks known by name."""

from medley.nn import bronet, film, flashsac, mixture, moore, must, paco, simba_v2, soft_modules, t3s  # noqa: F401
