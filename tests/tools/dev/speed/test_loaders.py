"""The loaders that are compared: same crops in one order, and the images that they read."""

from collections import Counter

import torch
from helpers.package.mmcv_builds import needs_hues
from PIL import Image

from tools.dev.speed import loaders, models
from tools.dev.speed.models import our_loader


def test_sample_images_are_like_photographs_and_always_the_same(images, tmp_path):
    files = sorted(images.iterdir())
    assert all(100_000 < file.stat().st_size < 220_000 for file in files)
    sizes = [Image.open(file).size for file in files]
    assert sizes[:4] == [(640, 480)] * 3 + [(480, 640)]
    again = models.write_images(tmp_path / "again", 2)
    assert [f.read_bytes() for f in sorted(again.iterdir())] == [f.read_bytes() for f in files[:2]]
    assert files[0].read_bytes() != files[1].read_bytes()


@needs_hues
def test_all_loaders_cut_the_crops_of_the_recipe(images):
    dataset = our_loader(images, loaders.RELEASED)
    paths = loaders.image_paths(dataset)
    ours = [crop for packed in dataset[0]["inputs"] for crop in packed]
    theirs = loaders.TorchvisionLoader(paths, loaders.RELEASED)[0]
    packed = loaders.MultiViewLoader(paths, loaders.RELEASED)[0]
    for crops, dtype in (
        (ours, torch.uint8),
        (theirs, torch.float32),
        (packed["inputs"], torch.uint8),
    ):
        assert Counter(crop.shape for crop in crops) == {
            (3, px, px): number for px, number in {224: 2, 96: 24, 112: 8}.items()
        }
        assert {crop.dtype for crop in crops} == {dtype}
    assert packed["data_samples"].img_path == paths[0]
    assert min(crop.min() for crop in theirs) < -1  # normalised


def test_our_side_on_the_cpu_augments_every_image_once(images, monkeypatch):
    dataset = our_loader(images, loaders.RELEASED)
    preprocessor = loaders.our_preprocessor(loaders.RELEASED)
    shapes, trained = [], []
    forward = preprocessor.forward

    def record(data, training):
        trained.append(training)
        shapes.append([tuple(t.shape[:2]) for t in data["inputs"]])
        return forward(data, training)

    monkeypatch.setattr(preprocessor, "forward", record)
    monkeypatch.setattr(loaders, "BATCH_SIZE", 2)
    loaders.load_on_cpu(dataset, preprocessor, [3, 1, 2])
    assert trained == [True, True]
    assert shapes == [[(2, 2), (2, 6), (2, 8), (2, 18)], [(1, 2), (1, 6), (1, 8), (1, 18)]]
