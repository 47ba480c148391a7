"""The page in a real browser, by clicking through it: what it shows are the numbers of the CSV files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from medley.bench.browser import Browser, Page
from medley.reporting import clips, report
from medley.reporting.report import write_report
from medley.reporting.runs import read_run
from medley.reporting.statistics import bootstrap_band

TASKS = ("reach", "push", "pick-place")
TIP = "document.querySelector('#chart .tip')"
LINES = "[...document.querySelectorAll('#chart path.line')].map((line) => line.dataset.label)"


@pytest.fixture(scope="module")
def folder(write_run, film, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods with three seeds, one video in the page and one beside it."""
    root = tmp_path_factory.mktemp("page")
    for name, trunk, speed in (("plain", "shared", 0.7), ("heads", "multi_head", 1.0), ("apart", "disjoint", 1.6)):
        for seed in (1, 2, 3):
            path = write_run(
                root,
                config=name,
                seed=seed,
                tasks=TASKS,
                speed=speed,
                options=f"agent: {{trunk: {trunk}, lr: 0.0003}}",
                status="failed" if (name, seed) == ("apart", 3) else "finished",
            )
            if seed == 1 and name != "apart":
                film(path / "video" / "100000_reach.mp4")
    size = (root / "metaworld-mt10/plain/seed_1/video/100000_reach.mp4").stat().st_size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "VIDEO_BYTES", int(1.5 * size))
        assert clips.VIDEO_BYTES == 20_000_000
        write_report([root], root)
    return root


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    """Freshly opened; whatever a test does, nothing may go wrong on the console, and nothing may leave the file."""
    page = browser.open((folder / "report.html").as_uri())
    page.wait_for("performance.getEntriesByName('ready').length && performance.getEntriesByName('tasks drawn').length")
    yield page
    assert page.errors == []
    assert {address.split("/")[0] for address in page.requests} <= {"file:", "data:image", "data:video"}
    page.close()


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _point_at(page: Page, share: float) -> None:
    """The pointer over the chart, at a share of its width between the first and the last step."""
    left, width, _ = page.value(
        "(() => { const c = document.getElementById('chart'); c.scrollIntoView({ block: 'center' });"
        " const b = c.getBoundingClientRect(); return [b.left, b.width, b.top]; })()"
    )
    _, y = page.place("#chart")
    page.move(left + 52 + share * (width - 52 - 22), y)


def _tip(page: Page) -> tuple[str, dict[str, tuple[str, str]]]:
    """What it points at, and value and interval by line."""
    title = page.value(f"{TIP}.querySelector('b').textContent")
    rows = page.value(
        f"[...{TIP}.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    return title, {who: (value, band) for who, value, band in rows}


def _percent(text: str) -> str:
    return f"{100 * float(text):.1f} %"


def _choose(page: Page, metric: str) -> None:
    """By the keyboard, as lists are in a browser without a window."""
    page.value("document.getElementById('metric').focus()")
    page.press("Home")
    for _ in range(60):
        if page.value("document.getElementById('metric').value") == metric:
            return
        page.press("ArrowDown")
    raise AssertionError(f"there is no {metric}")


@pytest.mark.parametrize("average", ["mean", "iqm"])
def test_the_pointer_shows_the_numbers_of_the_csv(page: Page, folder: Path, average: str) -> None:
    page.click(f".segments label:has([value={average}])")
    table = _rows(folder / "report/learning_curve.csv")
    for point, step in ((0, 0), (4, 40_000), (10, 100_000)):
        _point_at(page, point / 10)
        title, shown = _tip(page)
        assert title == f"step {step:,}"
        expected = {row["group"]: row for row in table if int(row["step"]) == step}
        assert shown.keys() == expected.keys() == {"plain", "heads", "apart"}
        for group, (value, band) in shown.items():
            row = expected[group]
            assert value == _percent(row[f"success_{average}"])
            ends = [float(row[f"success_{average}_{end}"]) for end in ("low", "high")]
            assert band == "[{:.0f}, {:.0f}]".format(*(100 * end for end in ends))
    page.move(5, 5)
    assert page.value(f"{TIP}.hidden")


def test_keys_move_the_cross_hair(page: Page) -> None:
    page.value("document.getElementById('chart').focus()")
    page.press("End")
    assert _tip(page)[0] == "step 100,000"
    page.press("ArrowLeft")
    assert _tip(page)[0] == "step 90,000"
    page.press("Escape")
    assert page.value(f"{TIP}.hidden")


def test_a_metric_is_chosen(page: Page, folder: Path) -> None:
    _choose(page, "return")
    _point_at(page, 0.5)
    expected = {r["group"]: r for r in _rows(folder / "report/learning_curve.csv") if r["step"] == "50000"}
    for group, (value, _) in _tip(page)[1].items():
        assert float(value.replace(",", "")) == pytest.approx(float(expected[group]["return_mean"]), rel=1e-3)

    _choose(page, "train:critic_loss")
    assert page.value("document.getElementById('log').checked"), "a loss over decades"
    page.click("#log")
    assert page.value("location.hash") == "#metric=train%3Acritic_loss&log=0"
    assert page.value("[...document.querySelectorAll('#chart .axes text')].map((t) => t.textContent)")[0] == "0"
    page.click("#log")
    assert page.value("document.querySelector('[data-task]').disabled"), "it is not known by task"
    page.value("document.getElementById('chart').focus()")
    page.press("End")
    title, shown = _tip(page)
    assert title == "step 100,000"
    runs = [read_run(folder / "metaworld-mt10/heads" / f"seed_{seed}") for seed in (1, 2, 3)]
    last = np.mean([run.train[-1]["critic_loss"] for run in runs])
    assert float(shown["heads"][0]) == pytest.approx(last, rel=2e-3)


def test_other_axes(page: Page) -> None:
    page.value("document.getElementById('axis').focus()")
    page.press("ArrowDown")
    _point_at(page, 1.0)
    assert _tip(page)[0] == "frame 300,000"
    page.press("ArrowDown")
    _point_at(page, 1.0)
    assert _tip(page)[0] == f"{400 * 0.8 / 60:.4g} minutes"


def test_groups_are_hidden_and_shown(page: Page) -> None:
    page.click("#legend [data-label=plain]")
    assert page.value(LINES) == ["apart", "heads"]
    assert page.value("location.hash") == "#hide=plain"
    assert page.value("document.querySelector('figure[data-group=plain]').hidden")
    page.click("#legend [data-label=plain]")
    assert len(page.value(LINES)) == 3
    page.click("#legend [data-label=heads]", count=2)
    assert page.value(LINES) == ["heads"]
    page.click("#legend [data-groups=none]")
    assert page.value("document.querySelector('#chart .nothing').textContent") == "no group is chosen"
    page.click("#legend [data-groups=all]")
    # By the keyboard too, and the key keeps the focus.
    page.value("document.querySelector('#legend [data-label=apart]').focus()")
    page.press("Enter")
    assert page.value(LINES) == ["heads", "plain"]
    page.press("Enter")
    assert len(page.value(LINES)) == 3


def test_tasks_are_chosen(page: Page, folder: Path) -> None:
    page.click("[data-task=push]")
    page.wait_for("document.querySelectorAll('#by-task h3').length === 2")
    assert page.value("document.getElementById('by-task').textContent").startswith("reach")
    page.click("#legend [data-label=apart]")
    page.click("#legend [data-label=apart]")  # bands of a choice come a moment later
    page.wait_for("document.querySelectorAll('#chart path.band').length === 3")
    _point_at(page, 0.5)
    scores = []
    for seed in (1, 2, 3):
        evaluation = read_run(folder / "metaworld-mt10/heads" / f"seed_{seed}").evaluations[5]
        scores.append([evaluation.per_task[task].success for task in ("reach", "pick-place")])
    value, band = _tip(page)[1]["heads"]
    assert value == f"{100 * np.mean(scores):.1f} %"
    expected = bootstrap_band(np.array(scores)[..., None])
    low, high = map(float, re.findall(r"\d+", band))
    assert low == pytest.approx(100 * expected.mean_low[0], abs=3)
    assert high == pytest.approx(100 * expected.mean_high[0], abs=3)

    page.click("[data-which=none]")
    assert page.value("document.querySelector('#chart .nothing').textContent") == "no task is chosen"
    page.click("[data-which=all]")
    assert page.value("document.querySelectorAll('[data-task][aria-pressed=true]').length") == 3


def test_single_seeds(page: Page) -> None:
    page.click(".segments label:has([value=seeds])")
    lines = page.value(LINES)
    assert len(lines) == 9
    assert "heads, seed 2" in lines


def test_small_charts_show_their_task(page: Page, folder: Path) -> None:
    page.value("document.querySelector('#by-task .panel:nth-child(2) .chart').focus()")
    page.press("End")
    shown = page.value(
        "Object.fromEntries([...document.querySelectorAll('#by-task .panel:nth-child(2) .tip tr')].map((row) =>"
        " [row.children[0].textContent, row.children[1].textContent]))"
    )
    table = _rows(folder / "report/tasks.csv")
    last = {row["group"]: row for row in table if row["task"] == "push" and row["step"] == "100000"}
    assert shown == {group: _percent(row["success_mean"]) for group, row in last.items()}


def test_runs_are_sorted_found_and_opened(page: Page) -> None:
    names = "[...document.querySelectorAll('.opener')].map((button) => button.textContent)"
    assert len(page.value(names)) == 9
    page.click("[data-column=success] button")
    shares = page.value(
        "[...document.querySelectorAll('#run-table td.bar')].map((cell) => parseFloat(cell.textContent))"
    )
    assert shares == sorted(shares)
    page.click("[data-column=success] button")
    assert page.value("document.querySelector('[data-column=success]').ariaSort") == "descending"

    page.click("#find")
    page.write("failed")
    assert page.value(names) == ["metaworld-mt10/apart/seed_3"]
    page.value("document.getElementById('find').select()")
    page.write("trunk=multi")
    assert len(page.value(names)) == 3

    page.click("[data-run='metaworld-mt10/heads/seed_1']")
    row = "document.querySelector('.differences [data-option=\"agent.trunk\"]')"
    assert page.value(f"[...{row}.children].map((cell) => cell.textContent)") == [
        "agent.trunk",
        "multi_head",
        "disjoint (3 runs), shared (3 runs)",
    ]
    assert page.value(f"{row}.querySelector('mark').textContent") == "multi_head"
    assert page.value("document.querySelector('.command').textContent").startswith("medley train env=metaworld-mt10")
    assert page.value("document.querySelectorAll('.configuration tr').length") == 0, "made when it is opened"
    page.click(".configuration summary")
    page.wait_for("document.querySelectorAll('.configuration tr').length")
    cells = "[...document.querySelectorAll('.configuration tr')].map((r) => [...r.children].map((c) => c.textContent))"
    assert dict(page.value(cells)) == {"agent.lr": "0.0003", "agent.trunk": "multi_head", "setup.seed": "1"}
    assert page.value("[...document.querySelectorAll('.configuration mark')].map((m) => m.textContent)") == [
        "multi_head"
    ]


@pytest.mark.parametrize(
    "selector", ["figure[data-group=heads] video", "figure[data-group=plain] video", ".opened video"]
)
def test_videos_play(page: Page, selector: str) -> None:
    """In the page, beside it, and in a run's details."""
    if selector.startswith(".opened"):
        page.click("[data-run='metaworld-mt10/plain/seed_1']")
    source = page.value(f"document.querySelector('{selector}').getAttribute('src')")
    assert source.startswith(
        "data:video/mp4;base64," if "heads" in selector else "./metaworld-mt10/plain/seed_1/video/"
    )
    page.wait_for(f"document.querySelector('{selector}').readyState >= 2")
    page.click(selector)
    page.wait_for(f"document.querySelector('{selector}').currentTime > 0.1")


def test_the_address_keeps_the_choice(page: Page) -> None:
    _choose(page, "return")
    page.click("#legend [data-label=plain]")
    page.click("[data-task=reach]")
    page.click(".segments label:has([value=iqm])")
    page.click("[data-run='metaworld-mt10/heads/seed_2']")
    address = page.value("location.href")
    page.reload()
    page.wait_for("document.querySelector('.opened')")
    assert page.value("location.href") == address
    assert page.value("document.getElementById('metric').value") == "return"
    assert page.value("document.querySelector('[name=show]:checked').value") == "iqm"
    assert page.value(LINES) == ["apart", "heads"]
    assert page.value("document.querySelector('[data-task=reach]').ariaPressed") == "false"
    assert (
        page.value("document.querySelector('.opener[aria-expanded=true]').textContent") == "metaworld-mt10/heads/seed_2"
    )


def test_the_view_is_saved_as_a_table(page: Page, tmp_path: Path) -> None:
    page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click("#save")
    path = tmp_path / "success_mean.csv"
    for _ in range(100):
        if path.is_file() and path.stat().st_size:
            break
        page.browser.wait(0.05)
    rows = _rows(path)
    assert len(rows) == 33
    assert rows[0].keys() == {"line", "step", "x", "success", "low", "high"}


def test_dark_and_narrow(browser: Browser, folder: Path) -> None:
    page = browser.open((folder / "report.html").as_uri(), width=390, dark=True)
    page.wait_for("performance.getEntriesByName('ready').length")
    page.click("[data-run='metaworld-mt10/heads/seed_1']")
    assert page.value("document.documentElement.scrollWidth <= innerWidth"), "nothing hangs over the edge"
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    page.close()


def test_smoothing_is_the_mean_of_neighbours(page: Page, folder: Path) -> None:
    page.value("document.getElementById('smooth').focus()")
    page.press("ArrowRight")
    assert page.value("document.getElementById('reach').textContent") == "±1"
    _point_at(page, 0.5)
    rows = [row for row in _rows(folder / "report/learning_curve.csv") if row["group"] == "heads"]
    expected = np.mean([float(row["success_mean"]) for row in rows[4:7]])
    assert _tip(page)[1]["heads"][0] == f"{100 * expected:.1f} %"


def test_an_address_written_by_hand(page: Page) -> None:
    page.value("location.hash = '#metric=return&hide=plain&hide=apart&task=push&find=seed_2'")
    page.wait_for(f"{LINES}.length === 1")
    assert page.value(LINES) == ["heads"]
    assert page.value("[...document.querySelectorAll('.opener')].length") == 3
    page.value("location.hash = '#metric=nonsense&x=nonsense&show=nonsense&smooth=x&task=nonsense&run=nonsense&sort=x'")
    page.wait_for("document.getElementById('metric').value === 'success'")
    assert page.value("document.querySelector('#chart .nothing').textContent") == "no task is chosen"
