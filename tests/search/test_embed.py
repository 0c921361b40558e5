import os

import numpy as np
import pytest
import torch
from PIL import Image

import mmssprl
from mmssprl.datasets.image_reading import read_image
from mmssprl.features import load_backbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing.linear import LabelledSplit, extract_split

NAMES = [f"a/{i}.jpg" for i in range(4)] + [f"b c/{i}.jpg" for i in range(4, 10)]


def embed(weights, images, **options):
    return mmssprl.embed(weights, images, device="cpu", progress=False, **options)


def test_whole_images_have_the_features_of_probe(config, photos):
    found = embed("random", photos, config=config)
    split = LabelledSplit("train", [str(photos / name) for name in NAMES], torch.zeros(10, 1))
    model = load_backbone("random", config)
    wanted, _ = extract_split(model, split, FeatureOptions(device="cpu", progress=False))
    assert found.names == NAMES
    assert found.features.dtype == np.float32
    np.testing.assert_allclose(found.features, wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert found.unreadable == []


def test_each_image_is_decoded_once_and_values_depend_on_no_batch_or_worker(
    config, photos, monkeypatch
):
    read = []
    monkeypatch.setattr(
        "mmssprl.datasets.unlabeled_images.read_image",
        lambda path: read.append(path) or read_image(path),
    )
    model = load_backbone("random", config)
    one = embed(model, photos)
    assert sorted(read) == sorted(str(photos / name) for name in NAMES)
    monkeypatch.setattr("mmssprl.features.extract._LEAST_FOR_WORKERS", 1)
    monkeypatch.setattr("mmssprl.features.extract.usable_cores", lambda: 4)
    other = embed(model, photos, batch_size=3)
    assert one.names == other.names
    np.testing.assert_allclose(one.features, other.features, rtol=1e-4, atol=1e-5)
    assert np.array_equal(one.boxes, other.boxes)
    assert one.about == other.about


@pytest.fixture
def pngs(photos, tmp_path):
    """The first three photographs without loss, and their pixels."""
    pixels = [np.asarray(Image.open(photos / name)) for name in NAMES[:3]]
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, each in zip(paths, pixels, strict=True):
        Image.fromarray(each).save(path)
    return paths, pixels


def test_lists_and_images_in_memory_have_the_features_of_their_files(config, pngs, tmp_path):
    paths, pixels = pngs
    model = load_backbone("random", config)
    wanted = embed(model, paths)
    assert wanted.names == [str(path) for path in paths]
    images = [Image.open(path) for path in paths]
    for source in (images, pixels, np.stack(pixels), iter(images)):
        found = embed(model, source)
        assert found.names == ["0", "1", "2"]
        np.testing.assert_array_equal(found.features, wanted.features)
        np.testing.assert_array_equal(found.boxes, wanted.boxes)
    for source in (paths[1], images[1], pixels[1]):
        np.testing.assert_allclose(embed(model, source).features, wanted.features[1:2], rtol=1e-4)
    turned = embed(model, [each[::-1] for each in pixels])
    assert turned.about["images_sha256"] != found.about["images_sha256"]
    # Turned and converted, too.
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    images[0].convert("LA").save(tmp_path / "turned.png", exif=exif)
    wanted = embed(model, tmp_path / "turned.png")
    found = embed(model, Image.open(tmp_path / "turned.png"))
    np.testing.assert_array_equal(found.features, wanted.features)


def test_unreadable_images_have_no_rows(config, photos, tmp_path):
    (photos / "a" / "0.jpg").write_text("no image")
    gone = ["a/1.jpg", "a/2.jpg"]
    for name in gone:
        (photos / name).unlink()
        (photos / name).symlink_to("gone.jpg")
    os.mkfifo(photos / "a/pipe.jpg")
    found = embed("random", photos, config=config, batch_size=1)
    assert found.names == NAMES[3:]
    assert [name for name, _ in found.unreadable] == ["a/0.jpg", *gone, "a/pipe.jpg"]
    found.save(tmp_path / "out.npz")
    found = mmssprl.neighbors(
        "random", photos, photos, embeddings=tmp_path / "out.npz", config=config, num=1
    )
    assert len(found) == len(NAMES) - 3


def test_mistakes_name_the_argument(config, photos, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"^images '.*empty/' must hold images"):
        embed("random", tmp_path / "empty", config=config)
    model = load_backbone("random", config)
    with pytest.raises(ValueError, match="config and image_px .* load_backbone"):
        embed(model, photos, image_px=64)
    with pytest.raises(ValueError, match="batch_size .* 0"):
        embed(model, photos, batch_size=0)
    (photos / "bad.jpg").write_text("no image")
    with pytest.raises(ValueError, match=r"none of 1 .*bad.jpg"):
        embed(model, photos / "bad.jpg")
    model.backbone.bn1.bias.data.fill_(torch.inf)
    with pytest.raises(ValueError, match="features must be finite"):
        embed(model, [photos / name for name in NAMES])
