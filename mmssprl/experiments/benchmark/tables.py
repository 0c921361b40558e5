"""The paper's four tables: their rows, the pre-training of each, and our numbers next to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...config.at_size import name_at_size, read_at_size
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY, SSPRL, Method
from ...weights import RANDOM, SUPERVISED, weights_file
from ..options import BenchmarkSize
from ..statistics import estimate
from .protocols import (
    GROUPS,
    METRICS,
    PROTOCOLS,
    WORDS,
    Protocol,
    Results,
    WeightsRow,
    find_weights,
)
from .report import ABSENT, Column, table_of

SOURCE = "WACV 2023, arXiv:2208.14439"

# Hsieh et al., "Self-Supervised Pyramid Representation Learning for Multi-Label Visual Analysis and
# Beyond". ResNet-50; pre-trained for 200 epochs on COCO train2014 or for 100 epochs on ImageNet.
# Method, pre-training data, then in percent the columns of METRICS: linear on COCO and VOC;
# semi-supervised with 1, 10 and 100 % of the labels; AP, AP50 and AP75 of boxes and of masks after
# 15k iterations; mIoU. "-" is not reported.
_TABLE = """
Random,     -,           -,    -,  4.6, 10.7, 42.5, 11.5, 21.3, 11.3, 10.8, 19.7, 10.7, 40.7
Supervised, COCO,     62.5, 81.8,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MoCo v2,    COCO,     50.2, 67.9, 34.0, 46.9, 54.2, 17.0, 30.6, 17.2, 15.9, 28.4, 15.9, 57.3
SwAV,       COCO,     60.3, 79.2, 43.6, 56.2, 61.4, 18.1, 33.7, 17.6, 17.3, 31.5, 17.1, 56.1
BYOL,       COCO,     52.6, 70.1, 35.1, 48.0, 54.8, 17.4, 31.5, 17.4, 16.2, 29.2, 16.1, 54.1
DenseCL,    COCO,     57.0, 75.2, 42.9, 54.8, 62.2, 20.2, 35.4, 20.8, 18.9, 33.0, 19.3, 63.2
DetCo,      COCO,     52.7, 70.6, 32.0, 48.3, 54.7, 15.6, 29.7, 14.8, 14.8, 27.3, 14.4, 43.2
MaskCo,     COCO,     51.9, 70.2, 31.6, 48.0, 57.4, 18.5, 32.9, 18.7, 17.3, 30.7, 17.4, 59.8
InsLoc,     COCO,     45.0, 61.8, 29.0, 43.9, 53.5, 17.5, 31.5, 17.6, 16.5, 29.3, 16.6, 56.1
SS-PRL,     COCO,     61.3, 80.5, 45.1, 57.0, 62.9, 20.2, 36.7, 20.2, 19.1, 34.3, 19.0, 62.4
Supervised, ImageNet, 68.5, 86.7,    -,    -,    -,    -,    -,    -,    -,    -,    -,    -
MoCo v2,    ImageNet, 54.3, 82.5, 26.4, 55.8, 63.7, 21.1, 36.7, 21.8, 19.9, 34.4, 20.4, 65.7
SwAV,       ImageNet, 60.1, 83.2, 39.3, 58.6, 66.9, 23.1, 41.2, 23.4, 22.1, 38.6, 22.5, 60.7
BYOL,       ImageNet, 58.4, 80.2, 38.7, 53.1, 62.5, 21.4, 37.5, 22.1, 20.1, 35.1, 20.6, 61.8
DenseCL,    ImageNet, 60.5, 82.9, 43.4, 59.4, 65.8, 21.9, 38.0, 22.9, 20.7, 35.8, 21.3, 69.0
DetCo,      ImageNet, 60.0, 81.3, 37.9, 56.2, 62.7, 20.9, 38.1, 20.9, 19.9, 35.3, 19.9,    -
MaskCo,     ImageNet, 50.3, 75.1, 24.0, 53.2, 62.1, 20.6, 35.6, 21.5, 19.5, 33.4, 20.0, 65.7
InsLoc,     ImageNet, 49.5, 74.8, 36.1, 56.6, 66.5, 23.5, 40.5, 24.7, 22.2, 38.1, 22.9, 67.1
SS-PRL,     ImageNet, 63.8, 85.4, 41.0, 60.9, 67.4, 23.6, 42.5, 24.0, 22.7, 39.7, 23.1, 60.4
"""


def _read_table() -> dict[str, dict[tuple[str, str], float]]:
    columns: list[Column] = []
    for protocol, metrics in METRICS.items():
        columns += [(protocol, metric) for metric in metrics]

    paper = {}
    for line in _TABLE.strip().splitlines():
        method, data, *cells = (cell.strip() for cell in line.split(","))
        numbers = zip(columns, cells, strict=True)
        label = f"paper: {method}, {data}".removesuffix(", -")
        paper[label] = {column: float(cell) for column, cell in numbers if cell != "-"}
    return paper


PAPER = _read_table()
"""Row, such as ``paper: SS-PRL, COCO`` -> percent by protocol and metric, if reported."""
TABLES: dict[int, tuple[str, tuple[str, ...]]] = {
    1: ("linear classification", GROUPS["linear"]),
    2: ("semi-supervised classification", GROUPS["semisup"]),
    3: ("detection, instance and semantic segmentation", ("detection", "segmentation")),
    4: ("ablations", ("linear-voc",)),
}
"""Title and protocols of each table."""

_KEYS = {
    "Random": "random",
    "Supervised": "supervised",
    "MoCo v2": "mocov2",
    "SwAV": "swav-small",
    "BYOL": "byol",
    "DenseCL": "densecl",
    "DetCo": "detco",
    "MaskCo": "maskco",
    "InsLoc": "insloc",
    "SS-PRL": SSPRL.key,
}
"""Keys of the methods by their names in the paper."""
_ABLATIONS = {
    "scale 0 alone": ("swav", 79.2),
    "shared prototypes": ("shared-prototypes", 79.4),
    "pyramid terms only": ("pyramid-only", 79.5),
    "cross terms only": ("cross-only", 79.8),
    "all terms": (SSPRL.key, 80.5),
}
_ABLATED = ("linear-voc", "mAP")
"""Column of the numbers in ``_ABLATIONS``, the rows of table 4."""


@dataclass(frozen=True)
class TableRow:
    """A row: its method and the paper's numbers."""

    name: str
    data: str  # of the paper's pre-training
    method: Method
    paper: Mapping[Column, float]
    config: Path | None  # of the pre-training; None if there is none
    size: str | None  # at which the config is read

    @property
    def stem(self) -> str:
        """Stem of the config, which the file of its weights begins with; "" without a config."""
        if self.config is None:
            return ""
        return Path(name_at_size(self.config, self.size)).stem if self.size else self.config.stem

    @property
    def file(self) -> str:
        """The config as arguments of `train`."""
        path = f"configs/{str(self.config).rpartition('/configs/')[2]}"
        return f"{path} --size {self.size}" if self.size else path


def rows_of_table(number: int, size: BenchmarkSize) -> list[TableRow]:
    """Return the rows of the paper; at small sizes each method has one, with its first data."""
    if number == 4:
        rows = _ABLATIONS.items()
        return [_row(name, "COCO", key, {_ABLATED: x}, size) for name, (key, x) in rows]
    found: dict[str, TableRow] = {}
    for label, numbers in PAPER.items():
        paper = {column: own for column, own in numbers.items() if column[0] in TABLES[number][1]}
        method, _, data = label.removeprefix("paper: ").partition(", ")
        name = f"{method}, {data}" if data and size == "paper" else method
        if paper and name not in found:
            found[name] = _row(name, data, _KEYS[method], paper, size)
    return [*found.values()]


def _row(
    name: str, data: str, key: str, paper: Mapping[Column, float], size: BenchmarkSize
) -> TableRow:
    method = BY_KEY[key]
    config = method.config_file(data) if method.competes else None
    return TableRow(name, data, method, paper, config, None if size == "paper" else size)


@dataclass(frozen=True)
class PaperTable:
    """One table at one size: its protocols, its rows, and the weights that the rows have."""

    number: int
    size: BenchmarkSize
    protocols: list[Protocol]
    rows: list[TableRow]
    weights: Mapping[str, WeightsRow]
    left_out: Sequence[str] = ()  # files of no row

    @classmethod
    def build(cls, number: int, size: BenchmarkSize, values: Sequence[str]) -> "PaperTable":
        """Find the weights of each row: a file, a word, or a training to be done here."""
        protocols = [p for p in PROTOCOLS[size] if p.name in TABLES[number][1]]
        if not protocols:  # scenes have no VOC
            protocols = [p for p in PROTOCOLS[size] if p.name == "linear-coco"]
        rows = rows_of_table(number, size)
        files, left_out = _files_of_configs(values, size)
        starts = {}
        for row in rows:
            key = row.method.key
            is_here = size != "paper" or (row.data == "ImageNet" and SUPERVISED in values)
            if row.stem in files:
                starts[row.name] = files[row.stem]
            elif key == RANDOM or (key == SUPERVISED and is_here):
                starts[row.name] = key
        weights = dict(zip(starts, find_weights([*starts.values()]), strict=True))
        for row in rows:
            if size == "scenes" and row.config and row.name not in weights:
                cfg = read_at_size(row.config, row.size)
                backbone = cfg.model.backbone.to_dict()
                weights[row.name] = WeightsRow(f"{row.stem}_backbone", "", backbone, cfg)
        return cls(number, size, protocols, rows, weights, left_out)

    def format(self, results: Results) -> str:
        """Return the table of "ours / paper" as Markdown, and the weights of each row."""
        cells: dict[Column, dict[str, str]] = {}
        for protocol in self.protocols:
            for metric in METRICS[protocol.name]:
                column = (protocol.name, metric)
                found = {row.name: self._cell(row, column, results) for row in self.rows}
                cells[column] = {name: text for name, text in found.items() if text}

        parts = [f"Table {self.number}, {TABLES[self.number][0]}: ours / paper, in %.", _NOTE]
        if self.size != "paper":
            parts.append(_SMALL.format(size=self.size))
            if self.number == 4:
                parts.append("This size has no VOC: ours are linear-coco, the paper's VOC07.")
        parts.append(table_of(cells, [row.name for row in self.rows]))
        parts.append("\n".join(f"- {row.name}: {self._needs(row)}" for row in self.rows))
        return "\n\n".join(parts) + "\n"

    def _cell(self, row: TableRow, column: Column, results: Results) -> str:
        """Return our number and the paper's; "" if there is neither."""
        name = self.weights[row.name].name if row.name in self.weights else None
        own = [x for run, x in results if (run.weights, run.protocol.name) == (name, column[0])]
        values = [x.values[column[1]] for x in own if column[1] in x.values]
        missing = "failed" if any(x.reason for x in own) else ABSENT
        ours = estimate(values).text() if values else missing
        theirs = row.paper.get(_ABLATED if self.number == 4 else column)
        paper = ABSENT if theirs is None else f"{theirs:.1f}"
        return "" if ours == paper == ABSENT else f"{ours} / {paper}"

    def _needs(self, row: TableRow) -> str:
        weights = self.weights.get(row.name)
        if weights and weights.pretrained_by:
            return f"pre-trained here by `{row.file}`"
        if weights:
            return f"weights: {weights.start}"
        if row.config is None:
            remedy = f"; give '{SUPERVISED}'" if row.data == "ImageNet" else ""
            return f"missing: weights{remedy}"
        return f"missing: weights, from `{row.file}`"


_NOTE = f"The paper's numbers: {SOURCE}; docs/paper_and_code.md lists how ours differ."
_SMALL = (
    "Size {size}: a narrow ResNet-18 and few images. Compare only the order of the rows with the "
    "paper's numbers, which are of pre-training on COCO if there are two."
)


def _files_of_configs(
    values: Sequence[str], size: BenchmarkSize
) -> tuple[dict[str, str], list[str]]:
    """Return the files of rows of the tables by the names of their configs, and other files."""
    known: set[str] = set()
    for number in TABLES:
        known |= {row.stem for row in rows_of_table(number, size) if row.stem}
    found: dict[str, str] = {}
    left_out: list[str] = []
    for value in (value for value in values if value not in WORDS):
        name = weights_file(value).stem.removesuffix("_backbone").removesuffix("_best")
        if name not in known:
            left_out.append(value)
            continue
        if name in found:
            raise UserValueError(
                f"a row must have one file of weights, but {found[name]} and {value} are both of "
                f"{name}; leave one out."
            )
        found[name] = value
    if left_out and not found:
        raise UserValueError(
            f"{left_out[0]} belongs to no row of the tables of size {size}, whose files are named "
            f"<config>_backbone.pth by their configs ({', '.join(sorted(known)[-2:])}, ...); "
            "benchmark it without --table."
        )
    return found, left_out
