"""The pieces that task functions are made of: vectors as tuples, memory behind references, outcomes. The shapes of
rewards are in rewards.py."""

from __future__ import annotations

import math
from typing import Any

from medley.envs.metaworld.tasks.base import (
    CONSTRAINT_FORCES,
    CONTACT_COUNT,
    CONTACTS,
    FIRST,
    LEFT_PAD_GEOM,
    LEFT_TIP,
    QPOS,
    QVEL,
    RIGHT_PAD_GEOM,
    RIGHT_TIP,
    Triple,
    compiled,
)
from medley.native.intrinsics import call2, load_double, load_int32, load_int64, store_double

# MuJoCo's mjContact, in bytes (checked against the bindings when a simulator is built).
CONTACT_SIZE, CONTACT_GEOM1, CONTACT_GEOM2, CONTACT_EFC = 576, 524, 528, 568

# ---- vectors


@compiled
def vec(a: Any) -> Triple:
    """The first three numbers of an array."""
    return a[0], a[1], a[2]


@compiled
def put(a: Any, b: Triple) -> None:
    """Write a triple into the first three places of an array."""
    a[0], a[1], a[2] = b


@compiled
def add(a: Triple, b: Triple) -> Triple:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@compiled
def sub(a: Triple, b: Triple) -> Triple:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def norm(a: Triple) -> float:
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


@compiled
def norm2(x: float, y: float) -> float:
    return math.sqrt(x * x + y * y)


@compiled
def distance(a: Triple, b: Triple) -> float:
    return norm(sub(a, b))


@compiled
def distance_xy(a: Triple, b: Triple) -> float:
    return norm2(a[0] - b[0], a[1] - b[1])


@compiled
def scaled_distance(a: Triple, b: Triple, scale: Triple) -> float:
    """The distance with some directions counting more than others."""
    d = sub(a, b)
    return norm((d[0] * scale[0], d[1] * scale[1], d[2] * scale[2]))


@compiled
def flag(condition: bool) -> float:
    return 1.0 if condition else 0.0


# ---- MuJoCo's memory


@compiled
def load(s: Any, ref: int) -> Triple:
    """Three numbers at a reference, such as a position."""
    a = s.refs[ref]
    return load_double(a), load_double(a + 8), load_double(a + 16)


@compiled
def load1(s: Any, ref: int, index: int) -> float:
    """One number of the array at a reference, such as `load1(s, QPOS, 9)`."""
    value: float = load_double(s.refs[ref] + 8 * index)
    return value


@compiled
def store1(s: Any, ref: int, index: int, value: float) -> None:
    store_double(s.refs[ref] + 8 * index, value)


@compiled
def store(s: Any, ref: int, value: Triple) -> None:
    """Write three numbers at a reference, such as a body's place in the model."""
    a = s.refs[ref]
    store_double(a, value[0])
    store_double(a + 8, value[1])
    store_double(a + 16, value[2])


@compiled
def forward(s: Any) -> None:
    """Positions, contacts and forces for the joint positions as they are now (`mj_forward`)."""
    call2(s.mj_forward, s.model, s.data)


@compiled
def physics_step(s: Any) -> None:
    call2(s.mj_step, s.model, s.data)


@compiled
def set_free_object(s: Any, position: Triple) -> None:
    """Put the object whose free joint starts at qpos 9 somewhere, at rest (its orientation stays)."""
    for i in range(3):
        store1(s, QPOS, 9 + i, position[i])
    for i in range(6):
        store1(s, QVEL, 9 + i, 0.0)
    forward(s)


@compiled
def set_joint(s: Any, position: float) -> None:
    """Put the joint at qpos 9 somewhere, at rest."""
    store1(s, QPOS, 9, position)
    store1(s, QVEL, 9, 0.0)
    forward(s)


@compiled
def tcp(s: Any) -> Triple:
    """The point between the finger tips."""
    a, b = load(s, RIGHT_TIP), load(s, LEFT_TIP)
    return (a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0, (a[2] + b[2]) / 2.0


@compiled
def touching(s: Any, geom: int) -> bool:
    """Do both finger pads press on the geom behind the reference `geom`?"""
    wanted, left, right = s.refs[geom], s.refs[LEFT_PAD_GEOM], s.refs[RIGHT_PAD_GEOM]
    contacts, forces = load_int64(s.refs[CONTACTS]), load_int64(s.refs[CONSTRAINT_FORCES])
    left_force = right_force = 0.0
    for i in range(load_int32(s.refs[CONTACT_COUNT])):
        contact = contacts + CONTACT_SIZE * i
        one, two = load_int32(contact + CONTACT_GEOM1), load_int32(contact + CONTACT_GEOM2)
        if one != wanted and two != wanted:
            continue
        address = load_int32(contact + CONTACT_EFC)
        if address < 0:
            # Not among the constraints. The package's index of -1 reads the last constraint's force.
            address += load_int32(s.refs[CONTACT_COUNT] + 16)
        force = load_double(forces + 8 * address)
        if one == left or two == left:
            left_force += force
        if one == right or two == right:
            right_force += force
    return left_force > 0 and right_force > 0


# ---- objects in the observation

NO_QUAT = (0.0, 0.0, 0.0, 0.0)  # of objects whose orientation is not shown


@compiled
def matrix_to_quat(s: Any, ref: int) -> tuple[float, float, float, float]:
    """(x, y, z, w) of the rotation matrix at a reference, in SciPy's convention and choice of sign."""
    a = s.refs[ref]
    m00, m01, m02 = load_double(a), load_double(a + 8), load_double(a + 16)
    m10, m11, m12 = load_double(a + 24), load_double(a + 32), load_double(a + 40)
    m20, m21, m22 = load_double(a + 48), load_double(a + 56), load_double(a + 64)
    trace = m00 + m11 + m22
    if trace > m00 and trace > m11 and trace > m22:
        x, y, z, w = m21 - m12, m02 - m20, m10 - m01, 1.0 + trace
    elif m00 >= m11 and m00 >= m22:
        x, y, z, w = 1.0 - trace + 2.0 * m00, m10 + m01, m20 + m02, m21 - m12
    elif m11 >= m22:
        x, y, z, w = m01 + m10, 1.0 - trace + 2.0 * m11, m21 + m12, m02 - m20
    else:
        x, y, z, w = m02 + m20, m12 + m21, 1.0 - trace + 2.0 * m22, m10 - m01
    length = math.sqrt(x * x + y * y + z * z + w * w)
    return x / length, y / length, z / length, w / length


@compiled
def body_quat(s: Any, ref: int) -> tuple[float, float, float, float]:
    """The quaternion at a reference, (w, x, y, z) as MuJoCo has it."""
    return load1(s, ref, 0), load1(s, ref, 1), load1(s, ref, 2), load1(s, ref, 3)


@compiled
def put_object(s: Any, first: int, position: Triple, quat: tuple[float, float, float, float]) -> None:
    """Write an object into the observation; `first` is 4 or 11."""
    for i in range(3):
        s.obs[first + i] = position[i]
    for i in range(4):
        s.obs[first + 3 + i] = quat[i]


def object_with_matrix(s: Any) -> None:
    """`objects` of tasks whose first two references are an object's position and its rotation matrix."""
    put_object(s, 4, load(s, FIRST), matrix_to_quat(s, FIRST + 1))


def object_with_quat(s: Any) -> None:
    """`objects` of tasks whose first two references are an object's position and its quaternion."""
    put_object(s, 4, load(s, FIRST), body_quat(s, FIRST + 1))


# ---- starts of episodes


@compiled
def place_object(s: Any, position: Triple, target: Triple, site: int) -> None:
    """Put the free object somewhere, and the target, which is drawn at the model's site behind the reference `site`."""
    put(s.obj_init, position)
    put(s.target, target)
    set_free_object(s, position)
    store(s, site, target)


@compiled
def place_fixture(s: Any, body: int, part: int, target: Triple, site: int) -> None:
    """Put a body of the model where the goal says, and the target as above. The body's part at the reference `part`,
    which stays as the last physics step left it, moves along: for resets and first observations that read it before
    any `forward`. (The package's hand has come to rest in a model that was moved already.)"""
    position = vec(s.goal)
    put(s.obj_init, position)
    put(s.target, target)
    store(s, part, add(load(s, part), sub(position, load(s, body))))
    store(s, body, position)
    store(s, site, target)


# ---- outcomes


@compiled
def report(
    s: Any,
    reward: float,
    success: float,
    near_object: float,
    grasp_success: float,
    grasp_reward: float,
    in_place_reward: float,
    obj_to_target: float,
) -> None:
    """Write a step's outcome."""
    s.reward = s.unscaled_reward = reward
    s.success = success
    s.near_object = near_object
    s.grasp_success = grasp_success
    s.grasp_reward = grasp_reward
    s.in_place_reward = in_place_reward
    s.obj_to_target = obj_to_target


@compiled
def report_v1(s: Any, reward: float, success: bool, left: float, grasp_success: float = 0.0) -> None:
    """Write an outcome of version 1 in most tasks, `left` being what is left of the way to the target. The hand's
    distance to the object is given as 0, which counts as near."""
    report(s, reward, flag(success), 1.0, grasp_success, 0.0, 0.0, left)
