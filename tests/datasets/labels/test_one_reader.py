"""Every command reads the same images, classes and splits of a folder."""

import pytest
import torch
from helpers.datasets.image_folders import build
from helpers.datasets.label_changes import replaced
from helpers.datasets.labelled_folders import (
    write_class_folders,
    write_coco,
    write_flat,
    write_masks,
    write_voc,
    write_yolo,
)
from mmengine.config import Config

from mmssprl.datasets.labels import find_labels
from mmssprl.experiments.compare.images import list_images, read_images
from mmssprl.experiments.compare.rows import row_of
from mmssprl.experiments.compare.setting import CompareSetting, run_options
from mmssprl.pretraining.config import add_probe
from mmssprl.pretraining.methods import BY_KEY
from mmssprl.probing import find_probe_data
from mmssprl.probing.hook import ProbeHook
from mmssprl.registry import DATASETS


def write_difficult(root):
    """VOC with objects of a class that probe and training do not know."""
    write_voc(root)
    replaced("Annotations/img_000.xml", "</name>", "</name><difficult>1</difficult>")(root)
    return root


BOXED = [write_coco, write_voc, write_yolo, write_difficult]
of_each_layout = pytest.mark.parametrize("write", [*BOXED, write_masks, write_class_folders])


@of_each_layout
def test_finetune_reads_what_probe_does(tmp_path, write):
    root = write(tmp_path / "any name")
    data = find_labels(root, "classify")
    train = [image.path for image in data.train]
    val = [image.path for image in data.val]
    for found in (find_probe_data(root), ProbeHook(str(root)).data, read_images(root, "test")):
        assert [found.train.paths, found.test.paths] == [train, val]
        assert found.classes == data.classes
        for row, image in zip(found.test.labels, data.val, strict=True):
            assert {*row.nonzero().flatten().tolist()} == image.labels


@of_each_layout
@pytest.mark.parametrize("split", ["test", "held-out"])
def test_compare_trains_on_the_labels_of_the_probe(tmp_path, write, split):
    root = write(tmp_path / "any name")
    images = list_images(tmp_path / "lists", root, split)
    found = read_images(root, split).train
    assert images.list_file.read_text().splitlines() == found.paths
    assert (images.num_images, images.num_classes) == tuple(found.labels.shape)

    dataset = DATASETS.build({**images.labelled, "pipeline": []})
    items = [dataset.get_data_info(i) for i in range(len(dataset))]
    assert [item["img_path"] for item in items] == found.paths
    scores = torch.stack([torch.from_numpy(item["gt_score"]) for item in items])
    assert torch.equal(scores, found.labels.float())
    assert (-1 in scores) == (write is write_difficult)


@of_each_layout
def test_labels_are_described_in_a_line(tmp_path, write):
    root = write(tmp_path / "any name")
    data = find_labels(root, "classify")
    num_images = len(data.images)
    text, *warnings = data.describe().splitlines()
    assert warnings == [f"warning: {each}" for each in data.warnings]
    assert text.startswith(f"{data.root}: {data.layout}, {num_images} images (")
    assert ("32 boxes" in text) == (write in BOXED)
    assert add_probe(Config({}), str(root))[0].startswith(f"{num_images} images")


def test_compare_trains_on_the_folder_of_a_given_file(tmp_path):
    root = write_flat(tmp_path / "data")
    setting = CompareSetting("scenes", root / "all.json", 1, 4)
    images = list_images(tmp_path / "lists", setting.data, "test")
    about = {"images": images, "epochs": 1, "seed": 0, "lr_factor": 1}
    options = run_options(setting, row_of(BY_KEY["swav"]), **about)
    assert options["train_dataloader.dataset.data_root"] == str(root)
    files = build(root, ann_file=options["train_dataloader.dataset.ann_file"])
    found = [files.get_data_info(i)["img_path"] for i in range(len(files))]
    assert found == read_images(setting.data, "test").train.paths
