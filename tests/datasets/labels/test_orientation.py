"""Labels of stored pixels follow an image that EXIF turns, also if its size stays."""

import json

import numpy as np
import pytest
from helpers.datasets.labelled_folders import images_of, polygon_of, run_lengths_of
from PIL import Image, ImageOps

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.object_masks import object_mask

BOX = (6, 4, 20, 8)
ODDLY_TURNED = [*((n, (60, 60)) for n in range(2, 9)), *((n, (60, 40)) for n in range(2, 9))]


def write(root, kinds, masks):
    """White objects at ``BOX`` of the stored pixels of images of kinds (orientation, size)."""
    images = []
    annotations = []
    for number, (orientation, size) in enumerate(kinds, start=1):
        x, y, width, height = BOX
        drawn = np.zeros(size[::-1], np.uint8)
        drawn[y : y + height, x : x + width] = 255
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(drawn).save(root / f"{number}.png", exif=exif)

        entry = {"id": number, "file_name": f"{number}.png", "width": size[0], "height": size[1]}
        images.append(entry)
        of_image = {"id": number, "image_id": number, "category_id": 1, "iscrowd": 0}
        mask = run_lengths_of(drawn > 0) if masks == "run lengths" else [polygon_of(BOX)]
        annotations.append({**of_image, "bbox": BOX, "area": 160, "segmentation": mask})
    categories = [{"id": 1, "name": "thing"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "all.json").write_text(json.dumps(content))
    return find_labels(root, "detect")


def whiteness(image):
    """Mean of the pixels in the box and in the mask of an image's object, as PIL shows it."""
    shown = np.asarray(ImageOps.exif_transpose(Image.open(image.path)))
    (thing,) = image.objects
    left, top, width, height = map(round, thing.box)
    mask = object_mask(thing.segmentation, *image.size)
    assert mask.sum() == width * height == 160
    return shown[top : top + height, left : left + width].mean(), shown[mask].mean()


@pytest.mark.parametrize("masks", ["polygons", "run lengths"])
@pytest.mark.parametrize(("orientation", "size"), ODDLY_TURNED)
def test_labels_follow_where_another_image_shows_that_they_are_of_the_stored_pixels(
    tmp_path, orientation, size, masks
):
    data = write(
        tmp_path, [(1, (60, 40)), (6, (60, 40)), (1, (60, 60)), (orientation, size)], masks
    )
    assert [whiteness(image) for image in images_of(data)] == [(255, 255)] * 4
    assert "2 of 4 images have labels of the stored pixels" in data.warnings[0]


def with_another_size(root, kinds, index, width, height):
    """Read images of which one has another size in the annotation file."""
    write(root, kinds, "polygons")
    content = json.loads((root / "all.json").read_text())
    content["images"][index].update(width=width, height=height)
    (root / "all.json").write_text(json.dumps(content))
    return find_labels(root, "detect")


def test_an_image_of_unknown_size_follows_the_others(tmp_path):
    kinds = [(1, (60, 40)), (6, (60, 40)), (6, (60, 40))]
    data = with_another_size(tmp_path, kinds, 2, 0, 0)
    assert [whiteness(image) for image in images_of(data)] == [(255, 255)] * 3


@pytest.mark.parametrize("kind", [(3, (60, 40)), (6, (60, 60))])
def test_labels_are_as_shown_with_a_warning_if_no_image_decides(tmp_path, kind):
    data = write(tmp_path, [(1, (60, 40)), (1, (60, 40)), kind], "polygons")
    boxes = [image.objects[0].box for image in images_of(data)]
    assert boxes == [BOX] * 3
    assert "EXIF turns 1 image, for example" in data.warnings[0]
    assert "3.png, and no size tells whether the boxes and masks are" in data.warnings[0]


def test_labels_as_shown_decide_for_others_too(tmp_path):
    kinds = [(1, (60, 40)), (6, (60, 40)), (3, (60, 40))]
    data = with_another_size(tmp_path, kinds, 1, 40, 60)
    assert [image.objects[0].box for image in images_of(data)] == [BOX] * 3
    assert not any("EXIF" in warning for warning in data.warnings)


def test_one_pixel_more_or_less_is_no_rounding_of_a_turned_size(tmp_path):
    data = write(tmp_path, [(1, (60, 59)), (6, (60, 59)), (3, (60, 59))], "polygons")
    assert [whiteness(image) for image in images_of(data)] == [(255, 255)] * 3
