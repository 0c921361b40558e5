"""The `benchmark` command: find rows and data, plan, run and write the tables."""

import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from pprint import pformat

from mmengine.config import Config

from ...config.run_checks import check_config
from ...config.shipped import shipped
from ...datasets.labels import find_labels
from ...datasets.labels.files import data_folder
from ...datasets.scenes.generate import generate_sample
from ...engine.adapted_backbone import adapt_backbone
from ...engine.initial_weights import apply_weights
from ...errors import UserFileNotFoundError, UserValueError
from ...runs.work_dirs import claim, digest
from ...system.outputs import write_whole
from ...weights import RANDOM, SUPERVISED, Source
from ..execute import Log, announce, execute_runs, jobs_of_machine, run_all
from ..options import BenchmarkOptions
from ..report import Files
from ..run import Run, RunOutcome
from .protocols import (
    DATA_PREFIX,
    PROTOCOLS,
    WORDS,
    Protocol,
    Results,
    TransferRun,
    WeightsRow,
    choose_protocols,
    find_weights,
)
from .report import format_report, rows_of
from .tables import PaperTable


@dataclass(frozen=True)
class BenchmarkPlan:
    """The runs, and the ``trainings`` here that they start from, by the name of the row."""

    runs: tuple[TransferRun, ...]
    trainings: Mapping[str, Run] = field(default_factory=dict)

    @property
    def waiting(self) -> list[Run]:
        """The trainings that incomplete runs still wait for."""
        needed = {run.weights for run in self.runs if not run.is_complete}
        return [x for name, x in self.trainings.items() if name in needed and not x.is_complete]

    def shell_lines(self) -> list[str]:
        """Return a line for a shell for each run, trainings first."""
        return [run.shell_line() for run in (*self.waiting, *self.runs)]


class Benchmark:
    """A benchmark in its work dir; the options are checked before the work dir is claimed."""

    def __init__(self, asked: BenchmarkOptions, log: Log) -> None:
        self.asked, self._log = asked, log
        self.work_dir = Path(asked.work_dir or f"work_dirs/benchmark_{asked.size}")
        self.table = None
        if asked.table:
            self.table = PaperTable.build(asked.table, asked.size, asked.weights)
            self.rows = [*self.table.weights.values()]
            self.protocols = self.table.protocols
        else:
            self.rows = find_weights(asked.weights)
            self.protocols = choose_protocols(asked.size, asked.protocols)
        usual = None if asked.size == "scenes" else Path("data")
        self._data = data_of(asked.data) if asked.data else usual
        self._jobs = jobs_of_machine(asked.jobs, asked.gpus)

    def plan(self) -> BenchmarkPlan:
        """Claim the work dir, generate scenes if needed, plan the runs and write their configs."""
        asked, found = self.asked, self._data
        settings = {
            "size": asked.size,
            "data": str(found.resolve()) if found else None,
            "weights": {row.name: _identity(row) for row in self.rows},
            "configs": {
                each.name: digest(Config.fromfile(shipped(each.config)).to_dict())
                for each in self.protocols
            },
        }
        if not asked.dry_run:
            claim(self.work_dir, "benchmark.json", "a benchmark", settings)
        scenes = self.work_dir / "scenes"
        folder = found or (scenes if asked.dry_run else generate_sample(self.work_dir))
        may_lack = asked.dry_run and (found is None or self.table is not None)
        plan = self.make_plan(folder, may_lack=may_lack)
        prefix = DATA_PREFIX[asked.size]
        self._log(f"data: {folder}" + f" (in place of {prefix})" * (str(folder) != prefix))
        for training in plan.waiting:
            self._log(f"first, for some of the runs: {training.name}, in {training.folder}")
        if asked.dry_run or asked.commands:
            announce("runs", plan.runs, self._log, each=asked.dry_run)
        return plan

    def make_plan(self, data: Path, *, may_lack: bool) -> BenchmarkPlan:
        """Check whatever can be checked before the runs, and write their configs unless dry."""
        asked = self.asked
        configs: dict[Path, Config] = {}

        def add(cfg: Config, name: str, *, checks: bool = True) -> Path:
            """Add a config that reads the user's data."""
            _relocate(cfg, DATA_PREFIX[asked.size], str(data.resolve()))
            path = self.work_dir / "configs" / f"{name}.py"
            configs[path] = cfg
            if checks:
                try:
                    check_config(cfg, ("train", "test"))
                except FileNotFoundError as error:
                    if not may_lack:
                        fault = str(error).removeprefix(f"{cfg.filename}: ")
                        raise UserFileNotFoundError(
                            f"{fault} Or give the folder of all data by --data."
                        ) from None
            return path

        trainings: dict[str, Run] = {}
        rows = list(self.rows)
        for index, row in enumerate(rows):
            # Files of a pre-training have the name of its config.
            if row.pretrained_by:
                cfg = copy.deepcopy(row.pretrained_by)
                name = stem = Path(cfg.filename).stem
                last = f"{name}_backbone.pth"
            elif Source.of(row.start).is_supervised and asked.size != "paper":
                # The protocol that trains on all labels, from random weights. At full size the
                # weights are torchvision's.
                protocol = next(p for p in PROTOCOLS[asked.size] if p.name == "semisup-100")
                cfg = self._config_of(protocol, replace(row, start=RANDOM))
                name = SUPERVISED
                stem = f"{SUPERVISED}_pretraining"
                last = f"epoch_{cfg.train_cfg.max_epochs}.pth"
            else:
                continue
            folder = self.work_dir / "runs" / f"{name}_pretraining"
            commands = _commands(add(cfg, stem), folder, 1)[:1]  # no test
            trainings[row.name] = Run(
                name=f"{name} pre-training", folder=folder, commands=commands, measures=""
            )
            rows[index] = replace(row, start=str(folder / last))
        runs: list[TransferRun] = []
        for seed, protocol, row in product(range(asked.seeds), self.protocols, rows):
            cfg = self._config_of(protocol, row)
            cfg.randomness.seed = seed
            config = add(cfg, f"{row.name}_{protocol.name}_seed{seed}", checks=seed == 0)
            if seed == 0 and row.name not in trainings:
                apply_weights(cfg.copy(), None, adapt=False)  # refuses what the run would
            folder = self.work_dir / "runs" / row.name / protocol.name / f"seed{seed}"
            run = TransferRun(
                name=f"{protocol.name}, {row.name}, seed {seed}",
                folder=folder,
                commands=_commands(config, folder, asked.gpus if protocol.images_per_step else 1),
                protocol=protocol,
                weights=row.name,
                seed=seed,
                config=config,
            )
            runs.append(run)
        for path, cfg in () if asked.dry_run else configs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Config.dump formats with yapf, which takes a minute for a hundred runs.
            items = cfg.to_dict().items()
            text = "".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items)
            write_whole(path, text)  # tasks of a cluster may be reading that of an earlier call
        return BenchmarkPlan(tuple(runs), trainings)

    def _config_of(self, protocol: Protocol, row: WeightsRow) -> Config:
        """Return the protocol's config with a row's backbone and start."""
        cfg = Config.fromfile(shipped(protocol.config))
        cfg.weights = row.start
        if row.backbone is not None:
            adapt_backbone(cfg, row.backbone)
        if protocol.images_per_step:
            if protocol.images_per_step % self.asked.gpus:
                raise UserValueError(
                    f"--gpus must divide the {protocol.images_per_step} images per step of "
                    f"{protocol.name}, but got {self.asked.gpus}."
                )
            cfg.train_dataloader.batch_size = protocol.images_per_step // self.asked.gpus
        # The final test is a separate command, which a stopped run can repeat.
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
        return cfg

    def run(self, plan: BenchmarkPlan) -> int:
        """Do the missing runs of a plan, and write the tables; return how many runs failed."""
        execute_runs(plan.waiting, self._jobs)  # if one fails, the runs that start from it do
        return run_all("runs", plan.runs, self._jobs, print, self._tables, self.work_dir)

    def _tables(self, outcomes: Mapping[TransferRun, RunOutcome]) -> Files:
        results = [*outcomes.items()]
        name = f"table{self.asked.table or ''}.md"
        return {name: self.text(results), "results.csv": rows_of(results)}

    def text(self, results: Results) -> str:
        """Return the results as a table in Markdown."""
        return self.table.format(results) if self.table else format_report(results, self.asked.size)


_TOPS = {"coco", "coco128", "voc", "voc128", "VOCdevkit"}
"""Top folders of the protocols' data."""


def data_of(data: str) -> Path:
    """Return the folder of all data, given that, or a protocol's, its data.yaml or its .json."""
    root = data_folder(data)
    if Path(data).is_file():
        root = find_labels(data, "classify", measured=False).root
    if any((root / name).is_dir() for name in _TOPS):
        return root
    return next((each.parent for each in (root, *root.parents) if each.name in _TOPS), root)


def _identity(row: WeightsRow) -> str:
    """Digest the start of a row: a config, or a backbone and the content of a file, or a word."""
    if row.pretrained_by:
        return digest(row.pretrained_by.to_dict())
    return digest([row.backbone, row.start * (row.start in WORDS)], row.start)


def _commands(config: Path, folder: Path, num_processes: int) -> tuple[tuple[str, ...], ...]:
    """Return the commands that train and test; each resumes where it was stopped."""
    python = [sys.executable]
    where = ["--work-dir", str(folder)]
    if num_processes > 1:
        launcher = [str(shipped("tools/launch.py")), "--standalone"]
        python += [*launcher, f"--nproc_per_node={num_processes}"]
        where += ["--launcher", "pytorch"]
    train = [*python, str(shipped("tools/train.py")), str(config), *where, "--resume"]
    out = ["--out", str(folder / "metrics.json"), "--overwrite"]
    test = [*python, str(shipped("tools/test.py")), str(config), str(folder), *where, *out]
    return tuple(train), tuple(test)


def _relocate(cfg: Config, prefix: str, folder: str) -> None:
    """Replace ``prefix`` in the paths of data sets and evaluators."""
    for split in ("train", "test"):
        parts = [
            (cfg.get(f"{split}_dataloader") or {}).get("dataset"),
            cfg.get(f"{split}_evaluator"),
        ]
        for part, key in product(parts, ("data_root", "ann_file")):
            path = (part or {}).get(key) or ""
            if path.startswith(f"{prefix}/"):
                part[key] = folder + path.removeprefix(prefix)
