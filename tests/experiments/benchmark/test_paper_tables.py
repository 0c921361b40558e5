"""The digits of docs/results/paper_tables, of the table that takes the shortest time."""

import pytest
from helpers.experiments.tiny_compare import rows
from helpers.package.checkout import ROOT

from mmssprl.cli import main

pytestmark = [pytest.mark.fence, pytest.mark.slow]


def scores(path):
    found = [row for row in rows(path) if row["metric"] == "mAP"]
    return {(row["protocol"], row["weights"]): float(row["value"]) for row in found}


def test_table_4_has_its_digits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark", "--table", "4", "--size", "scenes", "--work-dir", "run"]) == 0
    (path,) = (tmp_path / "run").glob("**/results.csv")
    found = scores(path)
    assert len(found) == 5
    committed = scores(ROOT / "docs/results/paper_tables/table4.csv")
    assert found == pytest.approx(committed, abs=0.005)
