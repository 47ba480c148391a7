"""Pieces of an HTML page that needs nothing but itself: no script, no font, no link to anywhere.

Every text that comes from a file passes `escape`; the page also forbids scripts (Content-Security-Policy), so
that a name that slipped through would still not run.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from PIL import Image

from medley.reporting.style import Picture

_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"

_CSS = """
:root { color-scheme: light dark; --ink: #1d2129; --soft: #5b6472; --paper: #f6f7f9;
  --card: #fff; --line: #e1e5ea; --accent: #0072b2; --bar: #56b4e966; --warn: #8a5a00; --warnbg: #fff6e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaee; --soft: #9aa4b2; --paper: #14171c;
  --card: #1d2128; --line: #323842; --accent: #7cc4ee; --bar: #2f7fb080; --warn: #ffd58a;
  --warnbg: #33290f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.12rem; margin: 36px 0 10px; }
h3 { font-size: 1rem; margin: 18px 0 6px; overflow-wrap: anywhere; }
p { margin: 6px 0; }
.soft, figcaption { color: var(--soft); font-size: .88rem; }
a { color: var(--accent); }
.badge { display: inline-block; padding: 1px 10px; border-radius: 99px; border: 1px solid currentColor;
  font-size: .8rem; vertical-align: middle; }
.finished { color: #00855f; } .failed { color: #c0392b; } .running, .stopped, .unknown { color: var(--warn); }
@media (prefers-color-scheme: dark) { .finished { color: #4fd3a8; } .failed { color: #ff8d7e; } }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(124px, 1fr)); gap: 12px;
  margin: 18px 0; }
.card, figure, .scroll, details, .note { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
.card { padding: 11px 12px; overflow-wrap: anywhere; }
.card b { display: block; font-size: 1.15rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .82rem; display: block; }
figure { margin: 12px 0; padding: 14px; }
figure.picture { background: #fff; color: #1d2129; }
figure.picture figcaption { color: #5b6472; } figure.picture a { color: #0072b2; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto 8px; }
.clips { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 12px; }
.clips figure { margin: 0; padding: 8px; }
video { width: 100%; display: block; border-radius: 6px; background: #000; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 600; }
th, td:first-child { white-space: normal; overflow-wrap: break-word; max-width: 22em; }
th:first-child, td:first-child { text-align: left; min-width: 9em; }
td.bar { background: linear-gradient(90deg, var(--bar) var(--share), transparent var(--share));
  min-width: 110px; }
tr.total td { font-weight: 650; }
td small { color: var(--soft); font-weight: 400; }
.note { color: var(--warn); background: var(--warnbg); padding: 8px 14px; margin: 8px 0; font-size: .9rem;
  overflow-wrap: anywhere; }
details { padding: 10px 14px; margin: 10px 0; }
summary { cursor: pointer; font-weight: 600; }
pre { overflow-x: auto; font: .82rem/1.45 ui-monospace, Consolas, monospace; margin: 8px 0; }
"""


def document(title: str, body: Iterable[str]) -> str:
    """The whole page; `body` is HTML, `title` is text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def cards(items: Iterable[tuple[str, str, str]]) -> str:
    """Key figures: (what, value, remark)."""
    shown = (
        f'<div class="card"><span>{escape(what)}</span><b>{escape(value)}</b><span>{escape(remark)}</span></div>'
        for what, value, remark in items
    )
    return f'<div class="cards">{"".join(shown)}</div>'


def figure(picture: Picture, alt: str) -> str:
    """A picture, embedded, with its numbers to download."""
    with Image.open(picture.png) as image:
        # Drawn at 150 dpi for sharp screens; a page counts 96 to the inch.
        width = round(image.width * 96 / 150)
    link = f'<a download="{escape(picture.csv.name)}" href="{data_uri(picture.csv, "text/csv")}">'
    return (
        f'<figure class="picture"><img width="{width}" alt="{escape(alt)}" '
        f'src="{data_uri(picture.png, "image/png")}">'
        f"<figcaption>{escape(picture.caption)} {link}{escape(picture.csv.name)}</a></figcaption></figure>"
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


def details(summary: str, text: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def plain(value: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"


def data_uri(path: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
