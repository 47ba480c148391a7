"""What happens around the loop: who may begin in a folder, what is needed to begin, and what is closed if it fails."""

from __future__ import annotations

import errno
import fcntl
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import IO, Any

import pytest

import medley
from medley.cli import main
from medley.config.load import load_config
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError, MedleyError
from medley.training import standing
from medley.training.machine import describe_machine
from medley.training.run import Run
from medley.training.start import resume, train, train_seeds
from tests.faults import harness

SHORT = "experiment.num_train_steps=100"


@pytest.fixture
def open_envs(monkeypatch: pytest.MonkeyPatch) -> list[MultiTaskEnv]:
    """Those that were made and are not closed yet."""
    made: list[MultiTaskEnv] = []
    begin, end = MultiTaskEnv.__init__, MultiTaskEnv.close_extras

    def opened(self: MultiTaskEnv, *args: object, **kwargs: object) -> None:
        begin(self, *args, **kwargs)  # type: ignore[arg-type]
        made.append(self)

    def closed(self: MultiTaskEnv, **kwargs: object) -> None:
        end(self, **kwargs)
        made[:] = [env for env in made if env is not self]

    monkeypatch.setattr(MultiTaskEnv, "__init__", opened)
    monkeypatch.setattr(MultiTaskEnv, "close_extras", closed)
    return made


def test_fresh_does_not_take_a_folder_from_a_run_under_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*harness.OPTIONS, SHORT, f"setup.base_path={tmp_path}", "setup.id=both"]
    configs = [load_config([*words, f"setup.seed={seed}"]) for seed in (1, 2)]
    train_seeds(configs)
    runs = [Run(tmp_path / "runs/point/both" / f"seed_{seed}") for seed in (1, 2)]
    runs[1].lock()
    with pytest.raises(MedleyError, match=r"another process is working in .*seed_2"):
        train_seeds(configs, fresh=True)
    assert sorted(p.name for p in runs[0].path.parent.iterdir()) == ["seed_1", "seed_2"], "all or none"
    runs[1].unlock()
    train_seeds(configs, fresh=True)
    assert len(list(runs[0].path.parent.glob("seed_*.old-1"))) == 2


def test_whoever_waits_for_a_folder_does_not_get_the_one_that_is_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock is on a file, whatever its path has become: one process moves a run aside and begins a new one, while
    another waits at the old run's lock."""
    waits, go_on = threading.Event(), threading.Event()
    lock_it = fcntl.flock

    def flock(file: IO[str], how: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            waits.set()  # it has opened the file
            go_on.wait(60)
        lock_it(file, how)

    monkeypatch.setattr("medley.training.run.fcntl.flock", flock)
    path = tmp_path / "run"
    path.mkdir()
    first, second, fresh = Run(path), Run(path), Run(path)
    first.lock()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(second.lock)
        assert waits.wait(60)
        path.rename(tmp_path / "run.old-1")
        path.mkdir()
        fresh.lock()
        first.unlock()
        go_on.set()
        with pytest.raises(MedleyError, match="another process is working in"):
            waiting.result()
    fresh.unlock()
    second.lock()
    second.unlock()


def test_the_run_that_weights_came_from_is_needed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, run = tmp_path / "source", tmp_path / "run"
    train(load_config([*harness.OPTIONS, SHORT, f"setup.save_dir={source}"]))
    words = [*harness.OPTIONS, f"setup.save_dir={run}", f"experiment.init_from={source}"]
    code, text = harness.run(["train", *words], tmp_path, harness.stop_at(160))
    assert code == 130, text
    shutil.rmtree(source)
    assert main(["resume", str(run), "experiment.num_train_steps=240"]) == 0
    assert main(["evaluate", str(run), "experiment.num_eval_episodes=1"]) == 0
    with pytest.raises(ConfigError, match="there is no such run folder"):
        train(load_config([*words, f"setup.save_dir={tmp_path / 'other'}"]))
    assert not (tmp_path / "other").exists()
    for words in (["launch", "agent=state_sac"], ["compare", "agents=state_sac"]):
        assert main([*words, "env=point", f"experiment.init_from={source}", "seeds=1"]) == 2
        assert "there is no such run folder" in capsys.readouterr().err


def test_a_run_of_random_steps_says_that_it_learns_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(harness.train_words(tmp_path / "run", "experiment.num_train_steps=50")) == 0
    assert "Nothing will be learnt: all 50 steps are random (init_steps is 60)." in capsys.readouterr().out
    assert main(harness.train_words(tmp_path / "other", SHORT)) == 0
    assert "Nothing will be learnt" not in capsys.readouterr().out


def test_what_was_opened_is_closed_when_a_start_fails(tmp_path: Path, open_envs: list[MultiTaskEnv]) -> None:
    source, run = tmp_path / "source", tmp_path / "run"
    train(load_config([*harness.OPTIONS, SHORT, f"setup.save_dir={source}"]))
    assert open_envs == []
    words = [*harness.OPTIONS, SHORT, f"setup.save_dir={run}", "agent.critic.hidden_dim=8"]
    with pytest.raises(ConfigError, match="network sizes differ"):
        train(load_config([*words, f"experiment.init_from={source}"]))
    assert open_envs == []
    with pytest.raises(MedleyError):  # the networks in its checkpoint are of another size
        resume(source, ["agent.critic.hidden_dim=8", "experiment.num_train_steps=120"], override=True)
    assert open_envs == []


def test_a_log_that_cannot_be_closed_leaves_nothing_open(
    tmp_path: Path, open_envs: list[MultiTaskEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    from medley.reporting.logger import JsonLines

    def full(self: JsonLines) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JsonLines, "close", full)
    with pytest.raises(MedleyError, match="No space left"):
        train(load_config([*harness.OPTIONS, SHORT, f"setup.save_dir={tmp_path / 'run'}"]))
    assert open_envs == []


def test_what_went_wrong_in_simulators_is_counted_over_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    begin = MultiTaskEnv.__init__

    def unstable(self: MultiTaskEnv, *args: object, **kwargs: object) -> None:
        begin(self, *args, **kwargs)  # type: ignore[arg-type]
        self.instabilities[1] += 2

    monkeypatch.setattr(MultiTaskEnv, "__init__", unstable)
    for steps in (100, 200):
        words = harness.train_words(run, f"experiment.num_train_steps={steps}")
        assert main(words) == 0
    rows = [json.loads(line) for line in (run / "train.log").read_text().splitlines()]
    assert (rows[0]["instabilities"], rows[-1]["instabilities"]) == (2, 4)


def test_a_run_knows_what_trained_it_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("medley.training.machine.version", missing)
    versions = describe_machine()["versions"]
    assert versions["medley"] == medley.__version__
    assert versions["mujoco"] == "not installed"


def test_what_was_trained_for_longer_is_not_called_shorter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*harness.OPTIONS, "experiment.eval_freq=null", "setup.id=null", f"setup.base_path={tmp_path}"]
    assert main(["train", *words, SHORT]) == 0
    (run,) = (Run(path.parent) for path in (tmp_path / "runs").rglob("run.json"))
    name = run.info()["config_name"]
    assert main(["resume", str(run.path), "experiment.num_train_steps=160"]) == 0
    assert run.info()["config_name"] == name, "how often it is evaluated was not asked for, and is kept"
    before = (run.path / "run.json").read_text(), (run.path / "config.yaml").read_text()
    capsys.readouterr()
    assert main(["train", *words, SHORT]) == 2
    assert "is finished" in capsys.readouterr().err
    assert main(["resume", str(run.path), "experiment.num_train_steps=120"]) == 2
    assert "is finished" in capsys.readouterr().err
    assert before == ((run.path / "run.json").read_text(), (run.path / "config.yaml").read_text())
    assert main(["launch", "--dry-run", *words, SHORT]) == 0
    assert f"{run.path} is finished (160 steps, not 100)." in capsys.readouterr().out
    run.write_info(status="running", step=0)  # as one that was killed leaves it
    assert main(["resume", str(run.path), "experiment.num_train_steps=120"]) == 2
    assert "is beyond 120 steps already" in capsys.readouterr().err
    assert main(["train", *words, SHORT]) == 2
    assert "is beyond 100 steps already" in capsys.readouterr().err


def test_what_ended_by_the_clock_goes_on_when_more_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*harness.OPTIONS, "setup.id=x", f"setup.base_path={tmp_path}"]
    limit = ["experiment.num_train_steps=100000", "experiment.max_minutes=0.004"]
    assert main(["train", *words, *limit, "setup.seed=1"]) == 0
    run = Run(tmp_path / "runs/point/x/seed_1")
    step = run.info()["step"]
    assert 0 < step < 100_000
    capsys.readouterr()
    assert main(["train", *words, *limit, "setup.seed=1"]) == 2
    assert main(["resume", str(run.path), "experiment.num_train_steps=200000"]) == 2
    assert "To train longer: experiment.num_train_steps=N and experiment.max_minutes=M." in capsys.readouterr().err
    assert main(["train", *words, f"experiment.num_train_steps={step + 40}", "setup.seed=1,2"]) == 0
    for seed in (1, 2):
        assert Run(tmp_path / f"runs/point/x/seed_{seed}").info()["step"] >= step + 40


def test_a_run_that_learns_otherwise_gets_another_name(tmp_path: Path) -> None:
    words = [*harness.OPTIONS, "setup.id=null", f"setup.base_path={tmp_path}"]
    assert main(["train", *words, SHORT]) == 0
    (run,) = (Run(path.parent) for path in (tmp_path / "runs").rglob("run.json"))
    name = run.info()["config_name"]
    assert main(["resume", str(run.path), "agent.trunk=disjoint", "--override"]) == 2
    assert run.info()["config_name"] == name, "what was refused changes nothing"
    other = ["agent.discount=0.5", "experiment.num_train_steps=140", "--override"]
    assert main(["resume", str(run.path), *other]) == 0
    assert run.info()["config_name"] != name
    assert main(["resume", str(run.path), "experiment.num_train_steps=180"]) == 0
    assert run.info()["config_name"] != name


def test_a_run_that_ends_while_it_is_looked_at_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config([*harness.OPTIONS, SHORT, f"setup.save_dir={tmp_path / 'run'}"])
    run, _ = train(config)
    run.write_info(status="running")
    check = standing.check_unfinished

    def slowly(*args: Any, **options: Any) -> None:
        run.write_info(status="finished")
        check(*args, **options)

    monkeypatch.setattr(standing, "check_unfinished", slowly)
    assert standing.standing_of(config, run) == "finished"
