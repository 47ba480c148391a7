"""Networks; importing this package makes all trunks known by name."""

from medley.nn import film, mixture, moore, must, paco, soft_modules, t3s  # noqa: F401
