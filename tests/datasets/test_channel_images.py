import cv2
import numpy as np
import pytest
import tifffile
import torch

from mmssprl.datasets import ImageReadError, UnlabeledImages
from mmssprl.datasets.channel_images import as_picture, read_array, read_as
from mmssprl.datasets.transforms import PyramidCrop
from mmssprl.models import PyramidPreprocessor
from mmssprl.pixels import Pixels

LAYOUT = {"image_px": 32, "levels": [], "image_area": (1.0, 1.0)}


def ramp(channels, dtype="uint16", height=32, width=32):
    """Values (H, W, C) that tell row, column and channel."""
    y, x, c = np.ogrid[:height, :width, :channels]
    return (701 * y + 211 * x + 97 * c + 3).astype(dtype)


@pytest.mark.parametrize(
    ("num", "dtype"), [(1, ">i2"), (2, "uint16"), (3, "uint16"), (4, "uint8"), (13, "float32")]
)
def test_every_format_returns_the_array_that_was_stored(num, dtype, tmp_path):
    array = ramp(num, dtype, 20, 30)
    planes = array.transpose(2, 0, 1)
    gray = {"photometric": "minisblack"}
    tifffile.imwrite(tmp_path / "pages.tif", planes, **gray)
    np.save(tmp_path / "a.npy", array.squeeze())
    if num == 1:
        with tifffile.TiffWriter(tmp_path / "overview.tif") as file:
            file.write(array[..., 0])
            file.write(array[::2, ::2, 0])  # the same picture, smaller: no channel
        with tifffile.TiffWriter(tmp_path / "mask.tif") as file:
            file.write(array[..., 0])
            file.write(np.uint8(array[..., 0] > 9))  # of another type: no channel
    else:
        tifffile.imwrite(tmp_path / "contig.tif", array, planarconfig="contig", **gray)
        tifffile.imwrite(tmp_path / "planes.TIFF", planes, planarconfig="separate", **gray)
    if num in (3, 4):
        cv2.imwrite(str(tmp_path / "a.png"), array[..., [2, 1, 0, 3][:num]])  # as BGR
    for path in tmp_path.iterdir():
        image = read_as(path, Pixels(num, array.dtype.name))
        assert image.dtype == (torch.uint8 if dtype == "uint8" else torch.float32)
        np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), array)


def views_of(image, training=False, **options):
    inputs = PyramidCrop(LAYOUT)({"img": image, "crop_seed": (0, 0)})["inputs"]
    torch.manual_seed(0)
    return PyramidPreprocessor(LAYOUT, **options)({"inputs": [inputs[0][None]]}, training)["inputs"]


FOUR_CHANNELS = {
    "pixels": Pixels(4, "uint16"),
    "mean": [29000.0, 28000, 27000, 26000],
    "std": [13000.0, 9, 800, 70],
    "saturation": 0,
    "grayscale_prob": 0,
}


def test_a_ramp_is_normalised_as_by_hand():
    image = torch.from_numpy(ramp(4, "float32")).permute(2, 0, 1)
    views = views_of(image, hue=0, **FOUR_CHANNELS)[0][1, 0]
    expected = (ramp(4).astype(np.float64) - FOUR_CHANNELS["mean"]) / FOUR_CHANNELS["std"]
    np.testing.assert_allclose(views.permute(1, 2, 0).numpy(), expected, rtol=1e-5, atol=1e-4)


def test_channels_that_are_no_colours_have_no_hue():
    with pytest.raises(ValueError, match="saturation, hue, .* must be 0 for channels that are no"):
        PyramidPreprocessor(LAYOUT, hue=0.1, **FOUR_CHANNELS)


def test_16_bit_colours_are_colours_of_8_bits_times_257():
    small = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8))
    mean = np.array([120.0, 110, 100])
    std = np.array([60.0, 50, 40])
    own = {"pixels": {"channels": 3, "dtype": "uint16"}, "mean": mean * 257, "std": std * 257}
    for training in (False, True):  # hue and the others, too
        plain = views_of(small, training, mean=mean, std=std)
        wide = views_of(small.float() * 257, training, **own)
        torch.testing.assert_close(wide, plain, atol=1e-4, rtol=1e-4)


def test_pictures_show_the_first_three_channels_in_their_own_ranges():
    image = torch.arange(101.0).repeat(4, 1)[:, None] * torch.tensor([1.0, 9, 2, 5])[:, None, None]
    assert as_picture(image)[:, 0, [0, 50, 100]].tolist() == [[0, 128, 255]] * 3
    gray = as_picture(image[:2] + 48, image[:2])  # in the range of another
    assert gray[:, 0, 2].tolist() == [128] * 3


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([{}], object), "pickled objects"),
        (np.zeros(9, np.uint8), r"its shape is \(9,\)"),
        (np.zeros((2, 2, 4)), "its values are float64"),
        (np.full((2, 2, 4), np.nan, np.float32), "NaN"),
        (np.full((2, 2, 4), np.finfo(np.float32).min), "beyond ±1e\\+30, which stand for no data"),
        (ramp(3), "3 channels of uint16, and not 4 channels of uint16"),
        (ramp(4, "uint8"), "4 channels of uint8, and not 4"),
    ],
)
def test_unfit_files_are_refused(array, words, tmp_path):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ImageReadError, match=rf"a\.npy: .*{words}"):
        read_as(tmp_path / "a.npy", Pixels(4, "uint16"))


def write_no_data(path, said, value):
    array = ramp(1, "float32")
    array[0, 0] = value
    tifffile.imwrite(path, array, extratags=[(42113, "s", 0, said, True)])
    return path


@pytest.mark.parametrize("said", ["-9999", "-9999.0 ", "-9.999e3"])
def test_pixels_without_data_are_refused(said, tmp_path):
    path = write_no_data(tmp_path / "a.tif", said, -9999)
    with pytest.raises(ImageReadError, match=r"a\.tif: .*pixels without data \(nodata is -9999\)"):
        read_array(path)


@pytest.mark.parametrize(("said", "value"), [("-9999", 5), ("0", 0), ("nan", 5), ("none", 5)])
def test_files_may_say_what_no_data_is(said, value, tmp_path):
    assert read_array(write_no_data(tmp_path / "a.tif", said, value))[0, 0] == value


def test_white_is_no_missing_data(tmp_path):
    array = ramp(1, "uint8")
    array[0, 0] = 255
    tifffile.imwrite(tmp_path / "a.tif", array, extratags=[(42113, "s", 0, "255", True)])
    assert read_array(tmp_path / "a.tif")[0, 0] == 255


def test_cut_off_files_are_refused(tmp_path):
    for name, write in (("a.png", cv2.imwrite), ("b.tif", tifffile.imwrite), ("c.npy", np.save)):
        write(str(tmp_path / name), ramp(3))
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ImageReadError, match=name):
            read_array(tmp_path / name)


def test_tar_files_are_refused(tmp_path):
    (tmp_path / "a.tar").touch()
    with pytest.raises(ValueError, match=r"must be separate files, but got .*a\.tar; unpack"):
        UnlabeledImages(str(tmp_path / "a.tar"), pixels=Pixels(4, "uint8"))
