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
    """VOC with objects whose class is unknown to probe and training."""
    write_voc(root)
    replaced("Annotations/img_000.xml", "</name>", "</name><difficult>1</difficult>")(root)
    return root


BOXED = [write_coco, write_voc, write_yolo, write_difficult]


@pytest.mark.parametrize("write", [*BOXED, write_masks, write_class_folders])
def test_finetune_probe_and_compare_read_the_same(tmp_path, write):
    root = write(tmp_path / "any name")
    data = find_labels(root, "classify")
    wanted = [[image.path for image in images] for images in (data.train, data.val)]
    num_images = len(data.train) + len(data.val)
    for found in (find_probe_data(root), ProbeHook(str(root)).data, read_images(root, "test")):
        assert [found.train.paths, found.test.paths] == wanted
        assert found.classes == data.classes
        shown = [{*row.nonzero().flatten().tolist()} for row in found.test.labels]
        assert shown == [set(image.labels) for image in data.val]
    for split in ("test", "held-out"):
        # What is trained with labels has those of the probe.
        images, found = list_images(tmp_path / "lists", root, split), read_images(root, split).train
        dataset = DATASETS.build({**images.labelled, "pipeline": []})
        items = [dataset.get_data_info(i) for i in range(len(dataset))]
        assert [item["img_path"] for item in items] == found.paths
        scores = torch.stack([torch.from_numpy(item["gt_score"]) for item in items])
        assert torch.equal(scores, found.labels.float())
        assert (-1 in scores) == (write is write_difficult)
        assert images.list_file.read_text().splitlines() == found.paths
        assert (images.num_images, images.num_classes) == tuple(found.labels.shape)
    assert add_probe(Config({}), str(root))[0].startswith(f"{num_images} images")
    text, *warnings = data.describe().splitlines()
    assert warnings == [f"warning: {each}" for each in data.warnings]
    assert text.startswith(f"{data.root}: {data.layout}, {num_images} images (")
    assert ("32 boxes" in text) == (write in BOXED)


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
