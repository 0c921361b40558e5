import os

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as transforms

import mmssprl
from mmssprl.datasets.image_reading import read_image
from mmssprl.features.extract import extract_split
from mmssprl.features.folder import embed, embed_to_file
from mmssprl.features.neighbors import find_neighbors
from mmssprl.features.probe_data import LabelledSplit

NAMES = [f"a/{i}.jpg" for i in range(4)] + [f"b c/{i}.jpg" for i in range(4, 10)]


def test_whole_images_have_the_features_of_probe(config, photos):
    found = embed("random", photos, config=config, progress=False)
    split = LabelledSplit("train", [str(photos / name) for name in NAMES], torch.zeros(10, 1))
    model = mmssprl.load_backbone("random", config)
    wanted, _ = extract_split(model, split, device=torch.device("cpu"), progress=False)
    assert found.names == NAMES
    assert found.features.dtype == np.float32
    np.testing.assert_allclose(found.features, wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert found.scales.tolist() == found.cells.tolist() == [0] * 10
    assert found.unreadable == []


def test_patches_have_the_features_of_the_model_on_their_pixels(config, photos):
    model = mmssprl.load_backbone("random", config)
    found = embed(model, photos, patches=True, progress=False)
    assert len(found) == 10 * (1 + 4 + 9)
    assert found.names[:14] == [NAMES[0]] * 14
    row = 14 * 3 + 1 + 4 + 5  # of the fourth image, scale 2, cell 5: row 1, column 2
    assert (found.names[row], found.scales[row], found.cells[row]) == (NAMES[3], 2, 5)
    # Resized to 90 px as in training, in the middle of a cell of 30 px: a patch of 16 px.
    image = transforms.resize(read_image(photos / NAMES[3]), [90, 90], antialias=True)
    with torch.no_grad():
        wanted = model.cpu()(model.normalise(image[None, :, 37:53, 67:83]))
    np.testing.assert_allclose(found.features[row], wanted[0].numpy(), rtol=1e-4, atol=1e-5)
    # 40 px high, 48 px wide
    box = [67 * 48 / 90, 37 * 40 / 90, 83 * 48 / 90, 53 * 40 / 90]
    np.testing.assert_allclose(found.boxes[row], box, rtol=1e-6)


def test_values_depend_neither_on_batches_nor_on_workers(config, photos):
    model = mmssprl.load_backbone("random", config)
    one = embed(model, photos, patches=True, progress=False)
    other = embed(model, photos, patches=True, batch_size=3, num_workers=2, progress=False)
    assert one.names == other.names
    np.testing.assert_allclose(one.features, other.features, rtol=1e-4, atol=1e-5)
    for name in ("scales", "cells", "boxes"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert one.about == other.about


def test_each_image_is_decoded_once_whatever_is_cut_from_it(config, photos, monkeypatch):
    read = []

    def count(path):
        read.append(path)
        return read_image(path)

    monkeypatch.setattr("mmssprl.datasets.unlabeled_images.read_image", count)
    embed("random", photos, config=config, patches=True, progress=False)
    assert sorted(read) == sorted(str(photos / name) for name in NAMES)


def test_scales_can_be_taken_apart(config, photos):
    both = embed("random", photos, config=config, patches=True, progress=False)
    alone = embed("random", photos, config=config, progress=False)
    np.testing.assert_allclose(both.of_scale(0).features, alone.features, rtol=1e-4, atol=1e-5)
    assert both.of_scale(1).cells.tolist() == [0, 1, 2, 3] * 10


def test_unreadable_images_have_no_rows(config, photos):
    (photos / "a" / "1.jpg").write_text("no image")
    found = embed("random", photos, config=config, batch_size=1, progress=False)
    assert found.names == [name for name in NAMES if name != "a/1.jpg"]
    ((name, reason),) = found.unreadable
    assert name == "a/1.jpg"
    assert "it cannot be decoded" in reason


def test_links_to_nothing_and_pipes_are_unreadable_images(config, photos, tmp_path):
    gone = ["a/1.jpg", "a/2.jpg"]
    for name in gone:
        (photos / name).unlink()
        (photos / name).symlink_to("gone.jpg")
    os.mkfifo(photos / "a/pipe.jpg")
    found = embed("random", photos, config=config, progress=False)
    assert found.names == [name for name in NAMES if name not in gone]
    assert [name for name, _ in found.unreadable] == [*gone, "a/pipe.jpg"]
    embed_to_file("random", photos, tmp_path / "out.npz", config=config)
    rows = find_neighbors(
        "random", photos, photos, embeddings=tmp_path / "out.npz", config=config, num=1
    )
    assert len(rows) == len(NAMES) - 2


def test_mistakes_name_the_argument(config, photos, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^DIR must be a folder .* there is no .*gone"):
        embed("random", tmp_path / "gone", config=config)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"^DIR '.*empty/' must hold images"):
        embed("random", tmp_path / "empty", config=config)
    with pytest.raises(ValueError, match="config and image_px belong to the weights"):
        embed(mmssprl.load_backbone("random", config), photos, image_px=64)
    (photos / "bad.jpg").write_text("no image")
    with pytest.raises(ValueError, match=r"none of 1 is \(first bad.jpg: it cannot be decoded"):
        embed("random", photos / "bad.jpg", config=config, progress=False)


def test_features_that_are_not_finite_are_refused(config, photos):
    model = mmssprl.load_backbone("random", config)
    model.backbone.bn1.bias.data.fill_(torch.inf)
    with pytest.raises(ValueError, match="10 of 10 images gave NaN or infinity; check the weights"):
        embed(model, photos, progress=False)
