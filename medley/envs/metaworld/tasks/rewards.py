"""The shapes that rewards are made of: nearness, progress, cages of two fingers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from medley.envs.metaworld.tasks.base import LEFT_PAD, RIGHT_PAD, Triple, compiled
from medley.envs.metaworld.tasks.shared import distance, flag, load, norm2, report, tcp, touching, vec

# ---- nearness, in [0, 1]


@compiled
def _outside(x: float, low: float, high: float, margin: float) -> float:
    """How many margins `x` lies outside [low, high]."""
    if low <= x <= high:
        return 0.0
    return (low - x if x < low else x - high) / margin


@compiled
def tolerance(x: float, low: float, high: float, margin: float) -> float:
    """1 within [low, high], falling with a long tail to 0.1 at `margin` outside; to 0 at once if that is 0."""
    scaled = _outside(x, low, high, margin) * math.sqrt(1 / 0.1 - 1)
    return 1.0 / (scaled * scaled + 1.0)


@compiled
def gaussian_tolerance(x: float, low: float, high: float, margin: float) -> float:
    """The same falling like a bell."""
    scaled = _outside(x, low, high, margin) * math.sqrt(-2 * math.log(0.1))
    return math.exp(-0.5 * scaled * scaled)


@compiled
def hamacher(a: float, b: float) -> float:
    """A product for values in [0, 1] that is milder than a * b."""
    denominator = a + b - a * b
    return a * b / denominator if denominator > 0.0 else 0.0


@compiled
def funnel(radius: float, mouth: float, slope: float, height: float) -> float:
    """A floor at distance `radius` from a point: it has a hole of radius `mouth` there and rises steeply around it."""
    return slope * math.log(radius - mouth) + height if radius > mouth else 0.0


@compiled
def above(z: float, floor: float, margin: float) -> float:
    """1 above a floor, falling below it."""
    return 1.0 if z >= floor else tolerance(floor - z, 0.0, 0.01, margin)


@compiled
def alignment(s: Any, w: float, z: float, slack: float) -> float:
    """1 if the first object's quaternion in the observation is (w, 0, 0, z), 0 at `slack` from there."""
    error = s.obs[7] - w, s.obs[8], s.obs[9], s.obs[10] - z
    length = math.sqrt(error[0] * error[0] + error[1] * error[1] + error[2] * error[2] + error[3] * error[3])
    return max(1.0 - length / slack, 0.0)


# ---- progress: what reward version 1 gives for the way that is done


@compiled
def bonus(x: float, wide: float = 0.01, narrow: float = 0.001) -> float:
    """For the last few centimetres to the target."""
    return math.exp(-(x * x) / wide) + math.exp(-(x * x) / narrow)


@compiled
def uncut_progress(longest: float, left: float, wide: float = 0.01, narrow: float = 0.001) -> float:
    """For the way that is done of `longest`, with `left` to go; negative for going the wrong way."""
    return 1000 * (longest - left) + 1000 * bonus(left, wide, narrow)


@compiled
def progress(longest: float, left: float, wide: float = 0.01, narrow: float = 0.001) -> float:
    """The same cut off at 0."""
    return max(uncut_progress(longest, left, wide, narrow), 0.0)


@compiled
def pull_reward(reach: float, left: float, longest: float, wide: float = 0.01, narrow: float = 0.001) -> float:
    """Reward version 1 of most tasks that move something without lifting it: come close, then move it. `reach` is the
    hand's distance, `left` what is left of the way, `longest` that way at the reset."""
    return -reach + progress(longest, left, wide, narrow) if reach < 0.05 else -reach


# ---- single precision
#
# The action is in single precision, and where it enters a reward the package goes on in single precision as long as
# it meets plain Python numbers only (any number of NumPy's in double precision ends that). A value that may be either
# travels with a flag, `single`.


@compiled
def rounded(x: float, single: bool) -> float:
    """`x` as the package would hold it. Rounding after every operation equals arithmetic in single precision."""
    return float(np.float32(x)) if single else x


@compiled
def plus(a: float, b: float, single: bool) -> float:
    """`a + b` of numbers of which one may be in single precision."""
    return rounded(rounded(a, single) + rounded(b, single), single)


@compiled
def hamacher_single(a: float, b: float, single: bool) -> float:
    """`hamacher` of numbers of which one may be in single precision."""
    if not single:
        return hamacher(a, b)
    a, b = rounded(a, True), rounded(b, True)
    product = rounded(a * b, True)
    denominator = rounded(rounded(a + b, True) - product, True)
    return rounded(product / denominator, True) if denominator > 0.0 else 0.0


@compiled
def closing(s: Any, effort: float) -> tuple[float, bool]:
    """How far the action closes the gripper, of what counts as closing it, and whether that is in single precision."""
    grip = s.action[3]
    if grip <= np.float32(0.0):
        return 0.0, False
    if grip > np.float32(effort):
        return 1.0, False
    return rounded(grip / np.float32(effort), True), True


@compiled
def grip_effort(s: Any) -> float:
    """The action of the gripper, from 0 (open) to 1 (closed)."""
    grip = min(max(s.action[3], np.float32(-1.0)), np.float32(1.0))
    return rounded(grip + np.float32(1.0), True) / 2.0


# ---- cages: the object between the fingers


@compiled
def _beside(s: Any, obj: Triple, start: Triple, xz_reach: float) -> float:
    """How close the fingers are to the object in x and z. `start` is where it was at the reset."""
    point = tcp(s)
    margin = norm2(start[0] - s.init_tcp[0], start[2] - s.init_tcp[2]) - xz_reach
    return tolerance(norm2(point[0] - obj[0], point[2] - obj[2]), 0.0, xz_reach, margin)


@compiled
def pads_around(s: Any, obj: Triple, radius: float, pad_reach: float) -> float:
    """How well the pads stand on the left and the right of the object (y axis), each on its own side."""
    left, right = load(s, LEFT_PAD)[1] - obj[1], obj[1] - load(s, RIGHT_PAD)[1]
    return hamacher(
        tolerance(left, radius, pad_reach, abs(abs(left) - 0.05)),
        tolerance(right, radius, pad_reach, abs(abs(right) - 0.05)),
    )


@compiled
def cage_around(s: Any, obj: Triple, radius: float, xz_reach: float) -> float:
    """Pads around the object as above, and close in x and z."""
    return hamacher(pads_around(s, obj, radius, 0.05), _beside(s, obj, vec(s.obj_init), xz_reach))


@compiled
def grip_caged(s: Any, caging: float, effort: float) -> tuple[float, bool]:
    """Closing the gripper counts once the object is caged. The second value says whether the first is in single
    precision."""
    gripping, single = closing(s, effort) if caging > 0.97 else (0.0, False)
    return hamacher_single(caging, gripping, single), single


# What `cage` averages its reward with: nothing, reaching, or caging without gripping.
PLAIN, WITH_REACHING, WITH_CAGING = range(3)


@compiled
def cage(
    s: Any,
    obj: Triple,
    start: Triple,
    radius: float,
    pad_reach: float = 0.05,
    xz_reach: float = 0.01,
    reach_radius: float = 0.01,
    effort: float = 1.0,
    average: int = WITH_CAGING,
) -> tuple[float, bool]:
    """The package's gripper-caging reward: pads around the object, close in x and z, then gripping. The second value
    says whether the first is in single precision. `start` is where the object was at the reset."""
    left, right = load(s, LEFT_PAD)[1], load(s, RIGHT_PAD)[1]
    sides = hamacher(
        tolerance(abs(left - obj[1]), radius, pad_reach, abs(abs(left - start[1]) - pad_reach)),
        tolerance(abs(right - obj[1]), radius, pad_reach, abs(abs(right - start[1]) - pad_reach)),
    )
    caging = hamacher(sides, _beside(s, obj, start, xz_reach))
    result, single = grip_caged(s, caging, effort)
    if average == WITH_CAGING:
        result = plus(result, caging, single) / 2
    if average == WITH_REACHING:
        margin = abs(distance(start, vec(s.init_tcp)) - reach_radius)
        result = plus(result, tolerance(distance(obj, tcp(s)), 0.0, reach_radius, margin), single) / 2
    return result, single


# ---- outcomes of version 2


@compiled
def lifted(s: Any, geom: int) -> float:
    """Is the object behind the reference `geom` held above where it started?"""
    return flag(touching(s, geom) and s.obs[3] > 0 and s.obs[6] - 0.02 > s.obj_init[2])


@compiled
def report_v2(s: Any, reward: float, radius: float, grasp_success: float, grasp: float, in_place: float) -> None:
    """Write an outcome of version 2 in tasks that bring an object to the target: 10 within 5 cm, success within
    `radius`."""
    obj = vec(s.obs[4:])
    to_object, to_target = distance(obj, tcp(s)), distance(obj, vec(s.target))
    if to_target < 0.05:
        reward = 10.0
    report(s, reward, flag(to_target <= radius), flag(to_object <= 0.03), grasp_success, grasp, in_place, to_target)
