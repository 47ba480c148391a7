"""How every picture looks, and how it is written: as PNG and as SVG, with its numbers as CSV beside it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:  # Matplotlib takes a second to import, and tables need none of it
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by every kind of colour vision; black and yellow are left out as lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (4, 1.2, 1.2, 1.2)))
INK, FAINT = "#2b2f36", "#d9dde3"
_DPI = 150


@dataclass(frozen=True)
class Picture:
    """What was written, and what it shows."""

    png: Path
    svg: Path
    csv: Path
    caption: str


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> Any:
    """A second turn through the colours changes the dashes."""
    return DASHES[index // len(COLOURS) % len(DASHES)]


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, not one of pyplot's: no global state, no window, no leak."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=_DPI, layout="constrained", facecolor="white")


def dress(axes: Any, title: str = "", size: float = 9.5) -> None:
    """The look of one panel."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=size - 2, length=2.5, color=FAINT)
    axes.grid(color=FAINT, linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    if title:
        # Names come from files: read as a formula, a `$` in one could fail.
        axes.set_title(title, fontsize=size, color=INK, loc="left", parse_math=False)


def step_axis(axes: Any, size: float = 7.5) -> None:
    """Steps as 20k or 1.5M."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.tick_params(axis="x", labelsize=size)


def percent_axis(axes: Any) -> None:
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])


def short_number(value: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def clean(name: str, limit: int = 40) -> str:
    """A name as a picture can draw it."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def shortened(name: str, limit: int) -> str:
    """As `clean`, but what is left out is in the middle: names of a sweep differ at their ends."""
    shown = clean(name, len(name))
    half = (limit - 1) // 2
    return shown if len(shown) <= limit else f"{shown[: limit - 1 - half]}…{shown[-half:]}"


def wrapped(name: str, width: int = 26, lines: int = 2) -> str:
    """A long name on several lines, broken behind `_`, `-`, a comma or a space where there is one."""
    shown: list[str] = []
    rest = shortened(name, width * lines - 4)
    while len(rest) > width and len(shown) < lines - 1:
        at = max(rest.rfind(mark, 0, width) for mark in "_-, /")
        at = at + 1 if at > width // 3 else width
        shown.append(rest[:at].rstrip())
        rest = rest[at:].lstrip()
    return "\n".join([*shown, clean(rest, width)])


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], columns: int = 4) -> None:
    """One legend below all panels, in as many columns as its longest label leaves room for."""
    columns = _columns(figure.get_figwidth(), labels, columns)
    box = figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(columns, max(1, len(labels))),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
    )
    for text in box.get_texts():
        text.set_parse_math(False)


def legend_height(width: float, labels: Sequence[str], columns: int = 4) -> float:
    """Inches that a legend takes from its figure."""
    return 0.19 * math.ceil(len(labels) / _columns(width, labels, columns))


def _columns(width: float, labels: Sequence[str], most: int) -> int:
    longest = 0.45 + 0.068 * max((len(label) for label in labels), default=0)  # inches, at this size of letters
    return max(1, min(most, int(width / longest)))


def save(figure: Figure, stem: Path, caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Picture:
    """Write `<stem>.png`, `<stem>.svg` and `<stem>.csv`."""
    from matplotlib import rc_context

    stem.parent.mkdir(parents=True, exist_ok=True)
    # Appended, not with_suffix: a stem may hold a dot.
    png, svg, table = (Path(f"{stem}.{kind}") for kind in ("png", "svg", "csv"))
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    # Lines on white need few colours: a palette makes the file a third, and reports embed it.
    Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(png, optimize=True)
    # Letters as outlines look the same wherever it is opened; without date and chance it is the same file every time.
    with rc_context({"svg.hashsalt": "medley", "svg.fonttype": "path"}):
        figure.savefig(svg, format="svg", metadata={"Date": None})
    write_csv(table, header, rows)
    return Picture(png, svg, table, caption)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value
