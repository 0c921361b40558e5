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


def test_folders_lists_and_one_image_have_the_features_of_probe(config, photos, monkeypatch):
    read = []
    monkeypatch.setattr(
        "mmssprl.datasets.unlabeled_images.read_image",
        lambda path: read.append(path) or read_image(path),
    )
    found = embed("random", photos, config=config)
    paths, model = [str(photos / name) for name in NAMES], load_backbone("random", config)
    assert sorted(read) == paths  # each image is decoded once
    split = LabelledSplit("train", paths, torch.zeros(10, 1), torch.arange(10))
    wanted, _ = extract_split(model, split, FeatureOptions(device="cpu", progress=False))
    assert found.features.dtype == np.float32
    listed, one = embed(model, paths[:3]), embed(model, photos / NAMES[1])
    monkeypatch.setattr("mmssprl.features.extract._LEAST_FOR_WORKERS", 1)
    monkeypatch.setattr("mmssprl.features.extract.usable_cores", lambda: 4)
    in_batches = embed(model, photos, batch_size=3)
    assert np.array_equal(in_batches.boxes, found.boxes)
    assert in_batches.about == {**found.about, "weights": ""}
    for each, names, rows in (
        (found, NAMES, wanted),
        (in_batches, NAMES, wanted),
        (listed, paths[:3], wanted[:3]),
        (one, ["1.jpg"], wanted[1:2]),
    ):
        assert (each.names, each.unreadable) == (names, [])
        np.testing.assert_allclose(each.features, rows, rtol=1e-4, atol=1e-5)


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
    with pytest.raises(ValueError, match="none of 1 .*0.jpg"):
        embed("random", [photos / "a" / "0.jpg"], config=config)


def test_mistakes_name_the_argument(config, photos, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"^images '.*empty/' must hold images"):
        embed("random", tmp_path / "empty", config=config)
    model = load_backbone("random", config)
    with pytest.raises(TypeError, match=r"images must be paths.*use load_backbone and image_tr"):
        embed(model, [Image.new("RGB", (3, 3))])
    with pytest.raises(ValueError, match="images must have at least one image"):
        embed(model, [])
    with pytest.raises(ValueError, match="config and image_px .* load_backbone"):
        embed(model, photos, image_px=64)
