"""Labels as other tools and other systems write them: read as they are meant, or named."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.label_changes import both, file, images, replaced, unlink, values
from helpers.datasets.labelled_folders import (
    all_shapes,
    box_of,
    every_entry_twice,
    images_of,
    mask_of,
    refused,
    run_lengths_of,
    shapes_of,
    write_coco,
    write_flat,
    write_image,
    write_listed,
    write_masks,
    write_voc,
    write_xml,
    write_yolo,
)

from mmssprl.datasets.labels import LabelledImage, Object, find_labels
from mmssprl.datasets.labels.label_maps import read_label_map
from mmssprl.datasets.labels.object_masks import object_mask
from mmssprl.datasets.scenes.generate import encode_mask
from mmssprl.datasets.transforms import LoadLabelMap
from mmssprl.finetuning.label_files import write_labels

NAMES = ["..\\..\\media\\{}.png", "images\\1/{}.png", "/data/local-files/?d=media/{}.png"]
NAMES += ["https://example.org/a/{}.png?token=1", "s3://bucket/x/{}.png"]
NAMES += ["{}.PNG", "gone/{}%2Epng", "{}.HEIC"]
ELSEWHERE = "lead to no image, for example"


def entry_per_annotation(content):
    whole = {image["id"]: image for image in content["images"]}
    content["images"] = []
    for number, annotation in enumerate(content["annotations"]):
        content["images"].append({**whole[annotation["image_id"]], "id": number})
        annotation["image_id"] = number


def with_floats(content):
    for annotation in content["annotations"]:
        for key in ("image_id", "category_id"):
            annotation[key] = float(annotation[key])


@pytest.mark.parametrize(
    ("write", "warning"),
    [
        (partial(write_flat, edit=with_floats), ""),
        (partial(write_flat, edit=entry_per_annotation), "of 12 have several entries"),
        (partial(write_flat, edit=every_entry_twice), "of 12 have several entries"),
        *((partial(write_flat, names=names), ELSEWHERE) for names in NAMES),
    ],
)
@pytest.mark.parametrize("task", ["classify", "detect", "segment"])
def test_coco_files_of_other_tools(tmp_path, write, warning, task):
    data = find_labels(write(tmp_path), task)
    expected = find_labels(write_flat(tmp_path / "plain"), task)
    found = [(x.path, x.objects, x.labels) for x in images_of(data)]
    plain = [(x.path.replace("/plain/", "/"), x.objects, x.labels) for x in images_of(expected)]
    assert found == plain
    assert warning in data.warnings[0]


def test_boxes_with_keypoints_are_read(tmp_path):
    def edit(content):
        for category in content["categories"]:
            category["keypoints"] = ["nose"]

    assert find_labels(write_flat(tmp_path, edit), "detect").num_boxes == 16
    shutil.copy(tmp_path / "all.json", tmp_path / "points.json")
    refused(tmp_path, "detect", "has all.json and points.json")

    write_flat(tmp_path)  # of the same objects, one without keypoints
    assert find_labels(tmp_path, "detect").num_boxes == 16

    shutil.copy(tmp_path / "all.json", tmp_path / "second.json")
    refused(tmp_path, "detect", "has all.json and points.json")


@pytest.mark.parametrize("code", [None, encode_mask, run_lengths_of])
def test_a_box_is_drawn_around_a_mask_without_one(tmp_path, code):
    def edit(content):
        for annotation, (index, shape) in zip(content["annotations"], all_shapes(), strict=True):
            del annotation["bbox"]
            if code is not None:
                annotation["segmentation"] = code(mask_of(index, shape))

    for image in images_of(find_labels(write_flat(tmp_path, edit), "detect")):
        index = int(image.path.rpartition("/")[2].removesuffix(".png"))
        boxes = [box_of(index, shape) for shape in shapes_of(index)]
        assert [thing.box for thing in image.objects] == boxes


@pytest.mark.parametrize("encoding", ["gb2312", "gbk", "Shift_JIS", "euc-kr", "iso-8859-1"])
@pytest.mark.parametrize("quote", "\"'")
def test_encodings_of_voc(tmp_path, encoding, quote):
    title = {"euc-kr": "원반", "iso-8859-1": "Gefäß"}.get(encoding, "円")
    title = "圆" if encoding.startswith("gb") else title
    for path in write_voc(tmp_path).glob("Annotations/*.xml"):
        declared = f"<?xml version='1.0' encoding={quote}{encoding}{quote}?>\n"
        text = declared + path.read_text().replace("disc", title)
        path.write_bytes(text.encode(encoding))
    assert sorted(find_labels(tmp_path, "detect").classes) == sorted(["square", title])


def test_names_of_yolo_are_text(tmp_path):
    root = write_yolo(tmp_path)
    for names in ("[yes, no]", "{0: yes, 1: no}", "['yes', \"no\"]", "\n- yes\n- no"):
        (root / "data.yaml").write_text(f"names: {names}\n")
        assert find_labels(root, "detect").classes == ["yes", "no"]


@pytest.mark.parametrize("suffix", [".bmp", ".tif", ".tiff", ".gif", ".PNG"])
def test_lossless_formats_of_masks(tmp_path, suffix):
    root = write_masks(tmp_path)
    expected = [read_label_map(image) for image in images_of(find_labels(root, "segment"))]
    images("masks/*/*.png", lambda mask: mask.copy(), suffix)(root)
    found = [read_label_map(image) for image in images_of(find_labels(root, "segment"))]
    assert all(map(np.array_equal, found, expected))


def test_indices_of_masks_may_be_skipped_if_small(tmp_path):
    values(0, 1, 33)(write_masks(tmp_path, classes=None))
    assert len(find_labels(tmp_path, "segment").classes) == 34


@pytest.mark.parametrize("write", [write_coco, lambda root: write_yolo(root, polygons=True)])
def test_masks_of_objects_become_label_maps(tmp_path, write):
    names = ["square", "disc"]
    root = write(tmp_path / "data")
    data = find_labels(root, "segment")
    assert data == find_labels(root, "dense")
    assert data.classes == ["background", *(names if write is write_coco else names[::-1])]

    write_labels(data, tmp_path / "labels", "segment")
    content = json.loads((tmp_path / "labels/val.json").read_text())
    for item, image in zip(content["data_list"], data.val, strict=True):
        found = LoadLabelMap().transform(dict(item))
        assert found["seg_fields"] == ["gt_seg_map"]
        assert np.array_equal(read_label_map(image), found["gt_seg_map"])
        index = int("".join(filter(str.isdigit, image.path.rpartition("/")[2]))[:2])
        for shape in shapes_of(index):  # both are drawn as boxes
            x, y, width, height = box_of(index, shape)
            shown = found["gt_seg_map"][y : y + height, x : x + width]
            assert (shown == data.classes.index(("disc", "square")[shape])).all()


def test_a_class_may_be_called_background(tmp_path):
    replaced("*/*.json", '"disc"', '"background"')(write_coco(tmp_path))
    assert find_labels(tmp_path, "dense").classes == ["no object", "square", "background"]


def test_small_objects_are_in_front_of_large_ones_in_a_label_map():
    things = (
        Object(1, segmentation=[[1, 1, 3, 1, 3, 3, 1, 3]]),
        Object(2, segmentation={"size": [4, 6], "counts": [0, 12, 12]}),  # its left half
        Object(3, segmentation=run_lengths_of(np.tri(4, 6)), is_crowd=True),
        Object(4, box=(4.2, 0, 1.3, 1.5)),  # nobody has drawn it
    )
    labels = read_label_map(LabelledImage("a.jpg", things, size=(6, 4)))
    assert labels.tolist() == [
        [2, 2, 2, 0, 255, 255],
        [2, 1, 1, 0, 255, 255],
        [2, 1, 1, 0, 0, 0],
        [2, 2, 2, 255, 0, 0],
    ]


def test_run_lengths_must_fill_their_image():
    with pytest.raises(ValueError, match="run lengths must sum up to .* 4 x 6"):
        object_mask({"size": [4, 6], "counts": "zzzz"}, 6, 4)


def test_an_image_of_an_object_without_a_place_is_ignored():
    whole = read_label_map(LabelledImage("a.jpg", (Object(1),), size=(6, 4)))
    assert (whole == 255).all()


def write_numbered(root, images, named, num=6):
    """Write numbered images, and a COCO file with another pattern of names."""
    names = [named.format(i) for i in range(num)]
    paths = []
    for i in range(num):
        paths += [each.format(i) for each in images]
    write_listed(root, paths, names, file="masks.json")
    return names


LIKE_MASKS = [f"{folder}/{{}}.jpg" for folder in ("mask", "labels", "annotations", "gt")]
TWO = ["photos/{}.jpg", "others/{}.jpg"]


@pytest.mark.parametrize(
    ("images", "named", "found"),
    [
        *(([name, f"no{name}"], name, name) for name in LIKE_MASKS),
        (["images/{}.png", "masks/{}.png"], "{}.png", "images/{}.png"),
        (["images/val/{}.jpg"], "val/{}.jpg", "images/val/{}.jpg"),
        (["images/val/{}.jpg"], "../images/val/{}.jpg", "images/val/{}.jpg"),
        (TWO, "/elsewhere/photos/{}.jpg", TWO[0]),  # of another machine
        (TWO, "C:\\me\\photos\\{}.jpg", TWO[0]),
    ],
)
def test_which_image_a_name_means(tmp_path, images, named, found):
    write_numbered(tmp_path, images, named)
    paths = sorted(image.path for image in images_of(find_labels(tmp_path, "detect")))
    assert paths == [str(tmp_path / found.format(i)) for i in range(6)]


@pytest.mark.parametrize(
    ("images", "names", "match"),
    [
        (["val/0.jpg", "a/1.jpg", "b/1.jpg"], ["val/0.jpg", "c/1.jpg"], "1 of 2 .*'c/1.jpg'"),
        (["a/0.jpg", "b/0.jpg"], ["/elsewhere/gone/0.jpg"], "1 of 1 have none"),
        (["a/0.jpg", "b/0.jpg", "a/1.jpg"], ["0.jpg", "1.jpg"], "0.jpg is a/0.jpg and b/0.jpg"),
    ],
)
def test_names_that_mean_no_image_or_two(tmp_path, images, names, match):
    write_listed(tmp_path, images, names)
    refused(tmp_path, "detect", match)


def test_an_absolute_path_may_lead_out_of_the_folder(tmp_path):
    names = write_numbered(tmp_path / "data", [f"{tmp_path}/{{}}.png"], f"{tmp_path}/{{}}.png")
    data = find_labels(tmp_path / "data", "detect")
    assert sorted(image.path for image in images_of(data)) == names
    os.unlink(names[2])
    refused(tmp_path / "data", "detect", "1 of 6 have none, .*2.png")


def test_images_of_voc_in_a_folder_named_like_masks(tmp_path):
    for i in range(6):
        write_image(tmp_path / "annotations" / f"{i}.jpg", i)
        # LabelImg keeps the name that the image once had.
        write_xml(tmp_path / "annotations" / f"{i}.xml", i, "DSC_0001.jpg")
    data = find_labels(tmp_path, "detect")
    assert (data.layout, len(data.train), len(data.val)) == ("PASCAL VOC", 5, 1)


def objects_by_name(images):
    return [(Path(image.path).name, image.objects) for image in images]


def in_upper_case(root):
    for name in ("images", "labels"):
        (root / name).rename(root / name.title())
    (root / "data.yaml").write_text("names: [disc, square]\n")


def of_roboflow(root):
    """Folders of a split that hold images and labels."""
    for split, folder in (("train", "train"), ("val", "valid")):
        for kind in ("images", "labels"):
            shutil.move(root / kind / split, root / folder / kind)
    paths = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
    (root / "data.yaml").write_text(f"{paths}nc: 2\nnames: ['disc', 'square']\n")


@pytest.mark.parametrize(
    "change",
    [
        *(in_upper_case, of_roboflow),
        # LabelImg writes the classes among the labels.
        both(unlink("data.yaml"), file("labels/classes.txt", b"disc\nsquare\n\n")),
        *(
            both(
                replaced("data.yaml", "path: .*", f"test: {elsewhere}test/images"),
                replaced("data.yaml", ": images", f": {elsewhere}images"),
            )
            for elsewhere in ("/content/foo/", "any name/", "../datasets/x/")
        ),
    ],
)
def test_folders_of_yolo_by_other_tools(tmp_path, change):
    root = write_yolo(tmp_path / "any name")
    plain = find_labels(root, "detect")
    change(root)
    data = find_labels(root, "detect")
    assert data.classes == plain.classes == ["disc", "square"]
    assert (data.split, plain.split) == ("the data's own train and val",) * 2
    assert objects_by_name(data.train) == objects_by_name(plain.train)
    assert objects_by_name(data.val) == objects_by_name(plain.val)
