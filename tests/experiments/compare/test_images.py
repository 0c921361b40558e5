import pytest
from helpers.features.probe_folders import write_coco, write_voc

from mmssprl.experiments.compare.images import read_images


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
