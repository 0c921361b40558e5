import pytest

from mmssprl.experiments.benchmark.paper_numbers import PAPER
from mmssprl.experiments.benchmark.protocols import METRICS

COLUMNS = [(protocol, metric) for protocol, names in METRICS.items() for metric in names]
# Linear on COCO and VOC; 1, 10, 100 %; boxes; masks; mIoU.
SUMS = {
    "COCO": "493.5 657.3 293.3 403.1 461.1 144.5 262.0 144.3 136.0 243.7 135.8 452.2",
    "ImageNet": "525.4 732.1 286.8 453.8 517.6 176.1 310.1 181.3 167.1 290.4 170.7 450.4",
}


@pytest.mark.parametrize("data", SUMS)
def test_the_columns_add_up_to_the_sums_of_the_papers_tables(data):
    rows = [numbers for name, numbers in PAPER.items() if name.endswith(f", {data}")]
    assert len(rows) == 9
    sums = [sum(row.get(column, 0.0) for row in rows) for column in COLUMNS]
    assert sums == pytest.approx([*map(float, SUMS[data].split())])


def test_the_rows_without_a_method():
    assert next(iter(PAPER)) == "paper: Random"
    random = [4.6, 10.7, 42.5, 11.5, 21.3, 11.3, 10.8, 19.7, 10.7, 40.7]
    assert [PAPER["paper: Random"][column] for column in COLUMNS[2:]] == random
    assert [*PAPER["paper: Supervised, COCO"].values()] == [62.5, 81.8]
