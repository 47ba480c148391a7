"""A task from another module, registered by `TASKS.add`: the one of examples/metaworld_task.py, and variants of it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import metaworld
import numpy as np
import pytest

from medley.envs.metaworld import models, names
from medley.envs.metaworld.config import MetaworldConfig, check_config
from medley.envs.metaworld.env import MetaworldEnv
from medley.envs.metaworld.tasks import TASKS, Task
from medley.errors import ConfigError

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/metaworld_task.py"
ASSETS = Path(metaworld.__file__).parent / "assets"


def load_module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{file.stem}_of_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def forget_tasks() -> Iterator[None]:
    """What a test registers is gone after it."""
    tasks, known = dict(TASKS.tasks), set(names._registered)
    yield
    TASKS.tasks = tasks
    names._registered.intersection_update(known)


@pytest.fixture
def hover() -> Task:
    load_module(EXAMPLE).register()
    return TASKS.tasks["hover"]


# ---- names


@pytest.mark.parametrize("options", [{"tasks": ["reach", "hover"]}, {"benchmark": "mt1", "task": "Hover_v1"}])
def test_configs_can_name_it(hover: Task, options: dict[str, Any]) -> None:
    tasks, versions = check_config(MetaworldConfig(**options))
    assert tasks[-1] == "hover"
    assert versions[-1] == ("v1" if "task" in options else "v2")
    with pytest.raises(ConfigError, match="Did you mean 'hover'"):
        check_config(MetaworldConfig(tasks=["hovr"]))


def test_before_it_is_registered_nobody_knows_it() -> None:
    with pytest.raises(ConfigError, match="no task 'hover'"):
        check_config(MetaworldConfig(tasks=["hover"]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "reach"}, "already"),
        ({"name": "hover"}, "already"),
        ({"name": "hover-v2"}, "read as 'hover'"),
        ({"name": "Hover_High"}, "read as 'hover-high'"),
        ({"name": "door"}, "read as 'door-open'"),
        ({"hand_init": (0.0, 0.6)}, "three numbers as hand_init"),
        ({"reset_high": (0.0,) * 6}, "as many numbers"),
        ({"reset_low": (0.0,) * 7, "reset_high": (0.0,) * 7}, "6 is the most"),
        ({"min_distance": 0.1}, "no target in its goal vector"),
        ({"refs": ("body obj",) * 31}, "31 references"),
        ({"refs": ("model_site goal",) * 9}, "9 places"),
        ({"model": "nowhere.xml"}, "no model at .*nowhere.xml"),
    ],
)
def test_what_cannot_be_is_refused(hover: Task, changes: dict[str, Any], said: str) -> None:
    before = sorted(TASKS.tasks)
    with pytest.raises(ConfigError, match=said):
        TASKS.add(replace(hover, **({"name": "other"} | changes)))
    assert sorted(TASKS.tasks) == before


def test_a_model_that_the_package_does_not_have(hover: Task) -> None:
    TASKS.add(replace(hover, name="other", model="sawyer_reech_v3"))
    with pytest.raises(ConfigError, match="sawyer_reach_v3"):
        MetaworldEnv(MetaworldConfig(tasks=["other"]))


def test_reading_a_config_loads_no_simulator() -> None:
    program = """
import sys
from medley.envs.metaworld.config import MetaworldConfig, metaworld_tasks
from medley.envs.metaworld.names import register_name
register_name("hover")
assert metaworld_tasks(MetaworldConfig(tasks=["hover"])) == ["hover"]
print([name for name in ("numba", "mujoco", "metaworld") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- episodes


def climb(env: MetaworldEnv, steps: int) -> list[Any]:
    """Straight to the goal."""
    obs, _ = env.reset()
    out = []
    for _ in range(steps):
        way = obs[:, 36:39] - (obs[:, :3] - (0.0, 0.0, 0.045))
        move = np.concatenate([np.clip(10 * way, -1, 1), np.zeros((env.num_envs, 1))], axis=1)
        out.append(env.step(move.astype(np.float32)))
        obs = out[-1][0]
    return out


def test_it_is_stepped_like_any_other(hover: Task) -> None:
    env = MetaworldEnv(MetaworldConfig(tasks=["hover", "reach"], goals="order"), 2, seed=1)
    obs, _ = env.reset()
    np.testing.assert_array_equal(obs[:2, 36:39], env.task_goals[0][:2] + (0.0, 0.0, 0.1))
    assert (env.task_goals[0] >= hover.reset_low).all()
    assert (env.task_goals[0] <= hover.reset_high).all()
    assert env.get_attr("task_name") == ("hover", "hover", "SawyerReachEnvV3", "SawyerReachEnvV3")
    steps = climb(env, 30)
    obs, reward, _, _, info = steps[-1]
    for slot in range(2):
        data, start = env.simulator.datas[slot], env.simulator.slots["init_tcp"][slot]
        fingers = (data.site("leftEndEffector").xpos + data.site("rightEndEffector").xpos) / 2
        target = obs[slot, 36:39]
        away, margin = np.linalg.norm(fingers - target), np.linalg.norm(start - target)
        outside = np.maximum(away - 0.05, 0.0) / margin
        assert reward[slot] == pytest.approx(10 / (9 * outside**2 + 1))
        assert info["success"][slot] == (away <= 0.05)
    first = steps[0]
    assert not first[4]["success"][:2].all()
    assert info["success"][:2].all()


def test_it_goes_on_after_a_restart(hover: Task) -> None:
    cfg = MetaworldConfig(benchmark="mt1", task="hover", horizon=20, reward_version="v1")
    env, other = MetaworldEnv(cfg, 2, seed=1), MetaworldEnv(cfg, 2, seed=2)
    climb(env, 15)
    other.set_state(env.state())
    for _ in range(10):  # over the end of the episode
        moves = np.random.default_rng(0).uniform(-1, 1, (2, 4)).astype(np.float32)
        for left, right in zip(env.step(moves)[:4], other.step(moves)[:4], strict=True):
            np.testing.assert_array_equal(left, right)


def test_functions_need_no_file(hover: Task) -> None:
    """As in a notebook, where nothing can be kept between runs."""
    space: dict[str, Any] = {}
    exec(compile(EXAMPLE.read_text().replace('"hover"', '"hover-cell"'), "<cell 1>", "exec"), space)
    space["register"]()
    rewards = [climb(MetaworldEnv(MetaworldConfig(tasks=[task])), 3)[-1][1] for task in ("hover", "hover-cell")]
    np.testing.assert_array_equal(*rewards)


# ---- models of one's own


def write_model(folder: Path, radius: float) -> Path:
    """The package's reach model with another puck, in a file that uses the package's arm from afar."""
    text = (ASSETS / "sawyer_xyz/sawyer_reach_v3.xml").read_text()
    text = text.replace('file="../', f'file="{ASSETS}/')
    text = text.replace("<mujoco>", f'<mujoco><compiler assetdir="{ASSETS}/sawyer_xyz"/>')
    folder.mkdir(exist_ok=True)
    file = folder / "puck.xml"
    file.write_text(text.replace('size="0.02 0.02"', f'size="{radius} 0.02"'))
    return file


def puck_radius(task: str) -> float:
    env = MetaworldEnv(MetaworldConfig(tasks=[task]))
    env.reset()
    env.step(np.zeros((1, 4), dtype=np.float32))
    radius: float = env.simulator.models[0].geom("objGeom").size[0]
    return radius


def test_a_model_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named relative to the file that adds the task; files of one name are not confused, and none is cached."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for folder, radius in (("thin", 0.015), ("wide", 0.03)):
        write_model(tmp_path / folder, radius)
        module = tmp_path / folder / "task.py"
        shutil.copy(EXAMPLE, module)
        text = module.read_text().replace('"sawyer_reach_v3"', '"puck.xml"').replace('"hover"', f'"hover-{folder}"')
        module.write_text(text)
        load_module(module).register()
    monkeypatch.chdir(tmp_path)
    assert TASKS.tasks["hover-wide"].model == str(tmp_path / "wide/puck.xml")
    assert [puck_radius("hover-thin"), puck_radius("hover-wide")] == [0.015, 0.03]
    assert not list(tmp_path.glob("cache/**/puck*"))


def test_an_absolute_path_and_a_file_that_changed(tmp_path: Path, hover: Task) -> None:
    file = write_model(tmp_path, 0.015)
    TASKS.add(replace(hover, name="hover-thin", model=str(file)))
    assert puck_radius("hover-thin") == 0.015
    write_model(tmp_path, 0.03)
    models.lean_model.cache_clear()  # another process
    assert puck_radius("hover-thin") == 0.03
