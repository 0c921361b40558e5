"""A trained model that predicts images one after the other, whatever files they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.device import get_device
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader, Dataset

from ..config.build_errors import explain_build_errors
from ..console.quiet import import_quietly
from ..datasets import ImageReadError, read_image
from ..errors import UserValueError
from ..system.shared_memory import check_room
from ..weights import read_checkpoint
from ..weights.backbone import build_model, quiet
from ..weights.checkpoint_file import list_faults
from .config import require_package, task_of

_READS_FILES = ("LoadImageFromFile", "LoadAnnotations")


class Predictor:
    """The model of a checkpoint of ``finetune``, on the best device there is.

    Args:
        cfg: Config of the run.
        checkpoint: Its checkpoint.

    Raises:
        FileNotFoundError: There is no such checkpoint.
        RuntimeError: The package of the model is not installed.
        ValueError: A config of something else, or a checkpoint of another model.
    """

    def __init__(self, cfg: Config, checkpoint: str | Path) -> None:
        self.task = task_of(cfg)
        self.scope = cfg.default_scope
        require_package(self.scope, str(cfg.filename))
        import_quietly(f"{'mmpretrain' if self.scope == 'mmssprl' else self.scope}.datasets")
        self.device = get_device()
        self.num_workers = cfg.test_dataloader.num_workers
        scope = DefaultScope.overwrite_default_scope(self.scope)
        with quiet(), scope, explain_build_errors(cfg):
            self.model = build_model(cfg.model, scope=self.scope)
            self.pipeline = Compose(
                [
                    step
                    for step in cfg.test_dataloader.dataset.pipeline
                    if step.type not in _READS_FILES
                ]
            )
        content = read_checkpoint(checkpoint)
        state = content.get("state_dict", content) if isinstance(content, dict) else {}
        faults = list_faults(state, self.model.state_dict(), ())
        if faults:
            raise UserValueError(
                f"every weight of {checkpoint} must fit the model of {cfg.filename}, but got "
                f"{faults}; give a checkpoint of that run."
            )
        self.model.load_state_dict(state)
        self.model.to(self.device).train(False)

    def predict(self, paths: Sequence[str | Path]) -> Iterator[Any]:
        """Yield each image's data sample in turn, or the ``ImageReadError`` instead of it."""
        # mmseg's preprocessor takes images of one size only; batches of others are padded.
        batch_size = self.task.batch_size if self.device != "cpu" else min(8, self.task.batch_size)
        loader = DataLoader(
            _Prepared(paths, self.pipeline),
            batch_size=batch_size,
            num_workers=min(self.num_workers, len(paths)),
            collate_fn=list,
        )
        check_room(loader)
        with torch.inference_mode(), DefaultScope.overwrite_default_scope(self.scope):
            for batch in loader:
                good = [item for item in batch if not isinstance(item, ImageReadError)]
                packed = {key: [item[key] for item in good] for key in ("inputs", "data_samples")}
                samples = iter(self.model.test_step(packed) if good else ())
                for item in batch:
                    yield item if isinstance(item, ImageReadError) else next(samples)


class _Prepared(Dataset):
    """Images as the pipelines of mmcv's kin pack them, without labels."""

    def __init__(self, paths: Sequence[str | Path], pipeline: Compose) -> None:
        self.paths = [str(path) for path in paths]
        self.pipeline = pipeline

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        try:
            # Their order of channels is BGR.
            image = read_image(path).flip(0).permute(1, 2, 0).contiguous().numpy()  # (H, W, 3)
        except ImageReadError as error:
            return error
        size = image.shape[:2]
        return self.pipeline(
            {"img": image, "img_path": path, "img_id": index, "img_shape": size, "ori_shape": size}
        )
