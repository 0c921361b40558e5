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


def test_each_image_is_decoded_once(config, photos, monkeypatch):
    read = []

    def read_and_count(path):
        read.append(path)
        return read_image(path)

    monkeypatch.setattr("mmssprl.datasets.unlabeled_images.read_image", read_and_count)
    embed("random", photos, config=config)
    assert sorted(read) == [str(photos / name) for name in NAMES]


class TestFeatures:
    """The features of `probe`, whatever form the images have."""

    @pytest.fixture
    def model(self, config):
        return load_backbone("random", config)

    @pytest.fixture
    def paths(self, photos):
        return [str(photos / name) for name in NAMES]

    @pytest.fixture
    def wanted(self, model, paths):
        split = LabelledSplit("train", paths, torch.zeros(10, 1), groups=torch.arange(10))
        return extract_split(model, split, FeatureOptions(device="cpu", progress=False))[0]

    def check(self, found, names, wanted):
        assert (found.names, found.unreadable) == (names, [])
        assert found.features.dtype == np.float32
        np.testing.assert_allclose(found.features, wanted, rtol=1e-4, atol=1e-5)

    def test_of_a_folder(self, config, photos, wanted):
        self.check(embed("random", photos, config=config), NAMES, wanted)

    def test_of_a_list(self, model, paths, wanted):
        self.check(embed(model, paths[:3]), paths[:3], wanted[:3])
        self.check(embed(model, iter(paths[:3])), paths[:3], wanted[:3])

    def test_of_one_image(self, model, photos, wanted):
        self.check(embed(model, photos / NAMES[1]), ["1.jpg"], wanted[1:2])

    def test_of_several_reading_processes(self, config, model, photos, wanted, monkeypatch):
        alone = embed("random", photos, config=config)
        monkeypatch.setattr("mmssprl.features.extract._LEAST_FOR_WORKERS", 1)
        monkeypatch.setattr("mmssprl.features.extract.cores_of_run", lambda: 4)
        found = embed(model, photos, batch_size=3)
        self.check(found, NAMES, wanted)
        assert np.array_equal(found.boxes, alone.boxes)
        assert found.about == {**alone.about, "weights": ""}


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


def test_images_of_formats_that_are_not_read_are_counted(config, photos, capsys):
    (photos / "a/4.heic").touch()
    embed("random", photos, config=config)
    assert "left out: 1 image of formats that are not read (.heic)" in capsys.readouterr().out


def test_images_of_which_none_is_readable(config, tmp_path):
    (tmp_path / "0.jpg").write_text("no image")
    with pytest.raises(ValueError, match="none of 1 .*0.jpg"):
        embed("random", [tmp_path / "0.jpg"], config=config)


def test_a_folder_without_images(config, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"^images '.*empty/' must hold images"):
        embed("random", tmp_path / "empty", config=config)


@pytest.mark.parametrize(
    ("images", "options", "error", "match"),
    [
        (
            [Image.new("RGB", (3, 3))],
            {},
            TypeError,
            "images must be paths.*use load_backbone and image_tr",
        ),
        ([], {}, ValueError, "images must have at least one image"),
        ([], {"image_px": 64}, ValueError, "config and image_px .* load_backbone"),
    ],
)
def test_mistakes_with_a_loaded_backbone(images, options, error, match, config):
    with pytest.raises(error, match=match):
        embed(load_backbone("random", config), images, **options)
