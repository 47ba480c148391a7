"""`medley report --serve`: runs that grow while a page is open, and what must not be handed out."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from medley.bench.browser import Browser
from medley.errors import MedleyError
from medley.reporting import following
from medley.reporting.following import Follower
from medley.reporting.serving import Server, serve

STEPS = tuple(range(0, 50_001, 10_000))


@contextmanager
def _served(*paths: Path) -> Iterator[Server]:
    server = Server(Follower(list(paths), pause=0, every=0.1))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _ask(server: Server, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    line.putrequest("GET", path, skip_host="Host" in headers)  # as it is: nothing tidies up the path
    for name, value in headers.items():
        line.putheader(name, value)
    line.endheaders()
    answer = line.getresponse()
    content = answer.read()
    line.close()
    return answer.status, dict(answer.getheaders()), content


def _grow(run: Path, write_run, root: Path, **options: object) -> None:
    """The same run, further on."""
    later = write_run(root, **options)
    for name in ("results.json", "eval.log", "train.log", "run.json"):
        (later / name).replace(run / name)


def test_the_page_follows_a_run(browser: Browser, make_run, write_run, film, tmp_path: Path) -> None:
    options = {"seed": 1, "config": "plain", "status": "running", "steps": STEPS}
    run = make_run(**options)
    make_run(seed=1, config="zero", steps=STEPS)
    film(run / "video" / "50000_reach.mp4")
    with _served(tmp_path / "runs") as server:
        page = browser.open(server.address)
        page.wait_for("performance.getEntriesByName('ready').length")
        page.click("[data-task=push]")
        page.click("#legend [data-label=zero]")
        page.click("[data-run$='plain/seed_1']")
        page.wait_for("document.querySelector('.opened video').readyState >= 2")
        page.click(".opened video")
        page.wait_for("document.querySelector('.opened video').currentTime > 0.1")
        choice = page.value("location.hash")
        colours = "[...document.querySelectorAll('#legend line')].map((line) => line.style.stroke)"
        assert page.value(colours) == ["var(--c0)", "var(--c1)"]
        points = "document.querySelector('#chart path.line').getAttribute('d').split('L').length"
        assert page.value(points) == len(STEPS)

        steps = tuple(range(0, 80_001, 10_000))
        _grow(run, write_run, tmp_path / "later", **{**options, "steps": steps, "status": "finished"})
        make_run(seed=1, config="question", steps=STEPS)  # between the others
        page.wait_for("document.querySelectorAll('.opener').length === 3")
        page.wait_for(f"{points} === {len(steps)}")
        assert page.value("document.getElementById('badges').textContent").split() == ["3", "×", "finished"]
        row = "document.querySelector(\"[data-run$='plain/seed_1']\").closest('tr')"
        assert page.value(f"{row}.textContent").count("finished") == 1
        # Nothing the reader chose is lost, and what plays goes on.
        assert page.value("location.hash") == choice
        lines = page.value("[...document.querySelectorAll('#chart path.line')].map((line) => line.dataset.label)")
        assert sorted(lines) == ["plain", "question"]
        assert page.value("document.querySelector('[data-task=push]').ariaPressed") == "false"
        assert not page.value("document.querySelector('.opened video').paused")
        assert page.value(colours) == ["var(--c0)", "var(--c2)", "var(--c1)"], "a colour stays with its group"

        film(run / "video" / "80000_push.mp4")
        page.wait_for("document.querySelectorAll('.opened video').length === 2")
        assert page.errors == []
    page.wait_for("document.getElementById('light').textContent.startsWith('no answer')")
    assert "file" not in {address.split(":")[0] for address in page.requests}
    page.close()


def test_a_page_before_the_first_run(browser: Browser, make_run, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with _served(tmp_path / "runs") as server:
        page = browser.open(server.address)
        page.wait_for("document.querySelector('#chart .nothing').textContent === 'no run yet'")
        make_run(steps=STEPS)
        page.wait_for("document.querySelectorAll('#chart path.line').length === 1")
        assert page.value("document.title") == "metaworld-mt10 · state_sac · seed 1"
        assert page.value("document.querySelectorAll('.card').length") > 4
        assert page.errors == []
        page.close()


def test_only_what_changed_is_read_and_told(
    make_run, write_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run(seed=seed, steps=STEPS) for seed in (1, 2, 3)]
    read: list[Path] = []
    real = following.read_run
    monkeypatch.setattr(following, "read_run", lambda path: (read.append(path), real(path))[1])
    follower = Follower([tmp_path / "runs"], pause=0)
    first = json.loads(follower.answer())
    assert len(read) == len(first["runs"]) == 3
    assert first["whole"]
    again = json.loads(follower.answer(first["version"]))
    assert again == {"version": first["version"]}
    assert len(read) == 3

    _grow(runs[1], write_run, tmp_path / "later", seed=2, steps=(*STEPS, 60_000))
    news = json.loads(follower.answer(first["version"]))
    assert read[3:] == [runs[1].resolve()]
    assert [name.rpartition("/")[2] for name in news["runs"]] == ["seed_2"]
    assert not news["whole"]
    assert news["order"] == first["order"]
    # Someone else's version, or one that is none, gets everything.
    for strange in ("", "elsewhere-1", "x", first["version"] + "9"):
        assert json.loads(follower.answer(strange))["runs"].keys() >= {"runs/metaworld-mt10/state_sac/seed_2"}


def test_runs_that_go_away_are_forgotten(make_run, tmp_path: Path) -> None:
    make_run(seed=1)
    second = make_run(seed=2)
    follower = Follower([tmp_path / "runs"], pause=0)
    version = json.loads(follower.answer())["version"]
    second.rename(second.with_name("seed_2.old-1"))
    news = json.loads(follower.answer(version))
    assert [name.rpartition("/")[2] for name in news["order"]] == ["seed_1"]


def test_only_videos_below_the_folders_are_handed_out(make_run, tmp_path: Path) -> None:
    run = make_run(folder="env/config/seed_1")
    (run / "video").mkdir()
    (run / "video" / "7_reach.mp4").write_bytes(bytes(range(100)))
    (run / "video" / ".8_reach.mp4.part.mp4").write_bytes(b"half of one")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (run / "video" / "9_reach.mp4").symlink_to(tmp_path / "secret.mp4")
    (run / "video" / "up").symlink_to(tmp_path)
    with _served(tmp_path / "runs") as server:
        below = "/files/0/env/config/seed_1/video"
        status, headers, content = _ask(server, f"{below}/7_reach.mp4")
        assert (status, content) == (200, bytes(range(100)))
        assert headers["Content-Type"] == "video/mp4"
        for path in (
            f"{below}/9_reach.mp4",
            f"{below}/up/secret.mp4",
            f"{below}/.8_reach.mp4.part.mp4",
            f"{below}/10_reach.mp4",
            f"{below}/7_reach.mp4%00",
            "/files/0/env/config/seed_1/config.yaml",
            "/files/0/env/config/seed_1",
            "/files/0/../secret.mp4",
            "/files/0/%2e%2e/secret.mp4",
            "/files/0/..%2fsecret.mp4",
            "/files/0/env/../../secret.mp4",
            f"/files/0/{tmp_path}/secret.mp4",
            f"/files/0//{tmp_path}/secret.mp4",
            "/files/1/7_reach.mp4",
            "/files/-1/7_reach.mp4",
            "/files/0",
            "/files/",
            "/../../../../etc/passwd",
            "/report.html",
            "//" + "x" * 5000,
        ):
            status, _, content = _ask(server, path)
            assert status == 404, path
            assert b"secret" not in content


def test_parts_of_a_video(make_run, tmp_path: Path) -> None:
    run = make_run(folder="env/config/seed_1")
    (run / "video").mkdir()
    (run / "video" / "7.mp4").write_bytes(bytes(range(100)))
    with _served(tmp_path / "runs") as server:
        for asked, status, expected in (
            ("bytes=10-19", 206, range(10, 20)),
            ("bytes=90-", 206, range(90, 100)),
            ("bytes=90-1000", 206, range(90, 100)),
            ("bytes=100-", 416, ()),
            ("bytes=5-2", 416, ()),
            ("bytes=nonsense", 200, range(100)),
        ):
            found, headers, content = _ask(server, "/files/0/env/config/seed_1/video/7.mp4", Range=asked)
            assert (found, content) == (status, bytes(expected)), asked
            if status == 206:
                assert headers["Content-Range"] == f"bytes {expected[0]}-{expected[-1]}/100"


def test_other_names_of_this_machine_are_refused(make_run, tmp_path: Path) -> None:
    make_run(steps=STEPS)
    with _served(tmp_path / "runs") as server:
        port = server.server_address[1]
        assert _ask(server, "/data.json", Host=f"localhost:{port}")[0] == 200
        assert _ask(server, "/data.json", Host=f"evil.example:{port}")[0] == 403
        status, headers, _ = _ask(server, "/")
        assert status == 200
        assert "script-src 'sha256-" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"].replace("style-src 'unsafe-inline'", "")
        with pytest.raises(MedleyError, match="choose another --port"):
            serve([tmp_path / "runs"], port=port)


def test_bad_folders_and_options_are_said_at_the_start(make_run, tmp_path: Path) -> None:
    make_run()
    with pytest.raises(MedleyError, match="no folder"):
        serve([tmp_path / "nowhere"], port=0)
    with pytest.raises(MedleyError, match="no run has such an option"):
        serve([tmp_path / "runs"], by="agent.nonsense", port=0)


def test_ctrl_c_ends_it_quietly(make_run, tmp_path: Path) -> None:
    make_run()
    command = [sys.executable, "-m", "medley", "report", str(tmp_path / "runs"), "--serve", "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background may ignore it
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://127.0.0.1:" in line
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
