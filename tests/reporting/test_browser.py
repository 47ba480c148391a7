"""The page in a real browser: pictures load, nothing runs, nothing overflows a telephone."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from medley.reporting.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]

CHECK = """<script>addEventListener("load", () => { const all = [...document.images];
document.documentElement.dataset.check = [all.length, all.filter(i => i.naturalWidth > 500).length,
document.title, document.documentElement.scrollWidth <= innerWidth].join("|"); });</script>"""


def _browse(page: Path, *flags: str) -> str:
    profile = page.parent / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_page_in_a_browser(make_run, hostile: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        path = make_run(seed=seed, config=hostile, tasks=[hostile, "reach"], folder=f"x/seed_{seed}")
    page = write_report([path.parent], tmp_path)

    # Without its policy, so that escaping alone must hold, and the check itself may run.
    bare = tmp_path / "bare.html"
    text, replaced = re.subn(r"<meta http-equiv[^>]*>", "", page.read_text())
    assert replaced == 1
    bare.write_text(text.replace("</head>", CHECK + "</head>"))
    found = re.search('data-check="(.*?)"', _browse(bare, "--window-size=600,900", "--dump-dom"))
    assert found is not None
    images, loaded, title, fits = html.unescape(found[1]).split("|")
    assert images == loaded == "3"
    assert title.endswith(hostile), "as text, in full: no script of the name's own has run"
    assert fits == "true"

    # With its policy, even a script put there on purpose does not run.
    armed = tmp_path / "armed.html"
    armed.write_text(page.read_text().replace("</head>", CHECK + "</head>"))
    assert "data-check=" not in _browse(armed, "--dump-dom")

    picture = tmp_path / "page.png"
    _browse(page, "--window-size=1100,1600", f"--screenshot={picture}")
    with Image.open(picture) as image:
        assert len(image.convert("RGB").getcolors(1 << 22) or []) > 100
