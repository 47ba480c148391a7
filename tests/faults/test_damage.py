"""Damaged checkpoints, full disks, read-only folders, numbers that are not finite."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults import harness


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that ended half-way, with two checkpoints."""
    run = tmp_path / "run"
    code, text = harness.run(harness.train_words(run), tmp_path, harness.stop_at(240))
    assert code == 130, text
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["200", "240"]
    return run


def flip_bytes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for i in range(len(data) // 2, min(len(data) // 2 + 4, len(data))):
        data[i] ^= 0xFF
    path.write_bytes(bytes(data))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("agent.safetensors", flip_bytes),
        ("collector.safetensors", truncate),
        ("counters.json", Path.unlink),
        ("manifest.json", truncate),
    ],
)
def test_damaged_checkpoint_falls_back_to_the_one_before(
    undisturbed: Path, stopped: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(stopped / "checkpoints" / "240" / name)
    code, text = harness.run(["resume", str(stopped)], tmp_path)
    assert code == 0, text
    assert "Checkpoint 240 cannot be used" in text
    assert "Going on from step 200" in text
    harness.assert_same_run(undisturbed, stopped)


def test_damaged_replay_segment(undisturbed: Path, stopped: Path, tmp_path: Path) -> None:
    manifest = json.loads((stopped / "checkpoints" / "240" / "replay.json").read_text())
    flip_bytes(stopped / "buffer" / manifest["segments"][-1]["file"])
    code, text = harness.run(["resume", str(stopped)], tmp_path)
    assert code == 0, text
    assert "is damaged" in text
    harness.assert_same_run(undisturbed, stopped)


@pytest.mark.parametrize(("was", "now"), [("{", ""), ('"segments"', '"segmenus"')])
def test_an_older_damaged_checkpoint_is_left_alone(
    undisturbed: Path, stopped: Path, tmp_path: Path, was: str, now: str
) -> None:
    path = stopped / "checkpoints" / "200" / "replay.json"
    path.write_text(path.read_text().replace(was, now, 1))
    code, text = harness.run(["resume", str(stopped), "experiment.save.model.retain_last_n=4"], tmp_path)
    assert code == 0, text
    assert "Going on from step 240" in text
    harness.assert_same_run(undisturbed, stopped)


@pytest.mark.parametrize(
    ("keep", "late", "looked_at"), [(1, False, False), (2, False, False), (2, True, False), (2, False, True)]
)
def test_killed_while_a_checkpoint_is_replaced(
    stopped: Path, tmp_path: Path, keep: int, late: bool, looked_at: bool
) -> None:
    """A save at the same step replaces a checkpoint; at no instant may that be lost, whoever comes first afterwards."""
    at, step = stopped / "checkpoints" / "240", json.loads((stopped / "run.json").read_text())["step"]
    assert step == 240

    def die_between() -> None:
        from medley.training.checkpoints import Checkpoints

        rename, begin = Path.rename, Checkpoints.load

        def load(self: Checkpoints, *args: Any) -> Any:
            loaded = begin(self, *args)
            if keep == 1:
                shutil.rmtree(self.folder / "200")
            self.save(240, loaded, None)
            return loaded

        def die(self: Path, target: Path) -> Path:
            if target == at and late:
                rename(self, target)
            if target == at:
                os._exit(9)
            return rename(self, target)

        Checkpoints.load, Path.rename = load, die  # type: ignore[method-assign, assignment]

    code, text = harness.run(["resume", str(stopped)], tmp_path, die_between)
    assert code == 9, text
    assert at.exists() == late
    if looked_at:
        (at.parent / ".280.tmp").mkdir()  # of a run on a machine whose lock cannot be seen from here, say
        before = {path.relative_to(at.parent) for path in at.parent.rglob("*")}
        for words in ([], ["--checkpoint", "240"]):
            code, text = harness.run(["evaluate", str(stopped), "experiment.num_eval_episodes=1", *words], tmp_path)
            assert code == 0, text
            (stopped / "evaluation_episodes_240.json").unlink()
        assert {path.relative_to(at.parent) for path in at.parent.rglob("*")} == before, "whoever looks changes nothing"
    code, text = harness.run(["resume", str(stopped)], tmp_path)
    assert code == 0, text
    assert "Going on from step 240" in text
    assert not list(at.parent.glob(".*"))


def test_all_checkpoints_damaged(stopped: Path, tmp_path: Path) -> None:
    for path in (stopped / "checkpoints").glob("*/agent.safetensors"):
        flip_bytes(path)
    before = {
        p: p.read_bytes() for p in stopped.rglob("*") if p.is_file() and p.name not in ("config.yaml", "run.json")
    }
    code, text = harness.run(["resume", str(stopped)], tmp_path)
    assert code == 2
    assert "none of the checkpoints" in text
    assert "Traceback" not in text
    assert all(p.read_bytes() == data for p, data in before.items()), "nothing may be lost"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk(undisturbed: Path, small_disk: Path, tmp_path: Path) -> None:
    run = small_disk / "run"
    code, text = harness.run(harness.train_words(run), tmp_path, harness.stop_at(240))
    assert code == 130, text
    free = shutil.disk_usage(small_disk).free
    (small_disk / "ballast").write_bytes(b"x" * (free - 20_000))
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 2, text
    assert "No space left" in text
    assert "Traceback" not in text
    assert "step 240 still stands" in text or "medley resume" in text
    (small_disk / "ballast").unlink()
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 0, text
    harness.assert_same_run(undisturbed, run)


def test_read_only_folder(small_disk: Path, tmp_path: Path) -> None:
    run = small_disk / "run"
    code, text = harness.run(harness.train_words(run), tmp_path, harness.stop_at(240))
    assert code == 130, text
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for words in (["resume", str(run)], harness.train_words(small_disk / "other")):
        code, text = harness.run(words, tmp_path)
        assert code == 2, text
        assert "cannot be written" in text
        assert "Traceback" not in text


def poison(what: str, at: int) -> Callable[[], None]:
    def prepare() -> None:
        import numpy as np

        from medley.envs.point import PointEnv

        original, calls = PointEnv._step_slots, 0

        def step(self: PointEnv, *args: object) -> object:
            nonlocal calls
            result = original(self, *args)  # type: ignore[arg-type]
            calls += self.seed == 1  # the training env: evaluation has a stream of its own
            if calls == at:
                rows = result.reward if what == "reward" else result.obs
                rows[2] = np.nan
            return result

        PointEnv._step_slots = step  # type: ignore[method-assign, assignment]

    return prepare


@pytest.mark.parametrize("what", ["reward", "observation"])
def test_nan_from_the_environment(undisturbed: Path, tmp_path: Path, what: str) -> None:
    run = tmp_path / "run"
    words = harness.train_words(run, "experiment.eval_at_start=true")
    code, text = harness.run(words, tmp_path, poison(what, 200))
    assert code == 2, text
    assert f"task north: the environment gave a non-finite {what}" in text
    assert "step " in text
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    code, text = harness.run(["resume", str(run)], tmp_path)  # the fault is gone
    assert code == 0, text
    harness.assert_same_run(undisturbed, run)


def test_nan_in_the_network_is_named_and_never_saved(undisturbed: Path, tmp_path: Path) -> None:
    def spoil() -> None:
        from medley.training.learner import NativeUpdates

        original, calls = NativeUpdates.run, 0

        def run(self: NativeUpdates, phases: Sequence[str]) -> None:
            nonlocal calls
            calls += 1
            if calls == 100:
                self.seed.agent.actor.heads.weight.data[0, 1] = float("nan")  # type: ignore[attr-defined]
            original(self, phases)

        NativeUpdates.run = run  # type: ignore[method-assign]

    run = tmp_path / "run"
    code, text = harness.run(harness.train_words(run), tmp_path, spoil)
    assert code == 2, text
    assert "is not finite" in text
    assert re.search(r"step \d+, task \w+: \w+|parameter \S+", text), text
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 0, text
    harness.assert_same_run(undisturbed, run)
