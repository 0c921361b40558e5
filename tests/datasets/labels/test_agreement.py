"""Two sources of labels that do not say the same are refused or warned of."""

import json

import pytest
from helpers.datasets.label_changes import file
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    all_shapes,
    box_of,
    images_of,
    mask_of,
    refused,
    run_lengths_of,
    write_flat,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels

CORNERS = "[x1, y1, x2, y2]"


def corners(x, y, w, h):
    return [x, y, x + w, y + h]


def centre(x, y, w, h):
    return [x + w / 2, y + h / 2, w, h]


def shares(x, y, w, h):
    return [x / WIDTH, y / HEIGHT, w / WIDTH, h / HEIGHT]


def with_boxes(write, *, without=(), every=1):
    """Write other numbers into each ``every``th bbox, without some keys."""

    def edit(content):
        for annotation in content["annotations"]:
            if annotation["id"] % every == 0:
                annotation["bbox"] = write(*annotation["bbox"])
            for key in without:
                del annotation[key]

    return edit


def as_run_lengths(content):
    for annotation, shape in zip(content["annotations"], all_shapes(), strict=True):
        annotation["segmentation"] = run_lengths_of(mask_of(*shape))


@pytest.mark.parametrize(
    ("write", "without", "source", "meaning"),
    [
        (corners, (), "segmentation", CORNERS),
        (centre, (), "segmentation", "[centre x, centre y, width, height]"),
        (lambda x, y, w, h: [y, x, y + h, x + w], (), "segmentation", "[y1, x1, y2, x2]"),
        (lambda x, y, w, h: [y, x, h, w], (), "segmentation", "[y, x, height, width]"),
        (corners, ("segmentation",), "area", CORNERS),
        (corners, ("segmentation", "area"), "the sizes of images", CORNERS),
    ],
)
def test_boxes_of_another_meaning_are_refused(tmp_path, write, without, source, meaning):
    root = write_flat(tmp_path, with_boxes(write, without=without))
    match = r"all.json: COCO's bbox is \[x, y, width, height\], but bbox and "
    match += rf"{source} differ in \d+ of 16, for example annotation \d+ with \[.*\]; the numbers "
    for task in ("detect", "classify"):
        refused(root, task, match + "fit as " + meaning.replace("[", r"\[").replace("]", r"\]"))


def test_boxes_of_corners_are_refused_by_run_lengths(tmp_path):
    def edit(content):
        as_run_lengths(content)
        with_boxes(corners)(content)

    refused(write_flat(tmp_path, edit), "detect", "bbox and segmentation differ in 1. of 16")


def test_boxes_of_corners_in_a_part_of_the_file_are_a_warning(tmp_path):
    data = find_labels(write_flat(tmp_path, with_boxes(corners, every=8)), "detect")
    assert "bbox and segmentation differ in 2 of 16, for example annotation 8" in data.warnings[0]
    assert "both are used as they are" in data.warnings[0]


@pytest.mark.parametrize("without", [(), ("segmentation",), ("segmentation", "area")])
def test_boxes_that_agree_are_not_warned_of(tmp_path, without):
    data = find_labels(
        write_flat(tmp_path, with_boxes(lambda *box: box, without=without)), "detect"
    )
    assert data.num_boxes == 16
    assert data.warnings == ["val has 2 images: its scores are mostly chance."]


def test_boxes_in_shares_are_refused(tmp_path):
    root = write_flat(tmp_path, with_boxes(shares, without=("segmentation",)))
    refused(root, "detect", "COCO's bbox is in pixels, but all 16 are from 0 to 1, for example")


def test_polygons_in_shares_are_refused(tmp_path):
    def edit(content):
        for annotation in content["annotations"]:
            annotation["segmentation"] = [[0.1, 0.1, 0.4, 0.1, 0.4, 0.5]]

    refused(write_flat(tmp_path, edit), "segment", "COCO's segmentation is in pixels, but all 16")


def test_whole_numbers_are_no_shares(tmp_path):
    write = with_boxes(lambda *box: [0, 0, 1, 1], without=("segmentation", "area"))
    assert len(find_labels(write_flat(tmp_path, write), "classify").train) == 10


def of_labelstudio(*names):
    entries = [{"id": index, "name": name} for index, name in enumerate(names)]
    return json.dumps({"categories": entries, "info": {}}).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels/val/classes.txt", b"square\ndisc\n"),
        ("obj.names", b"square\ndisc\n"),
        ("notes.json", of_labelstudio("square", "disc")),
        ("labelmap.txt", b"# label:color_rgb:parts:actions\nsquare:1,1,1::\ndisc:2,2,2::\n"),
        ("labelmap.txt", b"background:0,0,0::\nsquare:1,1,1::\ndisc:2,2,2::\n"),
    ],
)
def test_every_other_list_of_classes_must_agree(tmp_path, name, content):
    file(name, content)(write_yolo(tmp_path))
    match = f"one list of classes, but data.yaml and {name} differ in 2 of 2, for example index 0: "
    refused(tmp_path, "detect", match + "'disc' and 'square'; correct one, or remove it")


def test_lists_of_two_folders_must_agree(tmp_path):
    (write_yolo(tmp_path) / "data.yaml").unlink()
    for split, text in (("train", b"disc\nsquare\n"), ("val", b"disc\n")):
        file(f"labels/{split}/classes.txt", text)(tmp_path)
    refused(tmp_path, "detect", "train/classes.txt and labels/val/.* 1: 'square' and ''")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.json", of_labelstudio("disc", "square")),
        ("labelmap.txt", b"background:0,0,0::\ndisc:1,1,1::\nsquare:2,2,2::\n"),
    ],
)
def test_lists_that_agree_are_not_warned_of(tmp_path, name, content):
    file(name, content)(write_yolo(tmp_path, num_val=10))
    assert find_labels(tmp_path, "detect").warnings == []


def test_another_spelling_in_a_second_list_is_warned_of(tmp_path):
    file("classes.txt", b"Disc\nsqu are\n")(write_yolo(tmp_path, num_val=10))
    data = find_labels(tmp_path, "detect")
    assert data.classes == ["disc", "square"]
    [warning] = data.warnings
    assert "differ in 2 of 2, for example index 0: 'disc' and 'Disc'; only case" in warning
    assert "spaces or the spelling of accents differ" in warning


def test_classes_that_differ_only_in_case_are_warned_of(tmp_path):
    path = write_voc(tmp_path) / "Annotations/img_000.xml"
    path.write_text(path.read_text().replace("disc", "Disc"))
    warnings = find_labels(tmp_path, "detect").warnings
    assert any("for example 'Disc' and 'disc': they are different classes" in w for w in warnings)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("data.yaml", b"names: [disc, square]\nnc: 3\n", "nc of data.yaml is 3 and data.yaml"),
        ("obj.data", b"classes = 4\n", "classes of obj.data is 4 and data.yaml"),
    ],
)
def test_the_number_of_classes_must_be_that_of_their_names(tmp_path, name, content, match):
    file(name, content)(write_yolo(tmp_path))
    refused(tmp_path, "detect", f"one number of classes, but {match} names 2, for example 'square'")


def test_the_number_of_classes_is_compared_with_classes_txt(tmp_path):
    file("data.yaml", b"train: images/train\nval: images/val\nnc: 1\n")(write_yolo(tmp_path))
    file("classes.txt", b"disc\nsquare\n")(tmp_path)
    refused(tmp_path, "detect", "nc of data.yaml is 1 and classes.txt names 2")


@pytest.mark.parametrize("task", ["detect", "segment"])
def test_an_unused_category_of_equal_name_is_left_out(tmp_path, task):
    def edit(content):
        content["categories"].insert(0, {"id": 0, "name": "disc", "supercategory": "none"})

    data = find_labels(write_flat(tmp_path / "root", edit), task)
    plain = find_labels(write_flat(tmp_path / "plain"), task)
    assert data.classes == plain.classes
    assert [i.objects for i in images_of(data)] == [i.objects for i in images_of(plain)]
    assert [i.labels for i in images_of(data)] == [i.labels for i in images_of(plain)]
    warning = "1 of 3 classes have no object and the name of another class, for example 'disc'"
    assert warning in data.warnings[0]


def test_two_used_categories_of_equal_name_are_refused(tmp_path):
    def edit(content):
        content["categories"].insert(0, {"id": 0, "name": "disc"})
        content["annotations"][0]["category_id"] = 0

    refused(write_flat(tmp_path, edit), "detect", "several are called 'disc'; rename or merge")


def reversed_corners(text):
    return text.replace("xmin", "old").replace("xmax", "xmin").replace("old", "xmax")


def test_reversed_corners_of_voc_are_exchanged(tmp_path):
    root = write_voc(tmp_path / "reversed")
    path = root / "Annotations/img_002.xml"
    path.write_text(reversed_corners(path.read_text()))
    data = find_labels(root, "detect")
    [image] = [each for each in data.train if each.path.endswith("img_002.jpg")]
    assert [thing.box for thing in image.objects] == [box_of(2, 0), box_of(2, 1)]
    assert "2 boxes have corners in the wrong order" in data.warnings[0]
    assert "for example disc in Annotations/img_002.xml: they are exchanged" in data.warnings[0]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [("bndbox", "robndbox", "only a robndbox, a turned box"), ("bndbox", "other", "none")],
)
def test_objects_without_a_box_are_named_with_their_file(tmp_path, old, new, kind):
    path = write_voc(tmp_path) / "Annotations/img_001.xml"
    path.write_text(path.read_text().replace(old, new))
    match = (
        f"Annotations/img_001.xml: detect needs a box .* 1 of 32 have none, .* square has {kind}"
    )
    refused(tmp_path, "detect", match)
    assert find_labels(tmp_path, "classify").num_boxes == 31


def test_a_box_without_area_is_named_with_its_image(tmp_path):
    def edit(content):
        content["annotations"][3].update(bbox=[60, 5, 9, 9], segmentation=[])

    warnings = find_labels(write_flat(tmp_path, edit), "detect").warnings
    assert any(
        "1 boxes have no area inside their image, for example square in" in w for w in warnings
    )


def test_images_of_val_without_annotation_are_counted(tmp_path):
    root = write_yolo(tmp_path, num_val=10)
    for index in range(18, 22):
        (root / f"labels/val/{index}.txt").unlink()
    assert find_labels(root, "detect").warnings == ["4 of 10 images of val have no annotation."]


def test_a_class_that_every_image_of_val_shows_is_a_warning(tmp_path):
    def edit(content):
        for image in content["images"]:
            place = {"category_id": 9, "bbox": [1, 1, 9, 9], "segmentation": []}
            content["annotations"].append({"id": 99, "image_id": image["id"], **place})

    warnings = find_labels(write_flat(tmp_path, edit, num=40), "classify").warnings
    rule = "every image of val shows disc: the average precision of such a class is 100 %"
    assert any(rule in warning for warning in warnings)
    plain = find_labels(write_flat(tmp_path / "plain", num=40), "classify").warnings
    assert not any("every image of val" in warning for warning in plain)


@pytest.mark.parametrize("mark", ["1", "True"])  # of LabelImg, of scripts in Python
def test_a_class_is_not_absent_where_it_is_difficult(mark, tmp_path):
    root = write_voc(tmp_path, num_images=25, num_val=2)  # a disc next to a square, and a disc
    path = root / "Annotations/img_024.xml"
    marked = f"</name><difficult>{mark}</difficult>"
    path.write_text(path.read_text().replace("</name>", marked))
    warnings = find_labels(root, "classify").warnings
    assert any("every image of val shows disc: " in warning for warning in warnings)
