"""What every run was asked for: its options, stored once with what each run changes, and which of them differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from medley.reporting.differences import method_differences, protocol_differences, shown
from medley.reporting.runs import RunData


@dataclass(frozen=True)
class Asked:
    """`base`: what most runs have. `own`: by run, what is different there, None where the option is absent."""

    base: dict[str, str]
    own: list[dict[str, str | None]]
    differing: dict[str, str]  # option -> "protocol" or "method"


def asked(runs: Sequence[RunData]) -> Asked:
    texts = [{key: shown(value) for key, value in run.options.items()} for run in runs]
    values: dict[str, Counter[str]] = {}
    for each in texts:
        for key, text in each.items():
            values.setdefault(key, Counter())[text] += 1
    base = {key: counts.most_common(1)[0][0] for key, counts in values.items()}
    own: list[dict[str, str | None]] = []
    for each in texts:
        changed: dict[str, str | None] = {key: text for key, text in each.items() if base[key] != text}
        # A run whose configuration cannot be read has no options at all, rather than lacking each of them.
        own.append(changed | {key: None for key in base if key not in each} if each else {})
    known = [run.options for run in runs if run.options]
    differing = {d.option: "method" for d in method_differences(known)}
    differing |= {d.option: "protocol" for d in protocol_differences(known)}
    return Asked(base, own, differing)
