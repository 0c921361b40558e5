import json
import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from mmssprl.cli import build_parser
from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.label_maps import read_label_map
from mmssprl.datasets.scenes import SCENE_CATEGORIES, generate_scenes
from mmssprl.datasets.scenes.generate import VocDevkit, draw_scene, encode_mask, tight_box

SIZES = {"num_train": 10, "num_val": 5, "size_px": 96, "seed": 3}
SPLITS = {"train": 10, "val": 5}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """What the command writes."""
    out = tmp_path_factory.mktemp("scenes") / "a"
    text = f"scenes {out} --num-train 10 --num-val 5 --image-px 96 --seed 3"
    args = build_parser().parse_args(text.split())
    assert args.run(args) == 0
    return out


@pytest.mark.parametrize("split", SPLITS)
def test_coco_files_agree_with_the_rendered_scenes(sample, split):
    coco = COCO(str(sample / f"coco/annotations/instances_{split}2014.json"))
    assert [c["name"] for c in coco.loadCats(coco.getCatIds())] == list(SCENE_CATEGORIES)
    assert len(coco.imgs) == SPLITS[split]
    for i, (image_id, info) in enumerate(sorted(coco.imgs.items())):
        scene = draw_scene(3, split, i, 96)
        with Image.open(sample / f"coco/{split}2014" / info["file_name"]) as image:
            error = np.asarray(image, float) - scene.image
        assert np.abs(error).mean() < 6
        assert (info["width"], info["height"], info["scene"]) == (96, 96, scene.name)
        annotations = coco.loadAnns(coco.getAnnIds(image_id))
        assert [a["category_id"] - 1 for a in annotations] == [o.category for o in scene.objects]
        for k, annotation in enumerate(annotations, start=1):
            mask = coco.annToMask(annotation)
            np.testing.assert_array_equal(mask, scene.instances == k)
            assert annotation["area"] == mask.sum()
            assert annotation["bbox"] == coco_mask.toBbox(coco.annToRLE(annotation)).tolist()
            assert annotation["iscrowd"] == 0


def images_in_both(sample, task, split):
    """Pairs of the same image as read from COCO and from VOC files."""
    coco = find_labels(sample / "coco", task)
    voc = find_labels(sample / "voc", task)
    pairs = list(zip(getattr(coco, split), getattr(voc, split), strict=True))
    assert len(pairs) == SPLITS[split]
    return coco, voc, pairs


@pytest.mark.parametrize("split", SPLITS)
def test_voc_has_the_pixels_of_coco(sample, split):
    for one, other in images_in_both(sample, "detect", split)[2]:
        assert Path(one.path).read_bytes() == Path(other.path).read_bytes()


@pytest.mark.parametrize("split", SPLITS)
def test_voc_has_the_boxes_of_coco(sample, split):
    coco, voc, pairs = images_in_both(sample, "detect", split)
    for one, other in pairs:
        named = [(coco.classes[each.label], each.box) for each in one.objects]
        assert named == [(voc.classes[each.label], each.box) for each in other.objects]


@pytest.mark.parametrize("split", SPLITS)
def test_voc_has_the_masks_of_coco(sample, split):
    for one, _ in images_in_both(sample, "detect", split)[2]:
        name = f"SegmentationObject/{Path(one.path).stem}.png"
        instances = np.asarray(Image.open(sample / "voc/VOC2007" / name))
        masks = [encode_mask(instances == k) for k in range(1, 1 + len(one.objects))]
        assert masks == [each.segmentation for each in one.objects]


@pytest.mark.parametrize("split", SPLITS)
def test_voc_has_the_label_maps_of_coco(sample, split):
    for one, other in images_in_both(sample, "dense", split)[2]:
        labels = read_label_map(other)
        assert labels.any()
        assert (read_label_map(one) == labels).all()


def test_images_do_not_depend_on_their_number(sample, tmp_path):
    fewer = generate_scenes(tmp_path / "c", **{**SIZES, "num_train": 4}, progress=False)
    images = [path for path in fewer.rglob("*.*") if path.suffix in (".jpg", ".xml")]
    assert len(images) == (4 + 5) * 3
    for path in images:
        assert path.read_bytes() == (sample / path.relative_to(fewer)).read_bytes()


def test_finished_data_are_only_reused(sample):
    before = {path: os.stat(path).st_mtime_ns for path in sample.rglob("*")}
    assert generate_scenes(sample, **SIZES, progress=False) == sample
    with pytest.raises(FileExistsError, match=r'holds .*"seed":3.*out_dir'):
        generate_scenes(sample, **{**SIZES, "seed": 4}, progress=False)
    assert {path: os.stat(path).st_mtime_ns for path in sample.rglob("*")} == before


def test_other_files_are_not_overwritten(tmp_path):
    (tmp_path / "voc").mkdir()
    (tmp_path / "file").touch()
    for found, text in ((tmp_path, "other or unfinished files"), (tmp_path / "file", "is a file")):
        with pytest.raises(FileExistsError, match=text):
            generate_scenes(found, **SIZES, progress=False)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "voc"]


def test_unfinished_data_are_not_taken_for_whole(tmp_path, monkeypatch):
    stop = mock.Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(VocDevkit, "write_image_sets", stop)
    for error in (KeyboardInterrupt, FileExistsError):
        with pytest.raises(error):
            generate_scenes(tmp_path / "out", **SIZES, progress=False)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("num_train", 0, "from 1 to 1000000"),
        ("size_px", 641, "from 64 to 640"),
        ("seed", -1, "from 0 to"),
        ("num_val", True, "an int"),
    ],
)
def test_bad_numbers_are_refused_before_anything_is_written(tmp_path, name, value, rule):
    with pytest.raises(ValueError, match=rf"{name} must be .*{rule}.* got {value}"):
        generate_scenes(tmp_path / "out", **{**SIZES, name: value}, progress=False)
    assert not (tmp_path / "out").exists()


GOLDEN = json.loads(Path(__file__).with_name("scenes.json").read_text())
"""``summary`` of the scenes that the committed tables were made of."""


def summary(scene):
    """Name, objects, and the mean colours of 4 x 4 blocks of 16 px."""
    boxes = [tight_box(scene.instances == k) for k in range(1, 1 + len(scene.objects))]
    objects = [
        [item.category, item.area, item.visible, *box]
        for item, box in zip(scene.objects, boxes, strict=True)
    ]
    blocks = scene.image.reshape(4, 16, 4, 16, 3).mean((1, 3)).round(1)
    return scene.name, objects, blocks.ravel().tolist()


@pytest.mark.parametrize("split", GOLDEN)
def test_scenes_stay_as_they_were(split):
    assert len(GOLDEN[split]) == 40
    for index, (name, objects, blocks) in enumerate(GOLDEN[split]):
        found = summary(draw_scene(0, split, index, 64))
        assert found[0] == name
        # Another library may round a pixel of an edge differently.
        np.testing.assert_allclose(found[1], objects, atol=2)
        np.testing.assert_allclose(found[2], blocks, atol=0.3)
