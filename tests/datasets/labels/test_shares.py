"""A share of the images to train on."""

from helpers.datasets.labelled_folders import write_class_folders, write_coco

from mmssprl.datasets.labels import find_labels


def paths(images):
    return {image.path for image in images}


def test_a_share_is_of_each_class_and_lies_within_a_larger_one(tmp_path):
    root = write_class_folders(tmp_path, per_class=15)
    whole = find_labels(root, "classify")
    half, tenth = (find_labels(root, "classify", train_share=share) for share in (0.5, 0.01))
    assert [half.count(half.train), tenth.count(tenth.train)] == [[6, 6], [1, 1]]
    assert paths(tenth.train) < paths(half.train) < paths(whole.train)
    assert half.val == whole.val
    assert "50 % of 24 are trained on, drawn by seed 0" in half.describe()
    assert "trained on, drawn" not in whole.describe()
    # Of several labels it is of all images; another seed draws others.
    coco = write_coco(tmp_path / "coco")
    one, other = (find_labels(coco, "classify", train_share=0.25, seed=seed) for seed in (1, 2))
    assert len(one.train) == len(other.train) == 4
    assert paths(one.train) != paths(other.train)
    assert one.val == other.val
