import io
import json

import numpy as np
import pytest
from helpers.datasets.image_folders import turned
from mmcv.transforms import LoadImageFromFile
from mmengine.dataset import BaseDataset
from PIL import Image
from torch.utils.data import DataLoader

from mmssprl.console.messages import message_for_user
from mmssprl.datasets.transforms import LoadImage

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 31, 3), np.uint8).repeat(2, 0).repeat(2, 1)
RGB = Image.fromarray(PIXELS)
ALPHA = RGB.getchannel("B")
KINDS = {
    "a photograph": ("JPEG", RGB, {}),
    "a progressive JPEG": ("JPEG", RGB, {"progressive": True, "quality": 40}),
    "a JPEG of full colour": ("JPEG", RGB, {"subsampling": 0, "quality": 95}),
    "a gray JPEG": ("JPEG", RGB.convert("L"), {}),
    "PNG": ("PNG", RGB, {}),
    "gray": ("PNG", RGB.convert("L"), {}),
    "one bit": ("PNG", RGB.convert("1"), {}),
    "a palette": ("PNG", RGB.quantize(60), {}),
    "a palette with a clear colour": ("PNG", RGB.quantize(60), {"transparency": 3}),
    "alpha": ("PNG", Image.merge("RGBA", (*RGB.split(), ALPHA)), {}),
    "gray with alpha": ("PNG", Image.merge("LA", (RGB.convert("L"), ALPHA)), {}),
    "16 bits": ("PNG", Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 256 + 200), {}),
}


def same_as_mmcvs(path):
    """What is read, after a comparison with mmcv's reader."""
    found, wanted = (kind()({"img_path": str(path)}) for kind in (LoadImage, LoadImageFromFile))
    assert found.keys() == wanted.keys()
    assert found["img_shape"] == found["ori_shape"] == wanted["ori_shape"] == wanted["img_shape"]
    np.testing.assert_array_equal(found["img"], wanted["img"], strict=True)
    assert found["img"].flags["C_CONTIGUOUS"]
    return found["img"]


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_images_are_those_of_mmcvs_reader(kind, tmp_path):
    file_format, image, options = KINDS[kind]
    image.save(tmp_path / "image", file_format, **options)
    assert same_as_mmcvs(tmp_path / "image").shape == PIXELS.shape


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "TIFF"])
def test_images_that_mmcv_turns_are_turned_as_by_mmcv(file_format, tmp_path):
    for orientation in range(1, 9):
        stored, exif = turned(RGB, orientation)
        stored.save(tmp_path / "image", file_format, exif=exif)
        assert same_as_mmcvs(tmp_path / "image").shape == PIXELS.shape, orientation


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_damaged_image_is_named_in_one_line(num_workers, tmp_path):
    file = io.BytesIO()
    RGB.save(file, "JPEG")
    path = tmp_path / "damaged.jpg"
    path.write_bytes(file.getvalue()[: file.tell() // 2])
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps({"metainfo": {}, "data_list": [{"img_path": str(path)}]}))
    dataset = BaseDataset(str(listed), pipeline=[{"type": "mmssprl.LoadImage"}])
    with pytest.raises(ValueError, match="damaged") as caught:
        next(iter(DataLoader(dataset, num_workers=num_workers)))
    said = message_for_user(caught.value)
    assert said.startswith(f"{path}: must be a complete image, but it cannot be decoded (")
    assert said.endswith("; replace or remove the file.")
    assert "\n" not in said
