"""Algorithms, one file each; importing this package makes all of them known by name."""

from medley.agents import (  # noqa: F401
    brc,
    deepmdp,
    distral,
    drqv2,
    hipbmdp,
    must,
    paco,
    pixel_sac,
    sac,
    sac_ae,
    state_deepmdp,
)
from medley.agents.intentions import bc, dac, rce, sacx, sqil  # noqa: F401
