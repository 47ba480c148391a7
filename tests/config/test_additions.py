"""What others add: a folder of YAML files, or a package with an entry point. No file of medley changes for either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from medley.agents.sac_options import SACConfig
from medley.cli import main
from medley.config import load
from medley.config.load import choices, load_config, read_choice, to_dict
from medley.errors import ConfigError
from medley.training.folder_name import config_name, default_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "setup/lab.yaml": "setup: lab\n",
        "metrics/lab.yaml": "train: {step: T}\neval: {step: T}\n",
        "agent/optimizers/lab.yaml": "# @package agent.optimizers\nactor: {lr: 0.5}\n",
        "agent/components/lab.yaml": "# @package agent\nactor: {hidden_dim: 11}\n",
        "experiment/lab.yaml": "num_train_steps: 123\n",
        "agent/careful.yaml": "name: careful\nbuilder: sac\ninit_temperature: 0.01\n",
        "env/wide.yaml": "name: wide\nbuilder: point\nsetup: lab\nnum_tasks: 9\n",
        "env/bad.yaml": "name: bad\nbuilder: point\nnum_taks: 9\n",
        "env/nobuilder.yaml": "name: nobuilder\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_folder_adds_a_setup_an_agent_and_an_env(folder: Path) -> None:
    config = load_config(["agent=careful", "env=wide"], [folder])
    assert isinstance(config.agent, SACConfig)
    assert (config.agent.name, config.agent.init_temperature) == ("careful", 0.01)
    assert (config.env.name, config.replay_buffer.batch_size) == ("wide", 9 * 128)
    assert config.setup.setup == "lab"
    assert config.metrics.train == {"step": "T"}
    assert config.agent.optimizers.actor.lr == 0.5
    assert config.agent.optimizers.critic.lr == 3e-4
    assert config.agent.actor.hidden_dim == 11
    assert config.experiment.num_train_steps == 123
    # medley's own names are still there, and combine with the new ones
    mixed = load_config(["env=point", "setup=lab", "agent/components=hipbmdp"], [folder])
    assert isinstance(mixed.agent, SACConfig)
    assert mixed.agent.actor.hidden_dim == 1024
    assert mixed.agent.optimizers.actor.lr == 0.5
    assert {"careful", "state_sac"} <= set(choices("agent", [folder]))
    assert {"wide", "point"} <= set(choices("env", [folder]))
    assert "careful" not in choices("agent")
    assert read_choice("env", "wide", [folder])["num_tasks"] == 9


@pytest.mark.parametrize(("group", "builder"), [("agent", "sac"), ("env", "point")])
def test_a_name_may_wait_for_something(
    group: str, builder: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / group / "later.yaml").write_text(f"name: later\nbuilder: {builder}\nmissing: a licence\n")
    hint = f"{group}=later is not in this version yet: it needs a licence"
    with pytest.raises(ConfigError, match=hint):
        load_config(["env=point", f"{group}=later"], [folder])
    assert main(["list", f"{group}s", "--config-dir", str(folder)]) == 0
    assert f"later\t{builder}\tnot yet: needs a licence" in capsys.readouterr().out
    assert main(["train", "--config-dir", str(folder), f"{group}=later"]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("name", ["rce", "pcgrad_sac_ae", "dac"])
def test_files_over_files_read_as_they_compose(name: str) -> None:
    """Which takes a second where hardly anything has to be composed; what a setup adds is not part of a choice."""
    read = read_choice("agent", name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "_plain", lambda *words: None)
        composed = read_choice("agent", name)
    assert OmegaConf.merge(composed, read) == composed
    assert set(read) > {"name", "builder"}


@pytest.mark.parametrize("name", ["env/point", "agent/sac", "agent/optimizers/metaworld", "agent/intentions/common"])
def test_a_name_of_ours_is_refused(name: str, folder: Path) -> None:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("name: mine\n")
    with pytest.raises(ConfigError, match=f"{name}.yaml: medley has .* already"):
        load_config(["env=point"], [folder])


def test_mistakes_in_a_folder_are_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.num_taks.*env\.num_tasks"):
        load_config(["env=bad"], [folder])
    with pytest.raises(ConfigError, match="no `builder`"):
        load_config(["env=nobuilder"], [folder])
    with pytest.raises(ConfigError, match=r"there is no env=wid\b.*'wide'"):
        load_config(["env=wid"], [folder])
    with pytest.raises(ConfigError, match="there is no such folder"):
        load_config(["env=point"], [folder / "nowhere"])
    with pytest.raises(ConfigError, match="there is no env=wide"):
        load_config(["env=wide"])  # not without the folder


def test_a_folder_shadows_nothing_it_does_not_name(folder: Path) -> None:
    assert to_dict(load_config(["env=point"], [folder])) == to_dict(load_config(["env=point"]))


def test_run_folders_of_added_names_are_unambiguous(folder: Path) -> None:
    names = {
        config_name(load_config(["agent=careful", "env=wide", *words], [folder]))
        for words in ([], ["agent.trunk=disjoint"], ["env.slots_per_task=2"], ["replay_buffer.batch_size=9"])
    }
    assert len(names) == 4
    assert all(name.startswith("careful") for name in names)


PLUGIN = """
from dataclasses import dataclass
from pathlib import Path

from medley.agents.api import AgentConfig, AgentKind, register_agent
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig, check
from medley.config.options import opt
from medley.config.plugins import add_config_dir
from medley.envs.point import PointConfig, build_point, point_tasks
from medley.envs.registry import EnvKind, register_env


@dataclass
class BraveConfig(SACConfig):
    courage: float = opt(0.5, "how brave the agent is")


@dataclass
class LineConfig(PointConfig):
    slope: float = opt(1.0, "how steep the line is")


def start():
    register_agent("brave", AgentKind(BraveConfig, SAC, check))
    register_env("line", EnvKind(LineConfig, build_point, point_tasks))
    add_config_dir(Path(__file__).parent / "conf")
"""

ASK = """
import json, sys
from medley.config import load
from medley.config.load import choices, load_config
from medley.training.build import build
config = load_config(sys.argv[1:])
parts = build(config)
parts.collector.collect(parts.agent.act, 2, "policy", 0)
print(json.dumps([config.agent.name, config.agent.courage, config.env.name, config.env.slope,
                  list(parts.env.tasks), "brave_sac" in choices("agent"), "line" in choices("env")]))
"""


def install(folder: Path, start: str = PLUGIN) -> None:
    """As pip would leave it: a package and its dist-info."""
    package = folder / "brave_plugin"
    (package / "conf" / "agent").mkdir(parents=True)
    (package / "conf" / "env").mkdir()
    (package / "__init__.py").write_text(start)
    (package / "conf/agent/brave_sac.yaml").write_text("name: brave_sac\nbuilder: brave\n")
    (package / "conf/env/line.yaml").write_text("name: line\nbuilder: line\nsetup: point\nnum_tasks: 2\n")
    info = folder / "brave_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brave-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[medley.plugins]\nbrave = brave_plugin:start\n")


def ask(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), root]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(ASK), *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, cwd=folder)


def test_a_package_adds_an_agent_and_an_env(tmp_path: Path) -> None:
    install(tmp_path)
    done = ask(tmp_path, "agent=brave_sac", "env=line", "agent.courage=2", "env.slope=0.25")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["brave_sac", 2.0, "line", 0.25, ["east", "north"], True, True]


def test_a_package_that_fails_is_named(tmp_path: Path) -> None:
    install(tmp_path, "def start():\n    raise RuntimeError('no arm connected')\n")
    done = ask(tmp_path, "env=point")
    assert done.returncode != 0
    assert "the plugin 'brave' (brave_plugin:start) could not be loaded: no arm connected" in done.stderr


# ---- run folders


def test_run_folders_are_readable() -> None:
    def path(*words: str) -> str:
        return str(default_path(load_config(["env=point", "setup.base_path=/b", *words])))

    assert path() == "/b/runs/point/state_sac/seed_1"
    assert path("setup.seed=3", "agent.trunk=disjoint") == "/b/runs/point/state_sac_trunk-disjoint/seed_3"
    assert path("agent.actor.hidden_dim=32") == "/b/runs/point/state_sac_actor.hidden_dim-32/seed_1"
    assert path("setup.id=mine", "agent.trunk=disjoint") == "/b/runs/point/mine/seed_1"
    assert path("setup.save_dir=/elsewhere") == "/elsewhere"
    # mtrl's flag and medley's word are one configuration
    assert path("agent.multitask.should_use_multi_head_policy=True") == path("agent.trunk=multi_head")
    # what is not learnt from does not make another configuration
    for word in (
        "logger.console=none",
        "experiment.save_freq=7",
        "experiment.save.model.retain_last_n=5",
        "experiment.num_train_steps=8000",
        "setup.tags=[x]",
        "metrics=gym",
    ):
        assert path(word) == path(), word


def test_different_options_have_different_run_folders() -> None:
    wide = [f"agent.{n}.hidden_dim={w}" for n in ("actor", "critic") for w in (32, 33)]
    rates = [f"agent.optimizers.{n}.lr=0.01" for n in ("actor", "critic", "alpha", "task_encoder")]
    long = [f"setup=gym agent.actor.log_std_bounds=[-9,2] agent.optimizers.alpha.eps=0.0{n}" for n in (1, 2)]
    point = ["", *wide, *rates, *long, "setup=metaworld", "agent/optimizers=hipbmdp", "agent/components=hipbmdp"]
    commands = [f"env=point {words}" for words in point]
    commands += [f"env=metaworld env.tasks=[{tasks}]" for tasks in ("reach", "push", "reach,push", "push,reach")]
    commands += ["env=metaworld env.tasks=[reach] replay_buffer.batch_size=64"]
    paths = [str(default_path(load_config(c.split()))) for c in commands]
    twice = {p: [c for c, q in zip(commands, paths, strict=True) if q == p] for p in paths if paths.count(p) > 1}
    assert not twice
    assert all(len(Path(p).parts[-2]) <= 80 for p in paths)


def test_what_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "bad.yaml").write_text("name: [x\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml is no YAML: .*line 2, column 1"):
        load_config(["env=point", "agent=bad"], [tmp_path])
    (tmp_path / "agent" / "bad.yaml").write_text("name: ${b\n")
    load_config(["env=point", "agent=state_sac"], [tmp_path])  # what nobody asks for may be unfinished
