"""What the work dir of a pre-training holds."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..config.run_config import require, run_config
from ..console.paths import check_run
from ..engine.history import Record, read_scalars
from ..engine.troubles import Diagnosis, diagnose
from ..errors import UserFileNotFoundError
from ..models import SSPRL, pretraining_class
from ..probing.probe_file import Probe, read_probes
from ..saving.run_files import newest_intact
from ..saving.run_record import RECIPE_FILE
from ..system.record_file import RECORD_FILE, has_ended, read_record

_NEEDS: dict[str, Any] = {
    "model.type": str,
    "model.backbone.type": str,
    "train_cfg.max_epochs": int,
    "train_dataloader.dataset.type": str,
}


@dataclass(frozen=True)
class PretrainingRun:
    """What the files of a run say."""

    work_dir: Path
    cfg: Config
    records: list[Record]  # at least one
    diagnosis: Diagnosis
    recipe: dict[str, Any]  # of ``pretrain``; empty for runs of ``train``
    starts: list[dict[str, Any]]  # of ``run.json``
    probes: list[Probe]
    weights: Path | None  # the backbone's file, or a checkpoint while the training runs
    best_weights: Path | None  # the backbone with the best probe
    is_finished: bool

    @property
    def has_prototypes(self) -> bool:
        """Whether the run trains SS-PRL or SwAV."""
        kind = pretraining_class(self.cfg)
        return kind is not None and issubclass(kind, SSPRL)

    @property
    def images_root(self) -> str:
        """Folder of the training images."""
        return str(self.cfg.train_dataloader.dataset.get("data_root") or "DIR")


def read_run(work_dir: str | Path) -> PretrainingRun:
    """Read what a report needs."""
    folder = check_run(work_dir)
    records = read_scalars(folder)
    diagnosis = diagnose(folder, records)
    cfg = run_config(folder)
    require(cfg, **_NEEDS)

    folder = folder.absolute()
    stem = Path(cfg.filename).stem
    exported = folder / f"{stem}_backbone.pth"
    best = folder / f"{stem}_best_backbone.pth"
    # The file may come from a shorter training that this run resumed.
    is_finished = (
        exported.is_file()
        and records[-1]["epoch"] >= cfg.train_cfg.max_epochs
        and has_ended(folder, unknown=True)
    )
    weights: Path | None = None
    with suppress(UserFileNotFoundError):  # all checkpoints are damaged
        weights = exported if is_finished else newest_intact(folder)

    return PretrainingRun(
        work_dir=folder,
        cfg=cfg,
        records=records,
        diagnosis=diagnosis,
        recipe=read_record(folder / RECIPE_FILE),
        starts=read_record(folder / RECORD_FILE).get("starts", []),
        probes=read_probes(folder / "probe.csv"),
        weights=weights,
        best_weights=best if best.is_file() else None,
        is_finished=is_finished,
    )
