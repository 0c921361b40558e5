from collections import Counter

import pytest
import torch
from helpers.package.mmcv_builds import needs_hues

from tools.dev.speed import data_rows as rows
from tools.dev.speed import loaders, models
from tools.dev.speed.gates import GATES
from tools.dev.speed.models import our_loader


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return models.write_images(tmp_path_factory.mktemp("images"), 16)


@needs_hues
def test_all_loaders_cut_the_crops_of_the_recipe(images):
    dataset = our_loader(images, loaders.RELEASED)
    paths = loaders.image_paths(dataset)
    ours = [crop for packed in dataset[0]["inputs"] for crop in packed]
    theirs = loaders.TorchvisionLoader(paths, loaders.RELEASED)[0]
    packed = loaders.MultiViewLoader(paths, loaders.RELEASED)[0]
    numbers = {(3, 224, 224): 2, (3, 96, 96): 24, (3, 112, 112): 8}
    kinds = ((ours, torch.uint8), (theirs, torch.float32), (packed["inputs"], torch.uint8))
    for crops, dtype in kinds:
        assert Counter(crop.shape for crop in crops) == numbers
        assert {crop.dtype for crop in crops} == {dtype}
    assert packed["data_samples"].img_path == paths[0]
    assert min(crop.min() for crop in theirs) < -1  # normalised


def test_speeds_and_ratios():
    means = {"torchvision": 0.1, "mmpretrain": 0.15, "ours_cpu": 0.025, "decode": 0.001}
    seconds = {side: [mean] * 3 for side, mean in means.items()}
    seconds["ours"] = [0.01, 0.005, 0.02]
    found = {row.id: row for row in rows.speed_rows(seconds)}
    assert found["ours_34_ms"].value == pytest.approx(10)
    assert found["ours_34_ms"].quartiles == pytest.approx((7.5, 15))
    assert found["decode_ms"].value == pytest.approx(1)
    assert found["C1"].judged == GATES["C1"]
    assert [found[row_id].value for row_id in ("C1", "C2", "C13")] == pytest.approx([10, 4, 15])
