"""One slot of the simulator as a NumPy record: what compiled code reads and writes, and what a restart keeps.

Task code sees a slot as `s`: `s.target`, `s.obs[3]`, `s.v[HEIGHT]`. Where things are in MuJoCo's memory is in
`s.refs`, one address per reference that a task declares (see tasks/base.py); `load(s, REF)` reads three
numbers there.
"""

from __future__ import annotations

import numba
import numpy as np

MAX_REFS = 48  # references per task, the common ones included
MAX_MOVED = 8  # places of the model that a reset moves
MAX_GOAL = 6  # numbers in a goal vector
MAX_VARIABLES = 24  # numbers a task may keep from its reset for its rewards

OUTCOME = (
    "reward",
    "success",
    "near_object",
    "grasp_success",
    "grasp_reward",
    "in_place_reward",
    "obj_to_target",
    "unscaled_reward",
)

# Addresses, different in every process, and constants of the task: never saved.
_FIXED = [
    ("model", np.int64),
    ("data", np.int64),
    ("mj_step", np.int64),
    ("mj_forward", np.int64),
    ("mj_get_state", np.int64),
    ("mj_set_state", np.int64),
    ("mj_reset_data", np.int64),
    ("reset", np.int64),
    ("objects", np.int64),
    ("evaluate", np.int64),
    ("refs", np.int64, MAX_REFS),
    ("moved", np.int64, MAX_MOVED),  # indices into refs
    ("moved_count", np.int64),
    ("moved_base", np.float64, (MAX_MOVED, 3)),
    ("settled", np.int64),  # address of the state one physics step before the hand has come to rest
    ("settles_by_goal", np.int64),
    ("settled_here", np.int64),  # the same for this goal; 0: not known yet
    ("keep_settled", np.int64),  # where to keep it once it is known; 0: nowhere
    ("hand_init", np.float64, 3),
    ("mocap_low", np.float64, 3),
    ("mocap_high", np.float64, 3),
    ("goal_low", np.float64, 3),
    ("goal_high", np.float64, 3),
    ("hide_goal", np.int64),
]
# All that an episode is beside MuJoCo's own state.
EPISODE = [
    ("goal", np.float64, MAX_GOAL),
    ("target", np.float64, 3),
    ("init_tcp", np.float64, 3),
    ("obj_init", np.float64, 3),
    ("v", np.float64, MAX_VARIABLES),
    ("previous", np.float64, 18),
    ("obs", np.float64, 39),
]
_STEP = [("action", np.float32, 4), ("unstable", np.int64), *((name, np.float64) for name in OUTCOME)]

SLOT = np.dtype([*_FIXED, *EPISODE, *_STEP], align=True)
slot_type = numba.from_dtype(SLOT)
