"""The paper's four tables: their rows, the pre-training of each, and our numbers next to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...config.at_size import name_at_size, read_at_size
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY, SSPRL, Method
from ...weights import RANDOM, SUPERVISED, weights_file
from ..statistics import estimate
from .paper_numbers import PAPER, SOURCE
from .protocols import GROUPS, METRICS, PROTOCOLS, Protocol, Results, Size, Weights
from .report import ABSENT, Column, table_of
from .rows import WORDS, find_weights

_COLUMNS = {
    1: GROUPS["linear"],
    2: GROUPS["semisup"],
    3: ("detection", "segmentation"),
    4: ("linear-voc",),
}
TABLES = {
    1: "linear classification",
    2: "semi-supervised classification",
    3: "detection, instance and semantic segmentation",
    4: "ablations",
}

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
    """A row: its method and the paper's numbers.

    ``data`` is the paper's pre-training data. ``config`` is the config of the pre-training, read at
    ``size`` if that is given; None if the method does not pre-train.
    """

    name: str
    data: str
    method: Method
    paper: Mapping[Column, float]
    config: Path | None = None
    size: str | None = None

    @property
    def stem(self) -> str:
        """Stem of the config, which the file of its weights begins with."""
        if self.config is None:
            return ""
        return Path(name_at_size(self.config, self.size)).stem if self.size else self.config.stem

    @property
    def file(self) -> str:
        """The config as arguments of `train`."""
        if self.config is None:
            return ""
        folder = next(each for each in self.config.parents if each.name == "configs")
        path = str(self.config.relative_to(folder.parent))
        return f"{path} --size {self.size}" if self.size else path


def rows_of_table(number: int, size: Size) -> list[TableRow]:
    """Return the rows of the paper; at small sizes each method has one, with its first data."""
    if number == 4:
        ablations = _ABLATIONS.items()
        return [_row(name, "COCO", key, {_ABLATED: x}, size) for name, (key, x) in ablations]
    found: dict[str, TableRow] = {}
    for label, numbers in PAPER.items():
        paper = {column: own for column, own in numbers.items() if column[0] in _COLUMNS[number]}
        method, _, data = label.removeprefix("paper: ").partition(", ")
        name = f"{method}, {data}" if data and size == "paper" else method
        if paper and name not in found:
            found[name] = _row(name, data, _KEYS[method], paper, size)
    return [*found.values()]


def _row(name: str, data: str, key: str, paper: Mapping[Column, float], size: Size) -> TableRow:
    method = BY_KEY[key]
    if not method.competes:
        return TableRow(name, data, method, paper)
    if size == "paper":
        return TableRow(name, data, method, paper, method.config_file(data))
    return TableRow(name, "", method, paper, method.config_file(), size)


@dataclass(frozen=True)
class PaperTable:
    """One table at one size: its protocols, its rows, and the weights that the rows have."""

    number: int
    size: Size
    protocols: Sequence[Protocol]
    rows: Sequence[TableRow]
    weights: Mapping[str, Weights]

    @classmethod
    def build(cls, number: int, size: Size, values: Sequence[str]) -> "PaperTable":
        """Find the weights of each row: a file, a word, or a training to be done here."""
        protocols = [p for p in PROTOCOLS[size] if p.name in _COLUMNS[number]]
        if not protocols:  # scenes have no VOC
            protocols = [p for p in PROTOCOLS[size] if p.name == "linear-coco"]
        rows = rows_of_table(number, size)
        files = _files_of_configs(values, size)
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
                weights[row.name] = Weights(f"{row.stem}_backbone", "", backbone, cfg)
        return cls(number, size, protocols, rows, weights)

    def format(self, results: Results) -> str:
        """Return the table as Markdown, and the weights of each row.

        Cells are "ours / paper", ours as the mean over the seeds with its 95 % interval.
        """
        columns = [(p.name, metric) for p in self.protocols for metric in METRICS[p.name]]
        cells = {c: {row.name: self._cell(row, c, results) for row in self.rows} for c in columns}
        cells = {c: {k: text for k, text in own.items() if text} for c, own in cells.items()}
        parts = [f"Table {self.number}, {TABLES[self.number]}: ours / paper, in %.", _NOTE]
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
        ours = "failed" if any(x.reason for x in own) else ABSENT
        if values:
            ours = estimate(values).text()
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
            return "missing: weights" + f"; give '{SUPERVISED}'" * (row.data == "ImageNet")
        return f"missing: weights, from `{row.file}`"


_NOTE = f"The paper's numbers: {SOURCE}; docs/paper_and_code.md lists how ours differ."
_SMALL = (
    "Size {size}: a narrow ResNet-18 and few images. Compare only the order of the rows with the "
    "paper's numbers, which are of pre-training on COCO if there are two."
)


def _files_of_configs(values: Sequence[str], size: Size) -> dict[str, str]:
    """Return the files by the names of their configs, which must belong to rows of the tables."""
    known = {row.stem for n in TABLES for row in rows_of_table(n, size)} - {""}
    found: dict[str, str] = {}
    for value in values:
        if value in WORDS:
            continue
        name = weights_file(value).stem.removesuffix("_backbone").removesuffix("_best")
        if name not in known:
            raise UserValueError(
                f"{value} belongs to no row of the tables of size {size}; rename it to "
                "<config>_backbone.pth, or benchmark it without --table."
            )
        if name in found:
            raise UserValueError(
                f"a row must have one file of weights, but {found[name]} and {value} are both of "
                f"{name}; leave one out."
            )
        found[name] = value
    return found
