"""Labels as other tools write them are those that they mean."""

import codecs
import shutil

import pytest
from helpers.datasets.label_changes import file, replaced, unlink
from helpers.datasets.labelled_folders import (
    images_of,
    refused,
    write_flat,
    write_image,
    write_listed,
    write_masks,
    write_voc,
    write_xml,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels


def objects_of(root, task="detect"):
    return [image.objects for image in images_of(find_labels(root, task))]


def bare_polygons(content):
    """As VIA writes them."""
    for annotation in content["annotations"]:
        (annotation["segmentation"],) = annotation["segmentation"]


def empty_boxes(content):
    for annotation in content["annotations"]:
        annotation["bbox"] = []


@pytest.mark.parametrize("edit", [bare_polygons, empty_boxes])
def test_masks_of_coco_in_other_forms(tmp_path, edit):
    expected = objects_of(write_flat(tmp_path / "plain"))
    assert objects_of(write_flat(tmp_path / "other", edit)) == expected


@pytest.mark.parametrize(("score", "is_told"), [(0.06, True), (1, False), (None, False)])
def test_predictions_that_are_taken_as_labels_are_reported(tmp_path, score, is_told):
    def edit(content):
        content["annotations"][3]["score"] = score

    warnings = find_labels(write_flat(tmp_path, edit), "classify").warnings
    rule = f"all.json: 1 of 16 annotations have a score, the lowest {score}, as predictions do"
    assert any(warning.startswith(rule) for warning in warnings) is is_told


def test_an_image_of_the_exact_name_comes_before_a_longer_one(tmp_path):
    root = write_flat(tmp_path)
    write_image(root / "machine/0.png.png", 0)
    assert f"{root}/0.png" in {image.path for image in images_of(find_labels(root, "detect"))}


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_texts_in_utf_16_are_read(tmp_path, mark):
    root = write_yolo(tmp_path)
    expected = objects_of(root)
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    for path in [*root.glob("labels/*/*.txt"), root / "data.yaml"]:
        path.write_bytes(mark + path.read_text().encode(encoding))
    assert objects_of(root) == expected


def test_the_path_of_a_data_yaml_may_have_a_comment(tmp_path):
    root = write_yolo(tmp_path / "datasets/shapes")
    expected = objects_of(root)
    (tmp_path / "cfg").mkdir()
    settings = (root / "data.yaml").read_text().replace("shapes", "shapes  # root")
    (tmp_path / "cfg/shapes.yaml").write_text(settings)
    assert objects_of(tmp_path / "cfg/shapes.yaml") == expected


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("img {}", "img {}"),
        ("img {}", '"img {}"'),  # as CVAT writes it
        ("cam 1/img {}", '"cam 1/img {}"'),
        ("img_{}", "img_{}.JPG"),
        ("img_{}", "Annotations/img_{}.xml"),
        ("img_{}", "img_{}  -1"),
        ("img_{}", "img_{} 1 1 0"),
        ("img {}", '"img {}" 1'),
        ("cam 1/img {}", "./cam 1/img {}.jpg 1"),
        ("img_{}", "JPEGImages/img_{}.jpg"),
        ("img_{}", "/data/VOC2012/JPEGImages/img_{}.jpg"),
        ("img_{}", "JPEGImages/img_{0}.jpg Annotations/img_{0}.xml"),
        ("img_{}", "/JPEGImages/img_{0}.jpg /SegmentationClass/img_{0}.png"),
    ],
)
def test_lines_of_image_sets_of_other_tools(tmp_path, name, line):
    for index in range(6):
        write_image(tmp_path / "JPEGImages" / f"{name.format(index)}.jpg", index)
        write_xml(tmp_path / "Annotations" / f"{name.format(index)}.xml", index)
    lists = tmp_path / "ImageSets/Main"
    lists.mkdir(parents=True)
    for stem, indices in (("train", (1, 4, 5)), ("val", (0, 2))):
        lines = [line.format(index) for index in indices]
        (lists / f"{stem}.txt").write_text("\n".join([*lines, ""]))

    data = find_labels(tmp_path, "detect")
    expected = [f"{tmp_path}/JPEGImages/{name.format(index)}.jpg" for index in (1, 4, 5, 0, 2)]
    assert [image.path for image in images_of(data)] == expected


@pytest.mark.parametrize("below", ["", "cam1/"])
def test_annotations_that_no_image_set_names_are_not_used(tmp_path, below):
    for index in range(6):
        write_image(tmp_path / f"JPEGImages/{below}{index}.jpg", index)
        for folder in ("cam1", "cam2"):
            write_xml(tmp_path / f"Annotations/{folder}/{index}.xml", index)
    replaced("Annotations/cam2/*.xml", "disc|square", "ghost")(tmp_path)
    (tmp_path / "ImageSets/Main").mkdir(parents=True)
    for stem, indices in (("train", range(4)), ("val", range(4, 6))):
        lines = "".join(f"cam1/{index}\n" for index in indices)
        (tmp_path / f"ImageSets/Main/{stem}.txt").write_text(lines)

    data = find_labels(tmp_path, "detect")
    assert (data.classes, len(data.train), len(data.val)) == (["disc", "square"], 4, 2)


def test_a_line_of_an_image_set_may_have_the_folders_of_the_image(tmp_path):
    root = write_voc(tmp_path)
    expected = len(find_labels(root, "detect").val)
    (root / "JPEGImages").rename(root / "cam1")
    for path in root.glob("ImageSets/Main/*.txt"):
        path.write_text("".join(f"cam1/{name}\n" for name in path.read_text().split()))
    assert len(find_labels(root, "detect").val) == expected


def test_a_numbered_copy_is_not_the_original(tmp_path):
    root = write_voc(tmp_path)
    file("ImageSets/Main/val.txt", b"img_020.jpg\nimg_021 (1).jpg\n")(root)
    refused(root, "detect", r"lists for val must have annotations, but 1 of 2 .*img_021 \(1\)")


def test_a_line_of_an_image_set_that_names_two_files_is_refused(tmp_path):
    for folder in ("left", "right"):
        write_voc(tmp_path / folder, num_images=6, num_val=2)
    (tmp_path / "left/ImageSets").rename(tmp_path / "ImageSets")
    shutil.rmtree(tmp_path / "right/ImageSets")
    match = "but img_000 is left/Annotations/img_000.xml and right/Annotations/img_000.xml; write"
    refused(tmp_path, "detect", match)


@pytest.mark.parametrize(
    ("folders", "how"),
    [
        (("train", "val"), "the data's own train and val"),
        (("val2017", "val2017"), "20% of 12 images held out, seed 0"),
        (("train", "ship"), "20% of 12 images held out, seed 0"),
    ],
)
def test_folders_are_the_splits_of_one_coco_file(tmp_path, folders, how):
    names = [f"images/{folders[index % 2]}/{index}.jpg" for index in range(12)]
    write_listed(tmp_path, names, names)
    assert find_labels(tmp_path, "detect").split == how


@pytest.mark.parametrize("names", ["rgb/{}.jpg", "{}.jpg"])
def test_a_converted_image_is_in_the_folder_of_the_former(tmp_path, names):
    write_listed(
        tmp_path, [f"rgb/{i}.jpg" for i in range(12)], [names.format(i) for i in range(12)]
    )
    (tmp_path / "rgb/3.jpg").rename(tmp_path / "rgb/3.png")
    assert "3.jpg: images with" in find_labels(tmp_path, "detect").warnings[0]

    (tmp_path / "depth").mkdir()
    (tmp_path / "rgb/3.png").rename(tmp_path / "depth/3.png")
    refused(tmp_path, "detect", "must have its image in the data, .* 1 of 12 have none")


def test_a_test_that_is_val_leaves_no_image_unused(tmp_path):
    root = write_yolo(tmp_path)
    lines = "train: images/train\nval: images/val\ntest: images/val\nnames: [disc, square]\n"
    (root / "data.yaml").write_text(lines)
    assert find_labels(root, "detect").split == "the data's own train and val"


def test_a_mask_of_single_points_is_left_out(tmp_path):
    """OpenCV draws them around masks of one pixel."""

    def edit(content):
        content["annotations"][3]["segmentation"] = [[3, 3], [5, 5], [7, 7]]

    objects = sum(objects_of(write_flat(tmp_path, edit), "segment"), ())
    assert [thing.segmentation for thing in objects].count(None) == 1


def test_two_images_of_a_yolo_text_of_which_one_is_listed(tmp_path):
    root = write_yolo(tmp_path)
    for split in ("train", "val"):
        names = sorted(root.glob(f"images/{split}/*.jpg"))
        (root / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
    replaced("data.yaml", "images/(train|val)", r"\1.txt")(root)
    shutil.copy(root / "images/train/3.jpg", root / "images/train/3.png")
    assert len(find_labels(root, "detect").train) == 16


def test_a_folder_without_labels_is_no_split_of_a_coco_file(tmp_path):
    names = [f"{('train', 'test')[index % 2]}/{index}.jpg" for index in range(12)]

    def edit(content):
        kept = [item for item in content["annotations"] if item["image_id"] % 2 == 0]
        content["annotations"] = kept

    write_listed(tmp_path, names, names, edit=edit)
    assert find_labels(tmp_path, "detect").split == "20% of 12 images held out, seed 0"


def test_an_empty_name_of_an_image_set_is_refused(tmp_path):
    file("ImageSets/Main/val.txt", b'img_020\n""\n')(write_voc(tmp_path))
    refused(tmp_path, "detect", "lists for val must have annotations, but 1 of 2 have none")


def test_what_labelme_ignores_has_no_index(tmp_path):
    root = write_masks(tmp_path, classes=None)
    (root / "labels.txt").write_text("__ignore__\n_background_\ndisc\nsquare\n")
    assert find_labels(root, "segment").classes == ["_background_", "disc", "square"]
    assert find_labels(root, "classify").classes == ["disc", "square"]


def test_what_labelme_ignores_has_no_index_for_boxes(tmp_path):
    root = write_yolo(tmp_path)
    (root / "labels.txt").write_text("__ignore__\n_background_\ndisc\nsquare\n")
    assert find_labels(root, "detect").classes == ["disc", "square"]


def test_a_list_of_what_labelme_ignores_names_no_class(tmp_path):
    root = write_yolo(tmp_path)
    expected = find_labels(root, "detect").classes
    (root / "labels.txt").write_text("__ignore__\n")
    assert find_labels(root, "detect").classes == expected


def test_endings_of_label_images(tmp_path):
    root = write_masks(tmp_path)
    expected = len(images_of(find_labels(root, "segment")))
    for path in [*root.glob("masks/*/*.png")]:
        path.rename(path.with_name(f"{path.stem}_labelTrainIds.png"))
    assert len(images_of(find_labels(root, "segment"))) == expected


@pytest.mark.parametrize("ending", ["_seg", ".mask"])
def test_pictures_of_masks_next_to_the_images_are_left_out(tmp_path, ending):
    root = write_masks(tmp_path)
    for path in [*root.glob("images/*/*.jpg")]:
        shutil.copy(path, path.with_name(f"{path.stem}{ending}.jpg"))
    (told, *_) = find_labels(root, "segment").warnings
    assert told == "24 of 48 images have no label image: they are left out."


def test_images_without_a_polygon_are_reported_for_pixels(tmp_path):
    root = write_yolo(tmp_path, polygons=True)
    unlink("labels/train/3.txt")(root)
    (told, *_) = find_labels(root, "segment").warnings
    assert told.startswith("1 of 16 images of train have no annotation: each of their pixels is")


def test_label_images_next_to_a_coco_file_are_reported(tmp_path):
    root = write_masks(tmp_path)
    write_listed(root, [], [f"{index}.jpg" for index in range(24)])
    (told, *_) = find_labels(root, "segment").warnings
    assert told.startswith("the label images are used, for example masks/train/0.png, and not all")

    replaced("all.json", '"segmentation"', '"none"')(root)
    assert not any("are used" in warning for warning in find_labels(root, "segment").warnings)


def test_placeholders_of_one_name_are_one_class(tmp_path):
    def edit(content):
        content["categories"] += [{"id": number, "name": "N/A"} for number in (1, 12, 26)]

    assert find_labels(write_flat(tmp_path, edit), "detect").classes == ["N/A", "square", "disc"]
