"""The same picture in several labelled images is warned of, and no draw separates its copies."""

import hashlib
import re
import shutil
from functools import partial
from itertools import chain, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.labelled_folders import (
    CLASSES,
    refused,
    write_class_folders,
    write_coco,
    write_image,
    write_listed,
    write_masks,
)
from helpers.features.probe_folders import write_config

from mmssprl.datasets.labels import copies, find_labels
from mmssprl.datasets.labels.groups import group_by, hold_out, keep, units_of
from mmssprl.experiments.compare.images import read_images
from mmssprl.features import load_backbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing import dense, find_probe_data, linear
from mmssprl.probing.data import read_masks
from mmssprl.probing.linear import score_features

SEEDS = range(4)


def stems(images):
    return [Path(image.path).stem for image in images]


def write_thrice(root, per_class=10):
    """A folder per class with three copies of each image, named 0-a, 0-b and 0-c."""
    for shape, name in enumerate(CLASSES):
        for index in range(per_class):
            write_image(root / name / f"{index}-a.png", index, (shape,))
            for letter in "bc":
                shutil.copy(root / name / f"{index}-a.png", root / name / f"{index}-{letter}.png")
    return root


def write_versions(root, num=12):
    """COCO of three versions of each image that Roboflow named so; their bytes differ."""
    names = [f"p{i // 3}_jpg.rf.{i:032x}.png" for i in range(3 * num)]
    write_listed(root, names, names)
    return root


def pictures(images):
    """The pictures of ``write_thrice`` and ``write_versions``."""
    return pictures_at([each.path for each in images])


def pictures_at(paths):
    return {(Path(path).parent, re.split("[-_]", Path(path).name)[0]) for path in paths}


def digest_of_draw(seed, index):
    """Order of a draw of images."""
    return hashlib.sha256(f"{seed}:{index}".encode()).digest()


def test_groups_are_linked_by_equal_keys_at_one_place():
    keys = [("x", ""), ("", "n"), ("y", "n"), ("", ""), ("y", ""), ("", ""), ("n", "x"), ("x", "n")]
    # 7 has the bytes of 0 and the name of 1 and 2, whose bytes 4 has.
    assert group_by(keys) == [0, 0, 0, 3, 0, 5, 6, 0]
    assert units_of([0, 1, 0, 3, 1]) == [[0, 2], [1, 4], [3]]


@pytest.mark.parametrize(
    ("units", "count", "held_out"),
    [
        ([[4], [0], [2]], 2, [4, 0]),
        ([[0, 1, 2, 3], [4], [5]], 2, [4, 5]),  # the first does not fit
        ([[0, 1, 2], [3, 4]], 1, [3, 4]),  # the smallest if none fits
        ([[0, 1, 2]], 2, []),
    ],
)
def test_units_held_out_by_hand(units, count, held_out):
    assert hold_out(units, count) == held_out


def test_units_kept_by_hand_are_nested():
    units = [[5], [1, 2, 3], [0, 4]]
    found = [keep(units, count) for count in range(1, 7)]
    assert found == [[5], *3 * [[5, 1, 2, 3]], *2 * [[5, 1, 2, 3, 0, 4]]]


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_without_groups_are_those_of_images_alone(tmp_path, seed):
    root = write_class_folders(tmp_path, per_class=11)
    everything = []
    for name in CLASSES:
        everything += sorted(map(str, (root / name).rglob("*.jpeg")))
    rng = np.random.default_rng(seed)
    held_out = set()
    for first_of_class in (0, 11):
        held_out.update((first_of_class + rng.permutation(11)[:3]).tolist())
    train = [path for index, path in enumerate(everything) if index not in held_out]

    data = find_labels(root, "classify", val_share=0.25, seed=seed, train_share=0.4)
    assert [image.path for image in data.val] == [everything[index] for index in sorted(held_out)]
    kept = []
    for rows in (range(8), range(8, 16)):
        kept += sorted(rows, key=partial(digest_of_draw, seed))[:3]
    assert [image.path for image in data.train] == [train[index] for index in sorted(kept)]
    assert data.split.startswith("25% of each class of 22 images held out, seed ")
    assert "copies" not in data.split


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_stay_together_in_each_class(tmp_path, seed):
    data = find_labels(write_thrice(tmp_path), "classify", seed=seed)
    assert not pictures(data.train) & pictures(data.val)
    assert data.count(data.val) == [6, 6]
    assert data.split.endswith(
        f"held out, seed {seed}; 40 copies and versions stay with their image"
    )
    assert not [each for each in data.warnings if "copies" in each]


@pytest.mark.parametrize("seed", SEEDS)
def test_versions_stay_together(tmp_path, seed):
    data = find_labels(write_versions(tmp_path), "detect", seed=seed)
    assert not pictures(data.train) & pictures(data.val)
    assert len(data.val) == 6  # a fifth of 36 is 7
    assert not [each for each in data.warnings if ".rf." in each]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Images of train at growing shares of them."""
    root = write_thrice(tmp_path_factory.mktemp("thrice"))
    shares = (0.1, 0.3, 0.5, 1.0)
    return [find_labels(root, "classify", train_share=share).train for share in shares]


def test_a_share_keeps_copies_together(parts):
    assert [len(part) for part in parts] == [6, 18, 24, 48]
    assert [3 * len(pictures(part)) for part in parts] == [6, 18, 24, 48]


def test_a_share_is_a_part_of_larger_ones(parts):
    for part, larger in pairwise(parts):
        assert {image.path for image in part} < {image.path for image in larger}


def test_copies_in_two_classes_stay_together(tmp_path):
    root = write_class_folders(tmp_path)
    for index in (1, 4, 7):
        name = f"no {index}.jpeg"
        shutil.copy(root / "disc" / name, root / "square" / f"{index}.jpeg")

    for seed in SEEDS:
        data = find_labels(root, "classify", seed=seed)
        for index in (1, 4, 7):
            assert (f"no {index}" in stems(data.val)) >= (f"{index}" in stems(data.val))
    assert [each for each in data.warnings if "labels" in each] == [
        "3 of 20 pictures occur several times with different labels, for example disc/no 1.jpeg "
        "(disc) and square/1.jpeg (square): correct the labels, or remove the copies."
    ]


def test_images_that_all_show_one_picture_cannot_be_split(tmp_path):
    root = write_class_folders(tmp_path, per_class=3)
    content = (root / "disc/no 1.jpeg").read_bytes()
    for path in root.rglob("*.jpeg"):
        path.write_bytes(content)
    refused(root, "classify", "none of 6 shares its class with another than its copies")


def test_the_held_out_images_of_a_comparison_are_no_copies(tmp_path):
    found = read_images(write_thrice(tmp_path), "held-out")
    assert len(found.test.paths) == 9  # a fifth of 48 is 10
    assert not pictures_at(found.train.paths) & pictures_at(found.test.paths)


def test_a_comparison_holds_out_the_images_with_the_least_digests(tmp_path):
    root = write_class_folders(tmp_path)
    paths = read_images(root, "test").train.paths
    order = sorted(range(16), key=partial(digest_of_draw, 0))
    found = read_images(root, "held-out").test.paths
    assert found == [paths[index] for index in sorted(order[:3])]


def test_the_folds_of_a_probe_do_not_separate_copies(tmp_path, monkeypatch):
    root = write_masks(tmp_path)
    for name in ("images/train/{}.jpg", "masks/train/{}.png"):
        shutil.copy(root / name.format(0), root / name.format(5))
    (root / "images/train/1.jpg").write_text("no image")

    groups = []

    def noting_groups(fit):
        def noted(*args, **options):
            groups.append(options["groups"].unique(return_inverse=True)[1])
            return fit(*args, **options)

        return noted

    for module, name in ((linear, "fit_grouped_probe"), (dense, "fit_softmax_probe")):
        monkeypatch.setattr(module, name, noting_groups(getattr(module, name)))
    data = find_probe_data(root)
    model = load_backbone("random", write_config(tmp_path))
    options = FeatureOptions(device="cpu", progress=False, log=lambda line: None)
    score_features(data, read_masks(root, data), model, options)

    names = [Path(path).stem for path in data.train.paths]
    del names[names.index("1")]
    wanted = [*range(len(names))]
    wanted[names.index("5")] = wanted[names.index("0")]
    for found in (groups[0], groups[1].unique_consecutive()):
        assert found.tolist() == np.unique(wanted, return_inverse=True)[1].tolist()


def test_copies_of_train_in_val_are_counted(tmp_path):
    root = write_masks(tmp_path)
    for index in (17, 19):
        shutil.copy(root / "images/train/3.jpg", root / f"images/val/{index}.jpg")
        shutil.copy(root / "masks/train/3.png", root / f"masks/val/{index}.png")

    for task, shown in (("classify", "disc"), ("segment", "background, disc")):
        first, *others = find_labels(root, task).warnings
        assert first == (
            "2 of 8 images of val are copies of images of train, for example images/val/17.jpg "
            f"({shown}) and images/train/3.jpg ({shown}): keep each picture in one split, or "
            "scores are too high."
        )
        assert "images of val" not in " ".join(others)
    assert find_probe_data(root).labelled.warnings[0].startswith("2 of 8 images of val are copies")


def test_versions_of_train_in_val_are_counted(tmp_path):
    for split, first_index, letters in (("train", 0, "abc"), ("valid", 20, "de")):
        names = [f"p{i}_jpg.rf.{letter}{i}.png" for i, letter in product(range(6), letters)]
        images = [f"{split}/{name}" for name in names]
        write_listed(tmp_path, images, names, first_index, f"{split}/_annotations.coco.json")
    [versions] = find_labels(tmp_path, "classify").warnings
    assert versions == (
        "12 of 12 images of val have the name of an image of train before .rf., as versions of one "
        "image do, for example valid/p0_jpg.rf.d0.png (square, disc) and train/p0_jpg.rf.a0.png "
        "(disc): keep each picture in one split, or scores are too high."
    )


def test_only_files_that_share_their_size_are_read(tmp_path, monkeypatch):
    root = write_coco(tmp_path)
    sizes = {}
    for path in root.rglob("*.PNG"):
        path.write_bytes(path.read_bytes() + bytes(len(sizes)))
        sizes.setdefault(path.stat().st_size, []).append(str(path))
    shared = [paths for paths in sizes.values() if len(paths) > 1]

    read = []
    monkeypatch.setattr(
        copies, "read_file", lambda path: read.append(path) or np.fromfile(path, np.uint8)
    )
    find_labels(root, "classify", measured=False)
    assert sorted(read) == sorted(chain.from_iterable(shared))
    assert len(read) < len([*root.rglob("*.PNG")])
