from pathlib import Path

import pytest
from helpers.features.probe_folders import write_coco, write_voc

from mmssprl.experiments.compare.images import list_images, read_images
from mmssprl.registry import DATASETS


@pytest.mark.parametrize("write", [write_coco, write_voc])
def test_tuning_sees_training_images_alone_and_holds_a_fifth_of_them_out(write, tmp_path):
    root = write(tmp_path)
    final, tuning = read_images(root, "test"), read_images(root, "held-out")
    assert (len(final.train.paths), len(final.test.paths)) == (24, 12)
    # A fifth of 24, rounded.
    assert (len(tuning.train.paths), len(tuning.test.paths)) == (19, 5)
    both = tuning.train.paths + tuning.test.paths
    assert sorted(both) == sorted(final.train.paths)
    assert not set(both) & set(final.test.paths)
    for split in (tuning.train, tuning.test):
        for path, labels in zip(split.paths, split.labels, strict=True):
            assert labels.equal(final.train.labels[final.train.paths.index(path)])
    assert read_images(root, "held-out").test.paths == tuning.test.paths


@pytest.mark.parametrize("write", [write_coco, write_voc])
@pytest.mark.parametrize("split", ["test", "held-out"])
def test_all_methods_train_on_the_list_and_the_supervised_one_too(write, split, tmp_path):
    images = list_images(tmp_path / "lists", write(tmp_path), split)
    paths = images.list_file.read_text().splitlines()
    assert len(paths) == images.num_images == {"test": 24, "held-out": 19}[split]
    dataset = DATASETS.build(images.labelled)
    found = [dataset.get_data_info(i)["img_path"] for i in range(len(dataset))]
    assert [str(Path(path).resolve()) for path in found] == paths
    assert len(dataset.metainfo["classes"]) == images.num_classes
