"""Small images in every format and EXIF orientation, and the ways by which commands read them.

A way takes the folder of the images and yields pairs of a file name and its pixels, RGB (H, W, 3).
"""

import json
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
import torch
from helpers.datasets.image_folders import build, make_tar, turned
from helpers.package.checkout import ROOT
from mmengine.config import Config
from mmengine.dataset import BaseDataset, Compose
from mmengine.registry import DefaultScope
from PIL import Image

from mmssprl.console.quiet import import_quietly
from mmssprl.datasets.channel_images import read_as
from mmssprl.datasets.image_reading import FORMATS
from mmssprl.features.extract import Images
from mmssprl.finetuning import predict, scores

WIDTH = 48
HEIGHT = 32
TURNED = ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")
"""Formats with EXIF orientations."""
CONFIGS = ROOT / "configs"
TASKS = ("classify", "detect", "segment")
LABELLED = [f"_base_/finetune_{task}{light}.py" for task, light in product(TASKS, ("", "_light"))]
LABELLED += ["baselines/supervised_resnet18_scenes.py"]
LABELLED += sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.glob("benchmarks/*/*.py"))
"""All configs that read labelled images."""


def write_images(folder):
    """FORMAT_ORIENTATION.EXT, each shown as the same 48 x 32 px of coloured blocks."""
    colours = np.random.default_rng(0).integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    image = Image.fromarray(colours.repeat(8, 0).repeat(8, 1))
    folder.mkdir()
    for name in FORMATS:
        suffix = {"JPEG": "jpg"}.get(name, name.lower())
        orientations = range(1, 9) if name in TURNED else range(1, 2)
        for orientation in orientations:
            stored, exif = turned(image, orientation)
            options = {"exif": exif} if name in TURNED else {}
            stored.save(folder / f"{name}_{orientation}.{suffix}", name, **options)
    return np.asarray(image)


def of_data_set(folder):
    dataset = build(folder)
    for index, name in enumerate(dataset.names):
        yield name, _rgb(dataset[index]["img"])


def of_tar(folder):
    tar = make_tar(folder.parent / "tars" / "images.tar", folder, inside=True)
    for name, pixels in of_data_set(tar):
        yield name.rpartition("/")[2], pixels


def of_features(folder):
    images = Images(folder)
    for index, name in enumerate(images.names):
        yield name, _rgb(images.load(index))


def of_one_image(folder):
    for path in sorted(folder.iterdir()):
        yield path.name, _rgb(Images(path).load(0))


def of_probe(folder):
    for path in sorted(folder.iterdir()):
        yield path.name, _rgb(read_as(path))


def of_config(config, folder):
    """The inputs of every pipeline, without the steps that scale, cut or recolour them."""
    cfg = Config.fromfile(CONFIGS / config)
    for pipeline in _pipelines(cfg):
        for index, item in enumerate(dataset := _labelled(folder, cfg, pipeline)):
            sample = item["data_samples"]
            assert sample.img_shape == sample.ori_shape == item["inputs"].shape[1:]
            if "gt_instances" in sample and "masks" in sample.gt_instances:
                # Boxes and polygons of the image as shown, which must fill it.
                assert sample.gt_instances.masks.masks.shape == (1, HEIGHT, WIDTH)
                assert sample.gt_instances.masks.masks.all()
            name = dataset.get_data_info(index)["img_path"].rpartition("/")[2]
            yield name, _rgb(item["inputs"].flip(0))


def of_prediction(task, folder):
    """The inputs of the model of `predict`."""
    inputs, _ = _predicted(task, folder)
    return zip(sorted(path.name for path in folder.iterdir()), inputs, strict=True)


def of_prediction_pictures(task, folder):
    _, pictures = _predicted(task, folder)
    return zip(sorted(path.name for path in folder.iterdir()), pictures, strict=True)


def of_sheet(task, folder):
    """The pictures at the end of a fine-tuning."""
    cfg = Config.fromfile(CONFIGS / f"_base_/finetune_{task}.py")
    dataset = _labelled(folder, cfg, _steps(cfg.test_dataloader.dataset.pipeline))
    with patch.object(scores, "SHEET_IMAGES", len(dataset)):
        for tile in scores.draw_predictions(_Model(), dataset, _Task()):
            yield tile.name, tile.picture


WAYS = {
    "pre-training": of_data_set,
    "pre-training, tar": of_tar,
    "embed": of_features,
    "embed, one image": of_one_image,
    "probe": of_probe,
}
WAYS |= {config: partial(of_config, config) for config in LABELLED}
for _task in TASKS:
    WAYS[f"predict, {_task}"] = partial(of_prediction, _task)
    WAYS[f"pictures of predict, {_task}"] = partial(of_prediction_pictures, _task)
    WAYS[f"pictures of finetune, {_task}"] = partial(of_sheet, _task)


def _rgb(image):
    return image.permute(1, 2, 0).numpy()


def _steps(pipeline):
    """The steps of a pipeline that read or pack."""
    return [step for step in pipeline if step.type.removeprefix("mmssprl.")[:4] in ("Load", "Pack")]


def _pipelines(cfg):
    """The different pipelines of a config."""
    found = []
    for split in ("train", "val", "test"):
        loader = cfg.get(f"{split}_dataloader")
        if loader is not None and (steps := _steps(loader.dataset.pipeline)) not in found:
            found.append(steps)
    return found


def _labelled(folder, cfg, pipeline):
    """A data set of all images, with labels that fill them."""
    corners = [0, 0, WIDTH, 0, WIDTH, HEIGHT, 0, HEIGHT]
    box = {"bbox": [0, 0, WIDTH, HEIGHT], "bbox_label": 0, "ignore_flag": 0, "mask": [corners]}
    mask = folder.parent / "mask.png"
    Image.new("L", (WIDTH, HEIGHT)).save(mask)
    label = {"gt_label": 0, "instances": [box], "seg_map_path": str(mask), "seg_fields": []}
    label["reduce_zero_label"] = False
    items = [{"img_path": str(path), **label} for path in sorted(folder.iterdir())]
    listed = folder.parent / "listed.json"
    listed.write_text(json.dumps({"metainfo": {}, "data_list": items}))
    dataset = BaseDataset(str(listed))
    with _scope_of(cfg):
        dataset.pipeline = Compose(pipeline)
    return dataset


def _scope_of(cfg):
    scope = cfg.default_scope
    import_quietly(f"{'mmpretrain' if scope == 'mmssprl' else scope}.datasets")
    return DefaultScope.overwrite_default_scope(scope)


def _predicted(task, folder):
    """The inputs and the pictures of `predict` with a model that finds nothing."""
    cfg = Config.fromfile(CONFIGS / f"_base_/finetune_{task}.py")
    cfg.test_dataloader.dataset.pipeline = _steps(cfg.test_dataloader.dataset.pipeline)
    run = folder.parent / f"run of {task}"
    run.mkdir(exist_ok=True)
    cfg.dump(run / f"{task}.py")
    torch.save({}, run / "weights.pth")
    model = _Model()
    drawn = _Task()
    with (
        _scope_of(cfg),
        patch.object(predict, "load_model", lambda *args: model),
        patch.object(predict, "task_of", lambda cfg: drawn),
    ):
        out = folder.parent / f"predictions {len([*folder.parent.iterdir()])}"
        predict.predict(run / "weights.pth", folder, out, log=lambda text: None)
    return model.inputs, drawn.pictures


class _Model:
    def __init__(self):
        self.inputs = []

    def test_step(self, batch):
        self.inputs += [_rgb(image.flip(0)) for image in batch["inputs"]]
        return batch["data_samples"]


class _Task:
    name = "any"
    classes = ("one",)

    def __init__(self):
        self.pictures = []

    def draw(self, picture, sample):
        self.pictures.append(picture)
        return picture

    def read(self, sample):
        return None

    def write(self, out, names, predictions):
        return [name for name, _ in predictions]
