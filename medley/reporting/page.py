"""Pieces of an HTML page that needs nothing but itself: no font, no library, no link to anywhere.

Every text that comes from a file passes `escape`, or lies in a block of JSON in which nothing can end the block. The
page's policy (Content-Security-Policy) allows one script, ours, by its checksum, so that a name that slipped through
would still not run. Without scripts the page shows pictures and tables.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from medley.reporting import style
from medley.reporting.style import Picture

_WEB = Path(__file__).parent / "web"
# In this order: each uses what comes before it.
_SCRIPTS = (
    "dom",
    "numbers",
    "model",
    "choice",
    "scales",
    "tip",
    "chart",
    "curves",
    "controls",
    "details",
    "runs",
    "videos",
    "report",
)
# Okabe and Ito's colours (`style.COLOURS`), as light as lines on a dark page have to be.
_ON_DARK = ("#3f8fd6", "#e8662a", "#1fae82", "#df8fbe", "#a5dcfa", "#f5c84c")

_NOTES = 4
_CSV_BYTES = 300_000  # larger tables are beside the page only


@cache
def script() -> str:
    """The page's own, in a scope of its own."""
    parts = [(_WEB / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "\n})();"


@cache
def _styles() -> str:
    def colours(values: Sequence[str]) -> str:
        return ":root { " + " ".join(f"--c{index}: {value};" for index, value in enumerate(values)) + " }"

    text = (_WEB / "report.css").read_text(encoding="utf-8")
    return f"{colours(style.COLOURS)}\n@media (prefers-color-scheme: dark) {{ {colours(_ON_DARK)} }}\n{text}"


def policy(served: bool = False) -> str:
    """Nothing from anywhere but this file, videos beside it, and our script; served, also fresh data from there."""
    checksum = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode("ascii")
    rules = ["default-src 'none'", f"script-src 'sha256-{checksum}'", "style-src 'unsafe-inline'", "img-src data:"]
    rules += ["media-src data: 'self'", "base-uri 'none'", "form-action 'none'"]
    return "; ".join([*rules, "connect-src 'self'"] if served else rules)


def document(title: str, body: Iterable[str], served: bool = False) -> str:
    """The whole page; `body` is HTML, `title` is text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(served)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_styles()}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def curves(data: Any) -> str:
    """The place of the interactive curves, the data, and the script, which draws before the rest is read."""
    skeleton = (_WEB / "curves.html").read_text(encoding="utf-8")
    return f'{skeleton}<script type="application/json" id="data">{embedded(data)}</script>\n<script>{script()}</script>'


def runs() -> str:
    """The place of the table of runs."""
    return (_WEB / "runs.html").read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    """JSON that may stand in HTML: no `<`, so no tag and no end of a script."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False, default=str).replace("<", "\\u003c")


def heading(title: str, badges: Iterable[Sequence[str]], about: str, first: str = "") -> str:
    """`badges` are (class, text); `first` is HTML that comes before them."""
    shown = " ".join(f'<span class="badge {escape(kind)}">{escape(words)}</span>' for kind, words in badges)
    return (
        f'<h1 id="title">{escape(title)}</h1>'
        f'<p>{first}<span id="badges">{shown}</span> <span class="soft" id="about">{escape(about)}</span></p>'
    )


def cards(items: Iterable[tuple[str, str, str]]) -> str:
    """Key figures: (what, value, remark)."""
    shown = (
        f'<div class="card"><span>{escape(what)}</span><b>{escape(value)}</b><span>{escape(remark)}</span></div>'
        for what, value, remark in items
    )
    return f'<div class="cards" id="cards">{"".join(shown)}</div>'


def figure(picture: Picture, alt: str, still: bool = False) -> str:
    """A picture, embedded, with its numbers to download; a `still` one gives way to the script's curves."""
    with Image.open(picture.png) as image:
        # Drawn at 150 dpi for sharp screens; a page counts 96 to the inch. With both, nothing moves when it loads.
        width, height = (round(side * 96 / 150) for side in image.size)
    name = picture.csv.name
    small = picture.csv.stat().st_size <= _CSV_BYTES
    where = data_uri(picture.csv, "text/csv") if small else quote(f"{picture.csv.parent.name}/{name}")
    link = f'<a download="{escape(name)}" href="{where}">'
    return (
        f'<figure class="picture{" still" if still else ""}"><img width="{width}" height="{height}" '
        f'alt="{escape(alt)}" loading="lazy" src="{data_uri(picture.png, "image/png")}">'
        f"<figcaption>{escape(picture.caption)} {link}{escape(name)}</a></figcaption></figure>"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]], totals: int = 0) -> str:
    """`rows` hold whole cells (`cell`, `bar`); the first `totals` of them stand out."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr{' class=total' if index < totals else ''}>{''.join(row)}</tr>\n" for index, row in enumerate(rows)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def bar(share: float, remark: str = "") -> str:
    """A cell with a success rate and a bar behind it."""
    width = 0.0 if math.isnan(share) else 100 * min(max(share, 0.0), 1.0)
    small = f" <small>{escape(remark)}</small>" if remark else ""
    return f'<td class="bar" style="--share: {width:.1f}%">{percent(share)}{small}</td>'


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def notes(texts: Sequence[str]) -> str:
    """The first of them, and the others folded: many must not push the curves off the screen."""
    shown, more = texts[:_NOTES], texts[_NOTES:]
    folded = f"<details><summary>{len(more)} more notes</summary>{''.join(map(note, more))}</details>" if more else ""
    return f'<div id="notes">{"".join(map(note, shown))}{folded}</div>'


def details(summary: str, text: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def plain(value: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"


def data_uri(path: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
