"""The shipped configs, each of a size that trains a step in a fraction of a second."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from PIL import Image

from mmssprl import registry
from mmssprl.config.keys import walk_used
from mmssprl.config.reading import read_config_file
from mmssprl.config.run_checks import missing_package
from mmssprl.datasets.scenes import SCENE_CATEGORIES, generate_scenes

_CONFIGS = Path(__file__).resolve().parents[3] / "configs"
_CHANNELS = 8  # of the first stage of each backbone
_SIDE_PX = 64
_DENSE_PX = (_SIDE_PX, _SIDE_PX)
_PASCAL_CLASSES = 21


def small_configs(data: Path, pattern: str = "**/*.py") -> dict[str, dict[str, Any]]:
    """Return the shipped configs that train here by their names, on images of ``write_data``.

    What their runs would import is imported, for the processes that are forked from this one.
    """
    files = (path.relative_to(_CONFIGS) for path in _CONFIGS.glob(pattern))
    names = sorted(f"configs/{path.as_posix()}" for path in files if "_base_" not in path.parts)
    configs = {name: small_config(name, data) for name in names}
    scopes = {cfg["default_scope"] for cfg in configs.values()}
    known = {scope for scope in scopes if missing_package(scope) is None}
    for scope in known:
        for place in (registry.MODELS, registry.DATASETS, registry.TRANSFORMS, registry.METRICS):
            registry.names_in(place, scope)
    importlib.import_module("numba")
    _ = Config(configs[names[0]]).pretty_text
    return {name: cfg for name, cfg in configs.items() if cfg["default_scope"] in known}


def write_data(folder: Path) -> Path:
    """Write a dozen images with labels in the layouts of COCO and VOC, and return the folder."""
    scenes = generate_scenes(
        folder / "scenes", num_train=10, num_val=4, size_px=_SIDE_PX, progress=False
    )
    voc = scenes / "voc" / "VOC2007"
    (voc / "SegmentationClassAug").mkdir(exist_ok=True)
    for path in (voc / "SegmentationClass").iterdir():
        labels = np.asarray(Image.open(path)) % _PASCAL_CLASSES
        for name in ("SegmentationClass", "SegmentationClassAug"):
            Image.fromarray(labels.astype(np.uint8)).save(voc / name / path.name)
    lists = voc / "ImageSets" / "Segmentation"
    (lists / "train_aug.txt").write_text((lists / "train.txt").read_text())
    return scenes


def small_config(name: str, data: Path) -> dict[str, Any]:
    """Read a shipped config as plain values; layers narrow, batches and images small."""
    cfg = read_config_file(name)
    for split in ("train", "val", "test"):
        if cfg.get(f"{split}_dataloader"):
            _shrink_loader(cfg[f"{split}_dataloader"], data)
        evaluator = cfg.get(f"{split}_evaluator")
        if evaluator and "ann_file" in evaluator:
            evaluator.ann_file = str(data / "coco/annotations/instances_val2014.json")
    _shrink_model(cfg.model)
    kept = {key.split(".")[0] for key, _ in walk_used(cfg)} | {"default_scope"}
    return {key: value for key, value in cfg.to_dict().items() if key in kept}


def _shrink_loader(loader: Config, data: Path) -> None:
    loader.update(batch_size=2, num_workers=0, persistent_workers=False, pin_memory=False)
    dataset = loader.dataset
    if dataset.type == "UnlabeledImages":
        dataset.data_root = str(data / "coco/train2014")
    elif dataset.type.startswith("Coco"):
        dataset.data_root = str(data / "coco")
    else:
        dataset.data_root = str(data / "voc/VOC2007")
    if dataset.type == "CocoDataset":
        dataset.metainfo = {"classes": SCENE_CATEGORIES}
    if "fraction" in dataset:
        dataset.fraction = 0.5
    for transform in dataset.get("pipeline", ()):
        if "scales" in transform:
            transform.scales = [_DENSE_PX]
        if isinstance(transform.get("scale"), tuple):
            transform.scale = _DENSE_PX
        if isinstance(transform.get("crop_size"), tuple):
            transform.crop_size = _DENSE_PX


def _shrink_model(model: Config) -> None:
    divisor = model.backbone.get("base_channels", 64) // _CHANNELS
    model.backbone.update(stem_channels=_CHANNELS, base_channels=_CHANNELS)
    after_backbone = ("neck",) if "neck" in model else ("head", "decode_head", "auxiliary_head")
    for part in (model.get(key) for key in after_backbone):
        if part:
            width = part.in_channels
            is_list = isinstance(width, list)
            part.in_channels = [w // divisor for w in width] if is_list else width // divisor
    for field, value in (("queue_length", 5), ("bn_groups", 1)):
        if field in model:
            model[field] = value
    for part in _dicts(model):
        if part.get("num_classes") in (20, 62, 80):
            part.num_classes = len(SCENE_CATEGORIES)
    if model.type == "EncoderDecoder":
        model.data_preprocessor.size = _DENSE_PX
    if model.type == "MaskRCNN":
        model.train_cfg.rcnn.sampler.num = 8
        model.train_cfg.rpn_proposal.update(nms_pre=50, max_per_img=20)


def _dicts(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        yield from _dicts(child)
