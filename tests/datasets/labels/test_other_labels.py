"""Folders that are read as classes, next to labels of other kinds."""

import json

from helpers.datasets.labelled_folders import write_image, write_mask

from mmssprl.datasets.labels import find_labels


def write_parts(root, titles=("part_1", "part_2")):
    for index in range(12):
        write_image(root / titles[index % 2] / f"photo {index}.png", index)
    return root


def warned(root, text):
    return [warning for warning in find_labels(root, "classify").warnings if text in warning]


def test_labels_of_a_tool_next_to_folders(tmp_path):
    shapes = {"shapes": [], "imagePath": "photo 0.png"}
    (write_parts(tmp_path) / "part_1/photo 0.json").write_text(json.dumps(shapes))
    assert warned(tmp_path, "LabelMe's JSON is not read, the first of 1 .json files; ")


def test_raw_files_of_photographs_are_not_left_out(tmp_path):
    root = write_parts(tmp_path)
    (root / "part_1/photo 0.orf").touch()
    assert not warned(root, "formats that are not read")
    (root / "part_1/photo 1.orf").touch()
    assert warned(root, "1 files are images of formats that are not read, for example part_1/photo")


def test_a_folder_of_all_images_is_reported_as_a_class(tmp_path):
    root = write_parts(tmp_path, ("images", "drawn"))
    assert warned(root, "images is read as a class next to 1 other; move its images away if they")


def test_label_images_in_folders_of_classes_are_counted(tmp_path):
    root = write_parts(tmp_path, ("benign", "malignant"))
    assert not warned(root, "look like label images")
    for index in range(0, 12, 2):
        write_mask(root / f"benign/photo {index}_mask.png", index)
    rule = "6 of 18 images look like label images of others, for example benign/photo 0_mask.png: "
    assert warned(root, rule)


def test_photographs_with_names_of_label_images_are_no_label_images(tmp_path):
    root = write_parts(tmp_path, ("benign", "malignant"))
    for index in range(0, 12, 2):
        write_image(root / f"benign/photo {index}_gt.png", 20 + index)
    assert not warned(root, "look like label images")
