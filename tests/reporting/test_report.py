"""Pictures and pages from synthetic runs: few and many tasks, seeds and groups, damaged and hostile ones."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from medley.errors import MedleyError
from medley.reporting import report
from medley.reporting.alignment import align
from medley.reporting.curves import learning_curve, task_curves
from medley.reporting.losses import training_curves
from medley.reporting.report import final_table, write_report
from medley.reporting.runs import find_runs, group_runs, read_run, run_folders


class _Reader(HTMLParser):
    """Tags, attributes and text as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("tasks", "seeds"), [(1, 1), (10, 3), pytest.param(50, 2, marks=pytest.mark.long)])
def test_pictures_and_their_numbers(make_run, tmp_path: Path, tasks: int, seeds: int) -> None:
    names = [f"task-{index}" for index in range(tasks)]
    path = [make_run(seed=seed, tasks=names) for seed in range(seeds)].pop()
    groups = group_runs(find_runs([path.parent]))
    aligned = align(groups[0])
    assert aligned is not None
    training = training_curves(groups, tmp_path / "training")
    assert training is not None
    pictures = [
        learning_curve([aligned], tmp_path / "curve"),
        task_curves([aligned], tmp_path / "tasks"),
        training,
    ]
    for picture in pictures:
        with Image.open(picture.png) as image:
            assert image.width > 500
            assert len(image.convert("RGB").getcolors(1 << 20) or []) > 5
        assert picture.png.stat().st_size < 250_000
    rows = _rows(pictures[0].csv)
    assert [int(row["step"]) for row in rows] == list(range(0, 100_001, 10_000))
    assert float(rows[-1]["success_mean"]) == pytest.approx(aligned.success[..., -1].mean(), rel=1e-5)
    assert bool(rows[-1]["success_iqm_low"]) == (seeds > 1)
    rows = _rows(pictures[1].csv)
    assert len(rows) == tasks * 11
    assert float(rows[-1]["success_mean"]) == pytest.approx(aligned.success[:, -1, -1].mean(), rel=1e-5)
    assert {"critic_loss", "actor_loss", "alpha_value"} <= set(_rows(training.csv)[0])


def test_training_bins_are_means(make_run, tmp_path: Path) -> None:
    path = make_run()
    rows = [{"step": step, "critic_loss": float(step % 2)} for step in range(12_000)]
    (path / "train.log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    picture = training_curves(group_runs([read_run(path)]), tmp_path / "training")
    assert picture is not None
    values = [float(row["critic_loss"]) for row in _rows(picture.csv)]
    assert len(values) == 120
    np.testing.assert_allclose(values, 0.5, atol=0.02)


def test_one_run(make_run) -> None:
    path = make_run()
    page = write_report([path])
    assert page == path / "report.html"
    text = page.read_text()
    reader = _Reader(text)
    assert reader.count("img") == 3
    for words in (
        "metaworld-mt10",
        "finished",
        "mean success",
        "1 run, 3 tasks",
        "pick-place",
        "batch_size: 128",
    ):
        assert words in reader.text
    assert "medley train env=metaworld-mt10" in reader.text
    expected = read_run(path).evaluations[-1].success
    assert f"{100 * expected:.1f} %" in reader.text
    written = {file.name for file in (path / "report").iterdir()}
    assert {f"{stem}.{kind}" for stem in ("learning_curve", "tasks", "training") for kind in ("csv", "png")} <= written
    # Nothing on the page points anywhere but into itself.
    for tag, attributes in reader.tags:
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "data:").startswith("data:"), tag
    named = text.replace("http-equiv", "").replace('"http://www.w3.org/2000/svg"', "")  # a name, not an address
    assert "http" not in re.sub(r"base64,[^\"]*", "", named)
    assert read_run(path).evaluations, "the report must not hide the run from the next reading"


def test_seeds_and_groups(make_run) -> None:
    for seed in (1, 2, 3):
        first = make_run(seed=seed)
        make_run(seed=seed, config="pcgrad", speed=2.0)
    page = write_report([first.parent])
    assert page == first.parent / "report.html"
    assert "95 %: [" in _Reader(page.read_text()).text
    page = write_report([first.parent, first.parents[1] / "pcgrad"])
    assert page == first.parents[1] / "report.html"
    reader = _Reader(page.read_text())
    assert "Comparison" in reader.text
    assert "6 runs, 3 tasks" in reader.text
    elsewhere = first.parents[2] / "out" / "mine.html"
    assert write_report([first], elsewhere) == elsewhere
    assert (elsewhere.parent / "mine" / "tasks.csv").is_file()


def test_what_does_not_compare_is_said(make_run) -> None:
    make_run()
    path = make_run(config="other", protocol="old", steps=(0, 100), tasks=("reach",))
    text = _Reader(write_report([path.parents[1]]).read_text()).text
    for words in ("different protocols", "different tasks", "at different steps"):
        assert words in text


@pytest.mark.parametrize("missing", ["run.json", "eval.log", "train.log", "all"])
def test_a_run_with_holes_still_has_a_report(make_run, missing: str) -> None:
    path = make_run()
    for file in list(path.iterdir()):
        if file.name == missing or (missing == "all" and file.name != "run.json"):
            file.unlink()
    text = _Reader(write_report([path]).read_text()).text
    assert ("missing" in text) == (missing != "eval.log")
    assert ("no evaluation yet" in text) == (missing == "all")


def test_hostile_names_stay_text(make_run, hostile: str) -> None:
    path = make_run(env=hostile, config=hostile, tasks=[hostile, "_x", "[red]y"], folder="x/seed_1", status=hostile)
    make_run(
        env=hostile,
        config=hostile,
        tasks=[hostile, "_x", "[red]y"],
        folder="x/seed_2",
        seed=2,
        protocol=hostile,
    )
    (path / "config.yaml").write_text(f"</pre></details>{hostile}")
    (path / "video").mkdir()
    (path / "video" / "7_<b onload=x>.mp4").write_bytes(b"no video")
    reader = _Reader(write_report([path.parent]).read_text())
    assert hostile in reader.text
    assert [attributes for tag, attributes in reader.tags if tag == "script"] == [
        {"type": "application/json", "id": "data"},
        {},
    ], "the data and our own"
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert "7_<b onload=x>" not in reader.text
    assert "<b onload=x>" in reader.text
    shown = io.StringIO()
    Console(file=shown, width=300).print(final_table(read_run(path)))
    assert "[red]y" in shown.getvalue()


def test_videos_are_embedded_up_to_a_limit(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run()
    (path / "video").mkdir()
    for name in ("100000_push", "100000_reach", "50000_reach"):
        (path / "video" / f"{name}.mp4").write_bytes(name.encode() * 20)
    reader = _Reader(write_report([path]).read_text())
    assert reader.count("video") == 2
    assert all({"controls", "loop", "muted"} <= set(attributes) for tag, attributes in reader.tags if tag == "video")
    assert reader.text.index("reach, step 100,000, seed 1: success") < reader.text.index("push, step 100,000")
    monkeypatch.setattr(report, "VIDEO_BYTES", 250)
    reader = _Reader(write_report([path]).read_text())
    sources = [attributes["src"] or "" for tag, attributes in reader.tags if tag == "video"]
    assert sources[0].startswith("data:video/mp4;base64,")
    assert sources[1] == "./video/100000_push.mp4"
    assert "1 video linked" in reader.text
    # From elsewhere the link leads there, with every letter that means something in an address spelt out.
    odd = make_run(seed=2, folder="a#b?c %/seed_2")
    (odd / "video").mkdir()
    (odd / "video" / "5_reach.mp4").write_bytes(b"x" * 300)
    reader = _Reader(write_report([odd], path / "elsewhere").read_text())
    link = next(attributes["src"] or "" for tag, attributes in reader.tags if tag == "video")
    assert (path / "elsewhere" / unquote(link)).resolve() == (odd / "video" / "5_reach.mp4").resolve()
    assert not set(link) & set("#? ")


def test_a_place_that_cannot_be_written_is_said(make_run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MedleyError, match="cannot be written"):
        write_report([make_run()], tmp_path / "file" / "below")


def test_folders_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("width_64/seed_10", "width_64/seed_2", "width_256/seed_1", "7", "plain/seed_1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text("{}")
    found = [str(folder.relative_to(tmp_path)) for folder in run_folders([tmp_path])]
    assert found == ["7", "plain/seed_1", "width_64/seed_2", "width_64/seed_10", "width_256/seed_1"]


def test_final_table(make_run) -> None:
    shown = io.StringIO()
    path = make_run()
    Console(file=shown, width=120).print(final_table(read_run(path)))
    last = read_run(path).evaluations[-1]
    assert "pick-place" in shown.getvalue()
    assert f"{100 * last.success:.1f} %" in shown.getvalue()
    (path / "results.json").unlink()
    (path / "eval.log").unlink()
    assert "no evaluation yet" in str(final_table(read_run(path)).title)
