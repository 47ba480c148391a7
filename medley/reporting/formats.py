"""Tables as Markdown, as LaTeX (booktabs) and as CSV. Shares are written in per cent, but in CSV as they are."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from medley.reporting import style
from medley.reporting.aggregates import Interval

Cell = str | int | Interval

_WIDE = 110  # columns of a terminal that have room for all of a summary; else these are left out
_LESS = ("tasks", "median")

_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "…": r"\ldots{}",
}


@dataclass(frozen=True)
class Table:
    """The first column names rows; all others are numbers. `only_csv` are columns that readers need not see."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    only_csv: Sequence[str] = ()

    def shown(self) -> tuple[list[str], list[list[Cell]]]:
        """Header and rows for readers."""
        places = [place for place, name in enumerate(self.header) if name not in self.only_csv]
        return [self.header[place] for place in places], [[row[place] for place in places] for row in self.rows]


def write_table(stem: Path, table: Table) -> None:
    """`<stem>.md`, `<stem>.tex` and `<stem>.csv`."""
    Path(f"{stem}.md").write_text(markdown(table), encoding="utf-8")
    Path(f"{stem}.tex").write_text(latex(table, label=stem.name), encoding="utf-8")
    style.write_csv(Path(f"{stem}.csv"), *_plain(table))


def markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    header, rows = table.shown()
    marks = ["---", *["---:"] * (len(header) - 1)]
    body = [line([_markdown(cell) for cell in row]) for row in rows]
    text = [_markdown(table.caption), "", line([_markdown(name) for name in header]), line(marks), *body]
    if table.notes:
        text += ["", *(f"- {_markdown(note)}" for note in table.notes)]
    return "\n".join(text) + "\n"


def latex(table: Table, label: str) -> str:
    def line(cells: Sequence[Cell]) -> str:
        text = " & ".join(_latex(cell) for cell in cells) + r" \\"
        return f"{{}}{text}" if text.startswith(("[", "*")) else text  # or the line before would take it for its own

    header, rows = table.shown()
    body = [
        "% needs \\usepackage{booktabs}",
        *(f"% {_one_line(note)}" for note in table.notes),
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(table.caption)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        line(header),
        r"\midrule",
        *map(line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(body) + "\n"


def words(cell: Cell) -> str:
    """`62.4 [58.1, 66.7]`, `100,000`, or the text itself."""
    if isinstance(cell, Interval):
        ends = "" if math.isnan(cell.low) else f" [{_percent(cell.low)}, {_percent(cell.high)}]"
        return _percent(cell.value) + ends
    return f"{cell:,}" if isinstance(cell, int) else cell


def wide_console() -> Console:
    """As wide as the terminal; where there is none, nothing needs to be cut."""
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160)


def show(path: Path) -> None:
    """What `markdown` wrote, fitted to the terminal; as it stands where the output goes elsewhere."""
    text = path.read_text(encoding="utf-8")
    if not sys.stdout.isatty():
        print(text)
        return
    console = Console()
    title, *lines = text.splitlines()
    rows = [_read_row(line) for line in lines if line.startswith("|")]
    if not rows:
        console.print(Text(_read(title)))
        return
    # Not rich's own Markdown: it cuts long names off, and those of a sweep are then the same.
    narrow = console.width < _WIDE
    more = Text(f"{path} also has the columns {' and '.join(_LESS)}.") if narrow else None
    table = RichTable(title=Text(_read(title)), caption=more, box=box.SIMPLE_HEAD, title_justify="left")
    places = [place for place, name in enumerate(rows[0]) if not (narrow and name in _LESS)]
    for place in places:
        table.add_column(Text(rows[0][place]), justify="right" if place else "left", overflow="fold")
    for row in rows[2:]:
        table.add_row(Text(row[0]), *(Text(row[place].replace(" [", "\n[")) for place in places[1:]))
    console.print(table)
    for line in lines:
        if line.startswith("- "):
            console.print(Text(_read(line)))


def _read_row(line: str) -> list[str]:
    return [_read(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _read(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _plain(table: Table) -> tuple[list[str], list[list[str | int | float]]]:
    """Header and rows with three columns for an interval."""
    intervals = [any(isinstance(row[i], Interval) for row in table.rows) for i in range(len(table.header))]
    header: list[str] = []
    for name, wide in zip(table.header, intervals, strict=True):
        key = name.lower().replace(" ", "_") if wide else name
        header += [key, f"{key}_low", f"{key}_high"] if wide else [key]
    rows: list[list[str | int | float]] = []
    for row in table.rows:
        rows.append([])
        for cell, wide in zip(row, intervals, strict=True):
            rows[-1] += list(cell) if isinstance(cell, Interval) else [cell, "", ""] if wide else [cell]
    return header, rows


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"


def _markdown(cell: Cell) -> str:
    text = _one_line(words(cell))
    # What would become a table's edge, a style or HTML; an underscore between letters stays one.
    return re.sub(r"[\\|`*<]|(?<![^\W_])_|_(?![^\W_])", lambda found: f"\\{found[0]}", text)


def _latex(cell: Cell) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _one_line(words(cell)))


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
