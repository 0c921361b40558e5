import copy
import json

import pytest

from mmssprl.datasets.labels.coco_file import LISTS, objects_by_image, read_coco

SQUARE = [[0, 0, 9, 0, 9, 9]]
GOOD = {
    "images": [
        {"id": 1, "file_name": "bär.png", "width": 10, "height": 8},
        {"id": "two", "file_name": "b.png", "width": None},
    ],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 5.0, "iscrowd": 0, "bbox": [0, 0, 9.5, 8]},
        {"image_id": "two", "category_id": 6, "iscrowd": True, "segmentation": SQUARE},
        {"image_id": 1, "category_id": 6, "segmentation": {"size": [8, 10], "counts": [30, 50]}},
    ],
    "categories": [{"id": 5, "name": "cat"}, {"id": 6, "name": 7}],
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_any_encoding_of_unicode(tmp_path, encoding):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(GOOD, ensure_ascii=False), encoding)
    assert read_coco(path, *LISTS) == GOOD


def test_an_entry_may_be_repeated(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**GOOD, "images": [*GOOD["images"], GOOD["images"][0]]}))
    assert len(objects_by_image(read_coco(path, *LISTS))) == len(GOOD["images"])


def refused(tmp_path, text, match):
    path = tmp_path / "a.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=match) as caught:
        read_coco(path, *LISTS)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        *(("", "Expecting value"), ("[" * 10**6 + "]" * 10**6, "recursion")),
        ('{"images": [], "images": [1]}', "the key 'images' more than once"),
        ('{"images": "\udcff"}', "must be JSON, but 'utf-8' codec"),
        ('{"images": ' + "9" * 5000 + "}", "4300"),
        *(("[]", "no list 'images'"), ("3", "no list 'images'"), ('{"images": {}}', "no list")),
        *(
            (json.dumps({**GOOD, kind: [5]}), f"entry of {kind} .* is 5; complete or delete")
            for kind in LISTS
        ),
    ],
    ids=lambda value: value[:20],
)
def test_other_files_are_refused(tmp_path, text, match):
    refused(tmp_path, text, match)


IMAGE = ("images", 0)
CROWD = ("annotations", 0)
KIND = ("categories", 0)


@pytest.mark.parametrize(
    ("steps", "key", "bad_ones", "match"),
    [
        (("images", 1), "id", [1], "images must have different ids, but several have 1"),
        (("categories", 1), "id", [5], "categories must have different ids, .* have 5"),
        (IMAGE, "id", [None, 1.5, True, [1], 10**30], "entry 0 is"),
        (KIND, "name", [None, ["cat"], {}, "", "  ", True], "entry 0 is"),
        (IMAGE, "file_name", ["", "a\0b", "\ud800", 7, None], "entry 0 is"),
        (IMAGE, "width", ["640", -1, float("nan"), float("inf"), True, 10**400, [10]],
         "width must be a number, but image 1 has"),
        (CROWD, "iscrowd", ["no", "0", 2, [], float("nan")],
         "iscrowd must be 0 or 1, but annotation 1 has"),
        (CROWD, "bbox", [5, "0 0 9 9", [0, 0, 9], [0, 0, 9, "9"], [0, 0, True, 9], [0, 0, 9, None],
                         [0, 0, float("nan"), 9], [0, float("inf"), 9, 9], [0, 0, 10**400, 9],
                         [1e8, 0, 9, 9]],
         "bbox must be four numbers.* annotation 1 has"),
        (CROWD, "segmentation", [True, "x", [5], [["1", 2]], {}, {"size": [8, 10]},
                                 [[0, 0, 1e9, 0, 9, 9]], {"size": [8, 10], "counts": 5},
                                 {"size": [8, 10], "counts": [79]},
                                 {"size": [8, 10], "counts": [-1, 81]},
                                 {"size": [10**9, 10**9], "counts": ""},
                                 {"size": [0, 10], "counts": ""},
                                 {"size": [2.5, 4], "counts": [10]}],
         "segmentation must be run lengths or a list of polygons"),
        (CROWD, "image_id", [3], "annotation 1 must refer .* but has image_id=3"),
        (CROWD, "category_id", ["5"], "annotation 1 must refer .* but has category_id='5'"),
        (CROWD, "image_id", [[1], 1.5, True, None, 1e300, "", {}],
         "must have image_id|must refer to an image"),
    ],
)  # fmt: skip
def test_wrong_entries_are_refused(tmp_path, steps, key, bad_ones, match):
    for bad in bad_ones:
        content = entry = copy.deepcopy(GOOD)
        for step in steps:
            entry = entry[step]
        entry[key] = bad
        refused(tmp_path, json.dumps(content), match)
