"""What a page must never do, in a real browser: run what is in a name, reach out, or need its script to be read."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

from medley.bench.browser import Browser
from medley.reporting.report import write_report

OWNED = "<script>document.documentElement.dataset.owned = 'yes'</script>"


def test_names_stay_text(browser: Browser, make_run, hostile: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        path = make_run(seed=seed, config=hostile, tasks=[hostile, "reach"], folder=f"x/seed_{seed}", status=hostile)
    (path / "config.yaml").write_text(
        f"agent: {{'</script>{hostile.replace(chr(39), '')}': '{OWNED.replace(chr(39), '')}'}}"
    )
    written = write_report([path.parent], tmp_path)

    # Without its policy, so that escaping alone must hold.
    bare = tmp_path / "bare.html"
    text, replaced = re.subn(r"<meta http-equiv[^>]*>", "", written.read_text())
    assert replaced == 1
    bare.write_text(text)
    for address in (bare.as_uri(), written.as_uri()):
        page = browser.open(address, width=600)
        page.wait_for("performance.getEntriesByName('ready').length")
        for seed in (1, 2):
            page.click(f"[data-run$=seed_{seed}]")
        page.click(".configuration summary")
        page.value("document.getElementById('chart').focus()")
        page.press("End")
        assert page.value("document.querySelector('.tip .who').textContent") == hostile
        assert page.value("document.title").endswith(hostile), "as text, in full: no script of the name's own has run"
        assert page.value("document.documentElement.dataset.owned") is None
        assert page.value("document.querySelectorAll('img[src=x]').length") == 0
        assert page.value("document.documentElement.scrollWidth <= innerWidth")
        assert page.errors == []
        page.close()


def test_only_our_script_runs(browser: Browser, make_run, tmp_path: Path) -> None:
    written = write_report([make_run()], tmp_path)
    armed = tmp_path / "armed.html"
    fetching = OWNED.replace("document.", "fetch('https://example.org'); document.", 1)
    others = "<img src='https://example.org/x'><iframe src='https://example.org/y'></iframe>"
    armed.write_text(written.read_text().replace("</body>", f"{fetching}{others}</body>"))
    page = browser.open(armed.as_uri())
    page.wait_for("performance.getEntriesByName('ready').length")
    assert page.value("document.documentElement.dataset.owned") is None
    assert any("Content Security Policy" in error for error in page.errors)
    assert not [address for address in page.requests if address.startswith("http")]
    page.close()


def test_without_scripts_there_are_pictures_and_tables(browser: Browser, make_run, tmp_path: Path) -> None:
    for seed in (1, 2):
        path = make_run(seed=seed)
    written = write_report([path.parent], tmp_path)
    page = browser.open(written.as_uri(), width=600, scripts=False)
    pictures = "[...document.querySelectorAll('img.still, .still img')]"
    page.wait_for(f"{pictures}.filter((image) => image.naturalWidth > 500).length === 3")
    assert page.value(f"{pictures}.every((image) => image.offsetHeight > 0)")
    assert "batch_size: 128" in page.value("document.body.textContent")
    assert page.value("document.getElementById('curves').hidden")
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    assert page.errors == []
    picture = tmp_path / "page.png"
    page.screenshot(picture)
    with Image.open(picture) as image:
        assert len(image.convert("RGB").getcolors(1 << 22) or []) > 100
    page.close()
