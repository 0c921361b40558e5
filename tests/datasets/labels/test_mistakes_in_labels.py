import json
import os

import numpy as np
import pytest
from forged_images import forge_sides, jpeg
from labelled_folders import (
    coco_content,
    write_class_folders,
    write_coco,
    write_image,
    write_masks,
    write_voc,
    write_xml,
)
from PIL import Image

from mmssprl.datasets.labels import find_labels


def edit_json(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def refused(root, task, match):
    with pytest.raises((ValueError, FileNotFoundError), match=match) as caught:
        find_labels(root, task)
    assert "\n" not in str(caught.value)


class TestErrors:
    def test_no_folder(self, tmp_path):
        refused(tmp_path / "gone", "classify", "must be an existing folder, but there is no .*gone")

    def test_no_labels(self, tmp_path):
        for i in range(3):
            write_image(tmp_path / "photos" / f"{i}.jpg", i)
        for task in ("classify", "detect", "segment"):
            refused(tmp_path, task, f"must hold labels for {task}: .* none among 3 files")

    def test_labels_of_another_task(self, tmp_path):
        refused(write_class_folders(tmp_path), "detect", r"boxes; but .* holds none among 20 files")

    def test_two_layouts(self, tmp_path):
        write_coco(tmp_path)
        write_voc(tmp_path / "more")
        refused(tmp_path, "detect", "must have one layout, but .* has COCO and PASCAL VOC")

    def test_images_beside_the_folders_of_classes(self, tmp_path):
        write_image(write_class_folders(tmp_path) / "loose.jpg", 0)
        refused(tmp_path, "classify", "1 lie beside the 2 folders, for example loose.jpg")

    def test_two_files_for_one_split(self, tmp_path):
        write_coco(tmp_path)
        (tmp_path / "train" / "copy.json").write_text(
            (tmp_path / "train" / "_annotations.coco.json").read_text()
        )
        refused(tmp_path, "detect", "train has train/_annotations.coco.json and train/copy.json")

    def test_unreadable_json(self, tmp_path):
        (write_coco(tmp_path) / "notes.json").write_text('{"images": [')
        refused(tmp_path, "detect", "notes.json: must be JSON, but .* column")

    def test_unreadable_xml(self, tmp_path):
        (write_voc(tmp_path) / "Annotations/img_003.xml").write_text("<annotation><object>")
        refused(tmp_path, "detect", "img_003.xml: must be XML, but .* line 1")

    def test_annotations_without_images(self, tmp_path):
        (write_coco(tmp_path / "a") / "train/pictures/cam 0/Shot-04.v1.PNG").unlink()
        refused(tmp_path / "a", "detect", "1 of 16 are not, for example .'cam 0/Shot-04")
        (write_voc(tmp_path / "b") / "JPEGImages/img_005.jpg").unlink()
        refused(tmp_path / "b", "detect", "1 of 24 have none, for example .'Annotations/img_005")
        (write_masks(tmp_path / "c") / "images/val/20.jpg").unlink()
        refused(tmp_path / "c", "segment", "1 of 24 have none, for example .'masks/val/20.png")

    def test_annotations_of_unknown_images_and_categories(self, tmp_path):
        path = write_coco(tmp_path) / "train" / "_annotations.coco.json"
        edit_json(path, lambda content: content["annotations"][3].update(category_id=77))
        refused(tmp_path, "detect", "annotation 4 must name .* but got category_id=77")

    @pytest.mark.parametrize(
        ("edit", "match"),
        [
            (lambda c: c["images"][0].pop("id"), "entry of images must have id and file_name"),
            (lambda c: c["categories"][1].pop("name"), "categories must have id and name, .* 1 is"),
            (lambda c: c.update(annotations=["disc"]), "entry 0 is 'disc'; repair the file"),
            (lambda c: c["categories"][0].update(id="9"), "ids of categories must be numbers"),
            (
                lambda c: c["annotations"][0].update(bbox=[]),
                r"four numbers, .* annotation 1 has \[",
            ),
            (lambda c: c["annotations"][0].update(bbox=[float("nan"), 1, 9, 9]), "has .nan, 1"),
            (lambda c: c["annotations"][0].update(segmentation=[1, 2, 3, 4, 5, 6]), "of polygons"),
        ],
    )
    def test_entries_that_are_not_in_cocos_format(self, tmp_path, edit, match):
        path = write_coco(tmp_path) / "train" / "_annotations.coco.json"
        edit_json(path, edit)
        refused(tmp_path, "detect", f"_annotations.coco.json: .*{match}")

    def test_a_folder_beside_those_of_splits(self, tmp_path):
        for folder in ("train/disc", "train/square", "val/disc", "unlabeled/all"):
            write_image(tmp_path / folder / "1.jpg", 1)
        refused(tmp_path, "classify", "train and val and beside them unlabeled/; move")

    def test_names_of_classes_in_another_encoding(self, tmp_path):
        write_masks(tmp_path)
        (tmp_path / "classes.txt").write_bytes("Hintergrund\nBär\nHund\n".encode("latin-1"))
        refused(tmp_path, "segment", "classes.txt: must be text in UTF-8, but .* byte 13")
        (tmp_path / "classes.txt").write_text("Hintergrund\nBär\nHund\n", "utf-8-sig")
        assert find_labels(tmp_path, "segment").classes == ["Hintergrund", "Bär", "Hund"]

    def test_splits_with_other_categories(self, tmp_path):
        path = write_coco(tmp_path) / "valid" / "_annotations.coco.json"
        edit_json(path, lambda content: content["categories"][0].update(name="disk"))
        refused(tmp_path, "detect", r"differ in \[\(9, 'disc'\), \(9, 'disk'\)\]")

    def test_values_beyond_the_classes(self, tmp_path):
        write_masks(tmp_path, classes=("background", "disc"))
        refused(tmp_path, "segment", r"index of the 2 classes of classes.txt or 255, but .* has 2")

    def test_black_and_white_masks(self, tmp_path):
        root = write_masks(tmp_path, classes=None)
        for path in root.glob("masks/*/*.png"):
            pixels = np.asarray(Image.open(path))
            Image.fromarray(np.where(pixels == 0, 0, 255).astype(np.uint8)).save(path)
        refused(tmp_path, "segment", r"all 24 hold \[0\] and perhaps 255, which counts nowhere")

    def test_masks_of_colours_or_of_another_size(self, tmp_path):
        path = write_masks(tmp_path) / "masks/train/3.png"
        labels = Image.open(path)
        labels.resize((24, 20), Image.Resampling.NEAREST).save(path)
        refused(tmp_path, "segment", r"its image's size, but they are \(24, 20\) and \(48, 40\)")
        labels.convert("RGB").save(path)
        refused(tmp_path, "segment", "masks/train/3.png: .* its mode is RGB, of colours")

    def test_an_empty_split(self, tmp_path):
        write_voc(tmp_path / "a")
        (tmp_path / "a/ImageSets/Main/val.txt").write_text("\n")
        refused(tmp_path / "a", "detect", "at least one image, but .*val.txt lists none")
        path = write_coco(tmp_path / "b") / "valid" / "_annotations.coco.json"
        edit_json(path, lambda content: content.update(images=[], annotations=[]))
        refused(tmp_path / "b", "detect", "each split must have at least one .* but val has none")

    def test_a_split_without_a_label(self, tmp_path):
        path = write_coco(tmp_path) / "valid" / "_annotations.coco.json"
        edit_json(path, lambda content: content.update(annotations=[]))
        refused(tmp_path, "classify", "none of the 8 images of val has one")

    def test_nothing_to_train_on(self, tmp_path):
        write_coco(tmp_path)
        (tmp_path / "train" / "_annotations.coco.json").unlink()
        refused(tmp_path, "detect", "all are of the split val")

    def test_a_train_split_of_one_image(self, tmp_path):
        write_coco(tmp_path, num_train=1)
        refused(tmp_path, "classify", "at least 2 images, but train has 1")

    def test_an_image_that_is_none(self, tmp_path):
        (write_class_folders(tmp_path) / "disc/no 1.jpeg").write_bytes(b"text")
        refused(tmp_path, "classify", "no 1.jpeg: must be an image, but it cannot be read")

    def test_an_image_that_is_a_pipe(self, tmp_path):
        path = write_class_folders(tmp_path) / "disc/no 1.jpeg"
        path.unlink()
        os.mkfifo(path)
        refused(tmp_path, "classify", "no 1.jpeg: .* no regular file")

    def test_an_image_whose_sides_are_forged(self, tmp_path):
        path = write_class_folders(tmp_path) / "disc/no 1.jpeg"
        path.write_bytes(forge_sides(jpeg(), 9_000, 9_000))
        refused(tmp_path, "classify", r"no 1.jpeg: .* says 9,000 x 9,000 px, more than")

    def test_one_image_in_both_splits(self, tmp_path):
        write_voc(tmp_path)
        (tmp_path / "ImageSets/Main/val.txt").write_text("img_000\nimg_020\n")
        refused(tmp_path, "detect", "1 are, for example .*img_000.jpg")

    def test_an_object_without_a_box(self, tmp_path):
        path = write_coco(tmp_path / "a") / "train" / "_annotations.coco.json"
        edit_json(path, lambda content: content["annotations"][0].pop("bbox"))
        refused(tmp_path / "a", "detect", "must have a box .* use --task classify")
        assert find_labels(tmp_path / "a", "classify").train[0].labels == {1}
        path = write_voc(tmp_path / "b") / "Annotations/img_001.xml"
        path.write_text(path.read_text().replace("<xmin>", "<left>").replace("</xmin>", "</left>"))
        refused(tmp_path / "b", "detect", r"img_001.xml: .* that of square has \[None")

    def test_two_images_of_one_name(self, tmp_path):
        for folder in ("a", "b"):
            for i in range(3):
                write_image(tmp_path / folder / f"{i}.jpg", i)
        (tmp_path / "all.json").write_text(json.dumps(coco_content(["0.jpg", "1.jpg"])))
        refused(tmp_path, "detect", "0.jpg is a/0.jpg and b/0.jpg")

    def test_a_share_or_a_seed_out_of_range(self, tmp_path):
        with pytest.raises(ValueError, match="--val-share must be between 0 and 1, but got 1.5"):
            find_labels(tmp_path, "classify", val_share=1.5)
        with pytest.raises(ValueError, match="--seed must be from 0 to 4294967295, but got -1"):
            find_labels(tmp_path, "classify", seed=-1)


class TestWarnings:
    def test_good_data_have_none_but_for_few_images(self, tmp_path):
        data = find_labels(write_coco(tmp_path), "detect")
        assert data.warnings == ["val has 8 images: its scores are mostly chance."]
        data = find_labels(write_coco(tmp_path / "more", num_val=10), "detect")
        assert data.warnings == []

    def test_classes_that_only_val_or_only_train_or_nobody_has(self, tmp_path):
        for index, name in enumerate(("a.jpg", "b.jpg")):
            write_image(tmp_path / "train" / "disc" / name, index, (0,))
            write_image(tmp_path / "val" / "square" / name, index, (1,))
        warnings = find_labels(tmp_path, "classify").warnings
        assert (
            warnings[0] == "val has classes that train lacks and cannot teach: square (2 images)."
        )
        assert warnings[1] == "no score without an image in val: disc."
        path = write_coco(tmp_path / "c", num_val=10) / "train" / "_annotations.coco.json"

        def add(content):
            content["categories"].append({"id": 11, "name": "star"})

        for split in ("train", "valid"):
            edit_json(path.parents[1] / split / path.name, add)
        warnings = find_labels(tmp_path / "c", "detect").warnings
        assert warnings == ["classes that no image shows: star."]

    def test_images_without_annotation(self, tmp_path):
        path = write_coco(tmp_path / "a", num_val=10) / "train" / "_annotations.coco.json"
        edit_json(path, lambda content: content["annotations"].pop(0))
        of = "1 of 16 images of train have no annotation: they "
        assert find_labels(tmp_path / "a", "detect").warnings == [of + "are not trained on."]
        assert find_labels(tmp_path / "a", "classify").warnings == [
            of + "show none of the classes."
        ]
        (write_masks(tmp_path / "b", num_val=10) / "masks/train/3.png").unlink()
        warnings = find_labels(tmp_path / "b", "segment").warnings
        assert warnings == ["1 of 26 images have no label image: they are left out."]

    def test_boxes_without_area(self, tmp_path):
        path = write_coco(tmp_path / "a", num_val=10) / "train" / "_annotations.coco.json"
        edit_json(path, lambda content: content["annotations"][3].update(bbox=[60, 5, 9, 9]))
        data = find_labels(tmp_path / "a", "detect")
        assert data.warnings == ["1 boxes have no area inside their image; left out."]
        classified = find_labels(tmp_path / "a", "classify")  # the image is said to show it
        assert classified.train[2].labels == {0, 1}
        assert classified.warnings == []
        write_voc(tmp_path / "b", num_images=26, num_val=10)
        path = tmp_path / "b/Annotations/img_002.xml"
        path.write_text(path.read_text().replace("<xmax>20", "<xmax>0"))
        assert find_labels(tmp_path / "b", "detect").warnings == data.warnings

    def test_unknown_sizes_are_no_mistake(self, tmp_path):
        path = write_coco(tmp_path, num_val=10) / "train" / "_annotations.coco.json"
        edit_json(path, lambda content: content["images"][0].update(width=None, height=None))
        data = find_labels(tmp_path, "detect")
        assert data.train[0].size == (48, 40)
        assert data.warnings == []

    def test_some_objects_without_a_mask(self, tmp_path):
        path = write_coco(tmp_path, num_val=10) / "train" / "_annotations.coco.json"
        edit_json(path, lambda content: content["annotations"][0].update(segmentation=[]))
        warnings = find_labels(tmp_path, "detect").warnings
        assert warnings == ["1 of 34 objects have no mask: only boxes are trained."]


def test_a_file_of_another_kind_is_passed_over(tmp_path):
    write_coco(tmp_path)
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    assert find_labels(tmp_path, "detect").layout == "COCO"
    write_xml(tmp_path / "train/pictures/cam 0/Shot-04.v1.xml", 4)
    refused(tmp_path, "detect", "one layout")


def test_an_absolute_path_may_lead_out_of_the_folder(tmp_path):
    names = [str(tmp_path / "elsewhere" / f"{i}.png") for i in range(6)]
    for i in range(6):
        write_image(tmp_path / "elsewhere" / f"{i}.png", i)
    root = tmp_path / "data"
    root.mkdir()
    (root / "all.json").write_text(json.dumps(coco_content(names)))
    data = find_labels(root, "detect")
    assert sorted(image.path for image in [*data.train, *data.val]) == names
    os.unlink(names[2])
    refused(root, "detect", "1 of 6 are not, for example .*2.png")
