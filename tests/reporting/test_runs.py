"""Run folders: whole, half-written, missing parts, hostile; and how they are found, grouped and aligned."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from medley.errors import MedleyError
from medley.reporting.alignment import align
from medley.reporting.run_files import file_name
from medley.reporting.runs import find_runs, group_runs, read_run

DAMAGE: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "cut": b"{",
    "list": b"[1, 2]",
    "binary": b"\xff\xfe\x00",
    "null": b"null",
    "deep": b"[" * 100_000,
    "other": b'{"evaluations": {"a": 1}}',
}


def test_a_whole_run(make_run) -> None:
    path = make_run(seed=3)
    (path / "video").mkdir()
    for name in ("100000_pick-place.mp4", "5000_reach.mp4", ".100000_x.part.mp4", "note.txt"):
        (path / "video" / name).write_bytes(b"")
    run = read_run(path)
    assert run.problems == []
    assert (run.env, run.config_name, run.seed, run.status) == (
        "metaworld-mt10",
        "state_sac",
        "3",
        "finished",
    )
    assert run.tasks == ("reach", "push", "pick-place")
    assert [evaluation.step for evaluation in run.evaluations] == list(range(0, 100_001, 10_000))
    assert run.evaluations[-1].per_task["push"].episodes == 50
    assert len(run.train) == 400
    assert [(video.step, video.task) for video in run.videos] == [(5000, "reach"), (100_000, "pick-place")]
    assert "batch_size" in run.config


def test_eval_log_stands_in_for_results(make_run) -> None:
    path = make_run()
    whole = read_run(path)
    (path / "results.json").write_text((path / "results.json").read_text()[:-40])
    run = read_run(path)
    assert run.problems == ["results.json is damaged"]
    assert [e.success for e in run.evaluations] == [e.success for e in whole.evaluations]
    assert run.evaluations[-1].per_task["push"].success == whole.evaluations[-1].per_task["push"].success
    assert run.evaluations[-1].per_task["push"].episodes is None


def test_a_half_written_last_line_is_left_out_and_said(make_run) -> None:
    path = make_run()
    with (path / "train.log").open("a") as log:
        log.write('{"step": 100500, "fra')
    run = read_run(path)
    assert len(run.train) == 400
    assert run.problems == ["train.log has 1 line that cannot be read"]


def test_the_later_writing_wins_after_a_resume(make_run) -> None:
    path = make_run()
    (path / "results.json").unlink()
    rows = [{"step": 0, "success": 0.0}, {"step": 10, "success": 0.1}, {"step": 20, "success": 0.2}]
    rows.append({"step": 10, "success": 0.7})  # resumed from before step 10
    for log in ("eval.log", "train.log"):
        (path / log).write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_run(path)
    assert [(e.step, e.success) for e in run.evaluations] == [(0, 0.0), (10, 0.7)]
    assert [row["step"] for row in run.train] == [0, 10, 10]


@pytest.mark.parametrize("name", ["run.json", "results.json", "eval.log", "train.log", "config.yaml"])
@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_no_damaged_file_stops_the_reading(make_run, name: str, damage: str) -> None:
    content = DAMAGE[damage]
    path = make_run()
    (path / name).unlink()
    if content is not None:
        (path / name).write_bytes(content)
    runs = find_runs([path])
    assert runs[0].seed == "1"
    assert runs[0].config_name == "state_sac"
    align(group_runs(runs)[0])
    if content is None:
        assert f"{name} is missing" in runs[0].problems or name == "eval.log"


@pytest.mark.parametrize("value", [None, "x", [], {}, True, 1e400, -1, 10**400])
def test_values_of_any_kind(make_run, value: object) -> None:
    path = make_run()
    results = json.loads((path / "results.json").read_text())
    for key in ("step", "success", "return", "per_task", "frames"):
        results["evaluations"][2][key] = value
    results["evaluations"][3]["per_task"]["reach"] = {"success": value, "return": value, "episodes": value}
    (path / "results.json").write_text(json.dumps(results))
    run = read_run(path)
    align(group_runs([run])[0])


def test_runs_are_found_below_any_folder_and_once(make_run, tmp_path: Path) -> None:
    first = make_run(seed=1)
    for options in ({"seed": 2}, {"config": "pcgrad"}, {"env": "dmc"}):
        make_run(**options)
    (first / "checkpoints" / "10").mkdir(parents=True)
    (first / "checkpoints" / "10" / "run.json").write_text("{}")
    runs = find_runs([tmp_path, first, first.parent / ".." / "state_sac"])
    assert len(runs) == 4
    groups = group_runs(runs)
    assert [len(group.runs) for group in groups] == [1, 1, 2]
    assert len({group.label for group in groups}) == 3


def test_nothing_to_find_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(MedleyError, match="No run found in"):
        find_runs([tmp_path])
    with pytest.raises(MedleyError, match="There is no folder"):
        find_runs([tmp_path / "missing"])


def test_the_same_seed_twice_is_not_two_seeds(make_run) -> None:
    make_run(folder="a/seed_1")
    make_run(folder="b/seed_1")
    groups = group_runs(find_runs([make_run(folder="b/seed_2", seed=2).parents[1]]))
    assert sorted(len(group.runs) for group in groups) == [1, 2]
    assert len({group.label for group in groups}) == 2


def test_alignment_takes_the_steps_that_all_seeds_have(make_run) -> None:
    make_run(seed=1)
    path = make_run(seed=2, steps=range(0, 60_001, 10_000))
    group = group_runs(find_runs([path.parent]))[0]
    aligned = align(group)
    assert aligned is not None
    assert aligned.steps.tolist() == list(range(0, 60_001, 10_000))
    assert aligned.success.shape == (2, 3, 7)
    assert aligned.success[1, 1, 6] == group.runs[1].evaluations[6].per_task["push"].success
    assert aligned.returns[0, 2, 3] == group.runs[0].evaluations[3].per_task["pick-place"].ret
    assert aligned.episodes == (100, 100, 100)
    assert any("up to step 60,000" in note for note in aligned.notes)


def test_alignment_interpolates_where_no_steps_are_shared(make_run) -> None:
    make_run(seed=1, steps=(0, 100, 200))
    path = make_run(seed=2, steps=(50, 150, 250))
    group = group_runs(find_runs([path.parent]))[0]
    aligned = align(group)
    assert aligned is not None
    assert aligned.steps.tolist() == [50, 100, 150, 200]
    at = [evaluation.per_task["reach"].success for evaluation in group.runs[0].evaluations]
    np.testing.assert_allclose(aligned.success[0, 0], [(at[0] + at[1]) / 2, at[1], (at[1] + at[2]) / 2, at[2]])
    assert any("interpolated" in note for note in aligned.notes)


def test_alignment_leaves_out_who_cannot_take_part(make_run) -> None:
    make_run(seed=1)
    make_run(seed=2)
    make_run(seed=3, steps=(0, 10_000), status="running")
    path = make_run(seed=4)
    (path / "results.json").unlink()
    (path / "eval.log").unlink()
    aligned = align(group_runs(find_runs([path.parent]))[0])
    assert aligned is not None
    assert aligned.seeds == ("1", "2")
    assert len(aligned.steps) == 11
    assert len(aligned.notes) == 2
    shutil.rmtree(path.parent / "seed_1")
    shutil.rmtree(path.parent / "seed_2")
    shutil.rmtree(path.parent / "seed_3")
    assert align(group_runs(find_runs([path]))[0]) is None


def test_seeds_without_any_range_in_common(make_run) -> None:
    make_run(seed=1, steps=(0, 10))
    path = make_run(seed=2, steps=(100, 110))
    aligned = align(group_runs(find_runs([path.parent]))[0])
    assert aligned is not None
    assert aligned.seeds == ("2",)


def test_averages_alone_stand_for_one_task(make_run) -> None:
    path = make_run()
    (path / "results.json").unlink()
    (path / "eval.log").write_text('{"step": 0, "success": 0.25}\n{"step": 10, "success": 0.5}\n')
    aligned = align(group_runs(find_runs([path]))[0])
    assert aligned is not None
    assert aligned.success.tolist() == [[[0.25, 0.5]]]
    assert math.isnan(aligned.returns[0, 0, 0])


@pytest.mark.parametrize(
    ("task", "name"),
    [("pick-place", "pick-place"), ("../../etc", "etc"), ("a b/c", "a-b-c"), ("<x>", "x"), ("…", "task")],
)
def test_file_names_are_harmless(task: str, name: str) -> None:
    assert file_name(task) == name
