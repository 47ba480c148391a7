"""The table of methods in results/mt10/README.md says what the runs beside it say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medley.reporting.comparison import compared
from medley.reporting.runs import find_runs

MT10 = Path(__file__).parents[2] / "results" / "mt10"
NAMES = {
    "FAMO": "famo",
    "CAGrad": "cagrad",
    "multi-head SAC, width 1024": "multi_head_1024",
    "multi-head SAC, width 400": "multi_head_400",
    "PCGrad": "pcgrad",
}


def test_the_table_is_that_of_the_runs() -> None:
    table = (MT10 / "README.md").read_text().split("| method | success at 200,000")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    runs = find_runs([MT10 / "methods"])
    assert all(run.status == "finished" and run.protocol == "metaworld+" for run in runs)
    found = {row.label: row for row in compared([run.path for run in runs], {})}
    assert {NAMES[row[0]] for row in rows} == set(found)
    for name, success, iqm, _, minutes, rate, *_ in rows:
        one = found[NAMES[name]]
        assert one.step == 200_000
        assert float(success) == pytest.approx(one.mean[0], abs=5e-4)
        assert float(iqm) == pytest.approx(one.iqm[0], abs=5e-4)
        assert float(minutes) == pytest.approx(one.minutes, abs=0.051)
        assert float(re.sub(",", "", rate)) == pytest.approx(one.rate, abs=0.6)
