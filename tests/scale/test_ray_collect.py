"""Collection by workers on a real Ray cluster, some of which are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from medley.cli import main
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.scale.ray_collect import RayCollector
from tests.faults.harness import assert_same_run, came, log_rows, train_words, wait_until

RAY = ["collect.on=ray", "collect.workers=2", "experiment.collect_steps=5"]


def _workers() -> list[int]:
    """Processes of this cluster in which workers run. Ray names them after what they are."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                named = (folder / "cmdline").read_bytes().startswith(b"ray::Worker")
                if named and _descends(int(folder.name)):
                    found.append(int(folder.name))
    return found


def _descends(process: int) -> bool:
    """From this very process: other tests may have clusters of their own."""
    while process > 1 and process != os.getpid():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == os.getpid()


def _kill_one(checkpoint: Path, killed: list[int]) -> None:
    wait_until(lambda: came(checkpoint) and _workers(), "nobody is at work", look=0.002)
    os.kill(_workers()[0], signal.SIGKILL)
    killed.append(1)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_as_in_one_process(ray: Any, tmp_path: Path, workers: int) -> None:
    """The same episodes, actions and weights as one process with overlap, whoever takes the steps."""
    assert main(train_words(tmp_path / "ray", *RAY, f"collect.workers={workers}")) == 0
    local = ["experiment.overlap=true", "experiment.collect_steps=5"]
    assert main(train_words(tmp_path / "local", *local)) == 0
    rows = [log_rows(tmp_path / name / "eval.log") for name in ("ray", "local")]
    if workers == 1:
        assert rows[0] == rows[1]
        agents = [load_file(tmp_path / name / "checkpoints" / "800" / "agent.safetensors") for name in ("ray", "local")]
        for key, value in agents[0].items():
            assert value.tobytes() == agents[1][key].tobytes(), key
    else:  # on some processors a product of fewer rows rounds otherwise, and what is small at first grows
        for a, b in zip(rows[0][:2], rows[1][:2], strict=True):
            assert a == {k: v if isinstance(v, str) else pytest.approx(v, rel=1e-5) for k, v in b.items()}
        assert [(r["frames"], r["updates"], r["episode"]) for r in rows[0]] == [
            (r["frames"], r["updates"], r["episode"]) for r in rows[1]
        ]
    row = json.loads((tmp_path / "ray" / "train.log").read_text().splitlines()[-1])
    assert row["policy_age"] == 10  # one chunk: five steps of two slots of each task, an update for each
    assert row["collector_fps"] > 0
    assert row["collect_kb"] > 0


@pytest.mark.parametrize("lag", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_killed_worker(ray: Any, tmp_path: Path, lag: int, capsys: Any) -> None:
    words = [*RAY, f"collect.lag={lag}"]
    killed: list[int] = []
    checkpoint = tmp_path / "disturbed" / "checkpoints" / "200"
    killer = threading.Thread(target=_kill_one, args=(checkpoint, killed))
    killer.start()
    code = main(train_words(tmp_path / "disturbed", *words))
    killer.join()
    assert code == 0
    assert killed
    said = capsys.readouterr().out
    assert "Another goes on where it was" in said
    rows = [json.loads(line) for line in (tmp_path / "disturbed" / "train.log").read_text().splitlines()]
    assert rows[-1]["worker_restarts"] == 1
    info = json.loads((tmp_path / "disturbed" / "run.json").read_text())
    assert (info["status"], info["step"], info["frames"], info["updates"]) == ("finished", 800, 2400, 750)
    assert rows[-1]["policy_age"] == 10 * lag
    assert main(train_words(tmp_path / "calm", *words)) == 0
    assert_same_run(tmp_path / "disturbed", tmp_path / "calm")


@pytest.mark.long
def test_a_killed_learner(ray: Any, tmp_path: Path) -> None:
    """With chunks on their way, which are part of a checkpoint."""
    words = train_words(tmp_path / "run", *RAY, "collect.lag=3")
    address = ray.get_runtime_context().gcs_address
    child = subprocess.Popen([sys.executable, "-m", "medley", *words], env={**os.environ, "RAY_ADDRESS": address})
    at = tmp_path / "run" / "checkpoints" / "400"
    wait_until(lambda: came(at) or child.poll() is not None, "no checkpoint came", look=0.002)
    assert child.poll() is None
    child.kill()
    child.wait()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "running"
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert main(train_words(tmp_path / "calm", *RAY, "collect.lag=3")) == 0
    assert_same_run(tmp_path / "run", tmp_path / "calm")


@pytest.mark.long
def test_a_worker_that_always_dies(ray: Any, tmp_path: Path, capsys: Any) -> None:
    stop = threading.Event()

    def murder() -> None:
        while not stop.is_set():
            for pid in _workers():
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    thread = threading.Thread(target=murder)
    thread.start()
    code = main(train_words(tmp_path / "run", *RAY))
    stop.set()
    thread.join()
    assert code == 2
    assert "was lost 4 times at the same place" in capsys.readouterr().err


def test_a_worker_that_cannot_start(ray: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only some machine lacks is said in its own words, and not tried again."""
    vectors = tmp_path / "vectors.json"
    vectors.write_text(json.dumps({task: [float(i), 1.0] for i, task in enumerate(("east", "north", "west"))}))
    words = train_words(tmp_path / "run", *RAY, "agent.task_input=encoder", f"agent.task_vectors={vectors}")
    original = RayCollector.__init__

    def elsewhere(self: RayCollector, config: Any, env: Any) -> None:
        vectors.unlink()
        original(self, config, env)

    monkeypatch.setattr(RayCollector, "__init__", elsewhere)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "worker 0 cannot start where it was put" in said
    assert "vectors.json cannot be read" in said


def test_a_run_stays_with_its_workers(ray: Any, tmp_path: Path, capsys: Any) -> None:
    assert main(train_words(tmp_path / "run", *RAY, "experiment.num_train_steps=100")) == 0
    more = ["resume", str(tmp_path / "run"), "experiment.num_train_steps=200", "--override"]
    assert main([*more, "collect.on=local"]) == 2
    assert "needs collect.on=ray" in capsys.readouterr().err
    assert main([*more, "collect.on=ray", "collect.workers=1"]) == 2
    assert "another number of workers" in capsys.readouterr().err


def test_nobody_at_the_address(tmp_path: Path) -> None:
    words = train_words(tmp_path / "run", *RAY)
    settings = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}
    done = subprocess.run([sys.executable, "-m", "medley", *words], env=settings, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no Ray cluster at RAY_ADDRESS=127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_too_many(ray: Any, tmp_path: Path, capsys: Any) -> None:
    assert main(train_words(tmp_path / "run", *RAY, "collect.workers=8", "env.slots_per_task=8")) == 2
    assert "need 8, and the Ray cluster has 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["collect.on=rya"], "Did you mean 'ray'"),
        (["collect.workers=2", "env.slots_per_task=3"], "take 2 or 4 slots"),
        (["env=point-aux", "agent=sacx"], "collect.on=local"),
        (["experiment.overlap=false"], "contradict"),
        (["collect.lag=2", "experiment.scheduler.kind=success"], "a lag of 0 or 1"),
        (["experiment.seeds_together=2"], "seeds_together=1"),
        (["collect.workers=0"], "at least 1"),
        (["env=panda-reach", "env.arm=bridge", "agent=state_sac"], "one arm"),
    ],
)
def test_what_cannot_work(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config(["env=point", "collect.on=ray", *words])


def test_slots_follow_workers() -> None:
    config = load_config(["env=point", "collect.on=ray", "collect.workers=8"])
    assert config.env.slots_per_task == 8
    assert config.experiment.collect_steps == 32
    assert config.experiment.updates == 32 * 8
    assert config.experiment.overlap
