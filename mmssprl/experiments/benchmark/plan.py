"""Plan a benchmark: the configs of its runs, and the trainings that these start from."""

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from pprint import pformat

from mmengine.config import Config

from ...config.run_checks import check_config
from ...config.shipped import shipped
from ...engine.adapted_backbone import adapt_backbone
from ...engine.initial_weights import apply_weights
from ...errors import UserFileNotFoundError, UserValueError
from ...system.outputs import write_whole
from ...weights import RANDOM, SUPERVISED, Source
from ..options import BenchmarkOptions
from ..run import Run
from .protocols import DATA_PREFIX, PROTOCOLS, Protocol, TransferRun, WeightsRow


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


@dataclass
class BenchmarkPlanner:
    """Plans the runs of a benchmark, and collects their configs."""

    asked: BenchmarkOptions
    work_dir: Path
    data: Path  # folder of all data
    may_lack_data: bool
    configs: dict[Path, Config] = field(default_factory=dict)

    def plan(self, protocols: Sequence[Protocol], rows: Sequence[WeightsRow]) -> BenchmarkPlan:
        """Check whatever can be checked before the runs; writes nothing."""
        trainings: dict[str, Run] = {}
        starts: list[WeightsRow] = []
        for row in rows:
            training = self._training_of(row)
            if training is None:
                starts.append(row)
                continue
            trainings[row.name], weights = training
            starts.append(replace(row, start=str(weights)))

        runs: list[TransferRun] = []
        for seed, protocol, row in product(range(self.asked.seeds), protocols, starts):
            runs.append(self._run_of(protocol, row, seed, exists=row.name not in trainings))
        return BenchmarkPlan(tuple(runs), trainings)

    def write_configs(self) -> None:
        """Write the configs of the planned runs."""
        for path, cfg in self.configs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Config.dump formats with yapf, which takes a minute for a hundred runs.
            items = cfg.to_dict().items()
            text = "".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items)
            write_whole(path, text)  # tasks of a cluster may be reading an earlier one

    def _training_of(self, row: WeightsRow) -> tuple[Run, Path] | None:
        """Return the training here of a row, and its weights; None if the row has weights."""
        if row.pretrained_by:
            cfg = copy.deepcopy(row.pretrained_by)
            name = stem = Path(cfg.filename).stem
            weights = f"{name}_backbone.pth"  # files of a pre-training have its config's name
        elif Source.of(row.start).is_supervised and self.asked.size != "paper":
            # The protocol that trains on all labels, from random weights. At full size the
            # weights are torchvision's.
            protocol = next(p for p in PROTOCOLS[self.asked.size] if p.name == "semisup-100")
            cfg = config_of(protocol, replace(row, start=RANDOM), self.asked.gpus)
            name = SUPERVISED
            stem = f"{SUPERVISED}_pretraining"
            weights = f"epoch_{cfg.train_cfg.max_epochs}.pth"
        else:
            return None

        folder = self.work_dir / "runs" / f"{name}_pretraining"
        train, _ = _commands(self._add(cfg, stem), folder, 1)
        run = Run(name=f"{name} pre-training", folder=folder, commands=(train,), measures="")
        return run, folder / weights

    def _run_of(
        self, protocol: Protocol, row: WeightsRow, seed: int, *, exists: bool
    ) -> TransferRun:
        """Return a run; the first seed's config is checked, and the row's weights if they exist."""
        cfg = config_of(protocol, row, self.asked.gpus)
        cfg.randomness.seed = seed
        config = self._add(cfg, f"{row.name}_{protocol.name}_seed{seed}", checks=seed == 0)
        if seed == 0 and exists:
            apply_weights(cfg.copy(), None, adapt=False)  # refuses what the run would
        folder = self.work_dir / "runs" / row.name / protocol.name / f"seed{seed}"
        num_processes = self.asked.gpus if protocol.images_per_step else 1
        return TransferRun(
            name=f"{protocol.name}, {row.name}, seed {seed}",
            folder=folder,
            commands=_commands(config, folder, num_processes),
            protocol=protocol,
            weights=row.name,
            seed=seed,
            config=config,
        )

    def _add(self, cfg: Config, name: str, *, checks: bool = True) -> Path:
        """Add a config that reads the user's data."""
        _relocate(cfg, DATA_PREFIX[self.asked.size], str(self.data.resolve()))
        path = self.work_dir / "configs" / f"{name}.py"
        self.configs[path] = cfg
        if checks:
            try:
                check_config(cfg, ("train", "test"))
            except FileNotFoundError as error:
                if not self.may_lack_data:
                    fault = str(error).removeprefix(f"{cfg.filename}: ")
                    raise UserFileNotFoundError(
                        f"{fault} Or give the folder of all data by --data."
                    ) from None
        return path


def config_of(protocol: Protocol, row: WeightsRow, num_gpus: int) -> Config:
    """Return the protocol's config with a row's backbone and start."""
    cfg = Config.fromfile(shipped(protocol.config))
    cfg.weights = row.start
    if row.backbone is not None:
        adapt_backbone(cfg, row.backbone)
    if protocol.images_per_step:
        if protocol.images_per_step % num_gpus:
            raise UserValueError(
                f"--gpus must divide the {protocol.images_per_step} images per step of "
                f"{protocol.name}, but got {num_gpus}."
            )
        cfg.train_dataloader.batch_size = protocol.images_per_step // num_gpus
    # The final test is a separate command, which a stopped run can repeat.
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    return cfg


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
