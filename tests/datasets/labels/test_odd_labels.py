"""Labels as other tools and other systems write them: read as they are meant, or named."""

import json
import shutil

import numpy as np
import pytest
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    box_of,
    images_of,
    mask_of,
    refused,
    shapes_of,
    write_coco,
    write_flat,
    write_image,
    write_masks,
    write_voc,
    write_yolo,
)
from PIL import Image
from pycocotools import mask as run_lengths

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.label_maps import read_label_map
from mmssprl.datasets.transforms import LoadLabelMap
from mmssprl.finetuning.label_files import read_labels, write_labels

NAMES = ["..\\..\\media\\{}.png", "images\\1/{}.png", "/data/local-files/?d=media/{}.png"]
NAMES += ["https://example.org/a/{}.png?token=1", "{}.PNG", "gone/{}%2Epng", "s3://bucket/x/{}.png"]


class TestNamesOfImages:
    @pytest.mark.parametrize("names", NAMES)
    def test_of_elsewhere_count_by_their_last_part(self, tmp_path, names):
        data = find_labels(write_flat(tmp_path, names=names), "detect")
        assert {x.path for x in images_of(data)} == {str(tmp_path / f"{i}.png") for i in range(12)}
        expected = find_labels(write_flat(tmp_path / "whole"), "detect")
        assert [x.objects for x in images_of(data)] == [x.objects for x in images_of(expected)]
        if "media\\" not in names or "?" in names:
            assert "lead to no image, for example" in data.warnings[0]

    def test_with_two_images_or_none_are_named(self, tmp_path):
        root = write_flat(tmp_path, names="gone/{}.png")
        write_image(root / "more/3.png", 3)
        refused(root, "detect", "1 of 12 have none, for example .'gone/3.png'")
        shutil.rmtree(root / "more")
        (root / "5.png").unlink()
        refused(root, "detect", "1 of 12 have none, for example .'gone/5.png'")

    def test_two_names_are_never_one_image(self, tmp_path):
        def edit(content):
            content["images"][1]["file_name"] = "other/0.png"

        refused(write_flat(tmp_path, edit, names="gone/{}.png"), "detect", "other/0.png|12 of 12")


class TestCocoFiles:
    def test_boxes_beside_keypoints_are_read(self, tmp_path):
        def edit(content):
            for category in content["categories"]:
                category["keypoints"] = ["nose"]

        data = find_labels(write_flat(tmp_path, edit), "detect")
        assert data.num_boxes == 16
        shutil.copy(tmp_path / "all.json", tmp_path / "points.json")
        refused(tmp_path, "detect", "has all.json and points.json")
        write_flat(tmp_path)  # of the same objects, one without keypoints
        assert find_labels(tmp_path, "detect").num_boxes == 16

    @pytest.mark.parametrize("compressed", [None, False, True])
    def test_a_box_is_drawn_around_a_mask_without_one(self, tmp_path, compressed):
        def edit(content):
            shapes = ((i, s) for i in range(12) for s in shapes_of(i))
            for annotation, (index, shape) in zip(content["annotations"], shapes, strict=True):
                del annotation["bbox"]
                if compressed is not None:
                    annotation["segmentation"] = lengths(mask_of(index, shape), compressed)

        for image in images_of(find_labels(write_flat(tmp_path, edit), "detect")):
            index = int(image.path.rpartition("/")[2].removesuffix(".png"))
            boxes = [box_of(index, shape) for shape in shapes_of(index)]
            assert [thing.box for thing in image.objects] == boxes

    def test_ids_may_be_whole_floats(self, tmp_path):
        def edit(content):
            for annotation in content["annotations"]:
                annotation["image_id"] = float(annotation["image_id"])
                annotation["category_id"] = float(annotation["category_id"])

        assert find_labels(write_flat(tmp_path, edit), "detect").num_boxes == 16

    @pytest.mark.parametrize("value", [1.5, True, None, [1], 1e300, "", {}])
    def test_other_ids_are_refused(self, tmp_path, value):
        def edit(content):
            content["annotations"][0]["image_id"] = value

        refused(write_flat(tmp_path, edit), "detect", "must have image_id|must name an image")

    @pytest.mark.parametrize("name", ["", "  ", None, True, ["a"]])
    def test_empty_names_of_classes_are_refused(self, tmp_path, name):
        def edit(content):
            content["categories"][0]["name"] = name

        refused(
            write_flat(tmp_path, edit), "detect", "categories must have id and name, but entry 0"
        )


def lengths(mask, compressed):
    code = run_lengths.encode(np.asfortranarray(mask, np.uint8))
    if compressed:
        return {"size": code["size"], "counts": code["counts"].decode()}
    flat = mask.ravel(order="F").astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flat)))).tolist()
    return {"size": [*mask.shape], "counts": np.diff([0, *edges, flat.size]).tolist()}


class TestVoc:
    @pytest.mark.parametrize("encoding", ["gb2312", "gbk", "Shift_JIS", "euc-kr", "iso-8859-1"])
    @pytest.mark.parametrize("quote", "\"'")
    def test_encodings(self, tmp_path, encoding, quote):
        title = {"euc-kr": "원반", "iso-8859-1": "Gefäß"}.get(encoding, "円")
        title = "圆" if encoding.startswith("gb") else title
        for path in write_voc(tmp_path).glob("Annotations/*.xml"):
            declared = f"<?xml version='1.0' encoding={quote}{encoding}{quote}?>\n"
            text = declared + path.read_text().replace("disc", title)
            path.write_bytes(text.encode(encoding))
        assert sorted(find_labels(tmp_path, "detect").classes) == sorted(["square", title])

    @pytest.mark.parametrize("text", ["<name></name>", "<name> </name>", "<name/>", ""])
    def test_an_object_without_a_name(self, tmp_path, text):
        path = write_voc(tmp_path) / "Annotations/img_003.xml"
        path.write_text(path.read_text().replace("<name>disc</name>", text))
        refused(tmp_path, "detect", "img_003.xml: each object must have a name")


class TestYolo:
    def test_names_are_text(self, tmp_path):
        root = write_yolo(tmp_path)
        for names in ("[yes, no]", "{0: yes, 1: no}", "['yes', \"no\"]", "\n- yes\n- no"):
            (root / "data.yaml").write_text(f"names: {names}\n")
            assert find_labels(root, "detect").classes == ["yes", "no"]
        (root / "data.yaml").write_text("names: [1.0, 2026-01-02]\n")
        assert find_labels(root, "detect").classes == ["1.0", "2026-01-02"]

    @pytest.mark.parametrize(
        "line",
        ["0 0.5 0.5 0.2 0.2 0.9", "0 30 30 20 20", "-1 0.5 0.5 0.1 0.1", "0 1.03 0.5 0.2 0.2"]
        + ["0 nan 0.5 0.2 0.2", "0 0.5 0.5 0.2 0.2 0.9 7", "0.5 0.5 0.5 0.2 0.2"],
    )
    @pytest.mark.parametrize("task", ["classify", "detect", "segment"])
    def test_the_nearest_miss_is_named(self, tmp_path, line, task):
        for path in write_yolo(tmp_path).glob("labels/*/*.txt"):
            path.write_text(f"\n{line}\n")
        refused(tmp_path, task, "labels/train/0.txt, line 2: must be 'class x y width height'")


class TestMasks:
    @pytest.mark.parametrize("suffix", [".bmp", ".tif", ".tiff", ".gif", ".PNG"])
    def test_lossless_formats(self, tmp_path, suffix):
        expected = find_labels(write_masks(tmp_path / "png"), "segment")
        root = write_masks(tmp_path / "other")
        for path in root.glob("masks/*/*.png"):
            Image.open(path).save(path.with_suffix(suffix))
            if suffix != ".PNG":
                path.unlink()
        for path in root.glob("masks/*/*.png"):
            path.unlink()
        data = find_labels(root, "segment")
        pairs = zip(images_of(data), images_of(expected), strict=True)
        assert all(np.array_equal(read_label_map(a), read_label_map(b)) for a, b in pairs)

    def test_a_format_that_changes_indices_is_named(self, tmp_path):
        root = write_masks(tmp_path)
        for path in root.glob("masks/*/*.png"):
            Image.open(path).save(path.with_suffix(".jpg"))
            path.unlink()
        refused(root, "segment", "masks/train/0.jpg changes indices .* PNG")

    @pytest.mark.parametrize(("values", "fits"), [((0, 128), False), ((0, 100, 200), False)])
    def test_values_that_skip_numbers_may_be_colours(self, tmp_path, values, fits):
        root = write_masks(tmp_path, classes=None)
        for path in root.glob("masks/*/*.png"):
            pixels = np.asarray(Image.open(path))
            table = np.zeros(256, np.uint8)
            table[[0, 1, 2, 255]] = [values[0], values[1], values[-1], 255]
            Image.fromarray(table[pixels]).save(path)
        refused(root, "segment", "colours or levels of gray, .* classes.txt")
        (root / "classes.txt").write_text("".join(f"c{i}\n" for i in range(201)))
        assert len(find_labels(root, "segment").classes) == 201

    def test_a_few_indices_may_be_skipped(self, tmp_path):
        root = write_masks(tmp_path, classes=None)
        for path in root.glob("masks/*/*.png"):
            pixels = np.asarray(Image.open(path)).copy()
            pixels[pixels == 2] = 33
            Image.fromarray(pixels).save(path)
        assert len(find_labels(root, "segment").classes) == 34


@pytest.mark.parametrize("write", [write_coco, lambda root: write_yolo(root, polygons=True)])
def test_masks_of_objects_are_segmented(tmp_path, write):
    root = write(tmp_path / "data")
    data, probed = find_labels(root, "segment"), find_labels(root, "dense")
    assert data == probed
    assert data.classes[0] == "background"
    write_labels(data, tmp_path / "labels", "segment")
    again = read_labels(tmp_path / "labels", data.root, data.layout)
    content = json.loads((tmp_path / "labels/val.json").read_text())
    for item, image, read in zip(content["data_list"], data.val, again.val, strict=True):
        found = LoadLabelMap().transform(dict(item))
        assert found["seg_fields"] == ["gt_seg_map"]
        assert found["gt_seg_map"].shape == (HEIGHT, WIDTH)
        index = int("".join(filter(str.isdigit, image.path.rpartition("/")[2]))[:2])
        for shape in shapes_of(index):
            x, y, width, height = box_of(index, shape)
            label = data.classes.index(("disc", "square")[shape])
            assert (found["gt_seg_map"][y : y + height, x : x + width] == label).all()
        assert np.array_equal(read_label_map(read), found["gt_seg_map"])
