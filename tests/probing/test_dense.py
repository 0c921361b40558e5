import csv

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import write_coco, write_masks
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import jaccard_score
from torch import nn
from torch.nn import functional as F

import mmssprl
from mmssprl.cli import main
from mmssprl.features import FeatureBackbone
from mmssprl.probing import logistic_regression
from mmssprl.probing.dense import cell_pixels, chance_miou, count_pixels
from mmssprl.probing.linear_classifier import fit_softmax_probe
from mmssprl.probing.measures import mean_iou

CPU = {"device": "cpu", "progress": False}


@pytest.mark.parametrize("strength", [0.1, 1e-3])
def test_weights_are_scikit_learns_on_flattened_cells(strength):
    rng = np.random.default_rng(0)
    maps = rng.normal(3, 2, (20, 6, 3, 3))
    labels = rng.integers(0, 4, (20, 12, 15)).astype(np.uint8)
    labels[:, :6] = (maps[:, 0].repeat(4, 1).repeat(5, 2) > 3)[:, :6]
    labels[:, :, 13:] = 255

    x = torch.from_numpy(maps).flatten(2).mT.flatten(0, 1)  # (N, C)
    shares = torch.cat([cell_pixels(each, (3, 3), 4) for each in labels]).double() / 20
    probe = fit_softmax_probe(x, shares.float(), torch.arange(len(x)), strengths=[strength])

    # Each cell occurs once per class, weighted by its share and by the class.
    sums = shares.sum(dim=0)
    weights = sums**-0.5 * sums.sum() / sums.sqrt().sum()
    standard = ((x - x.mean(0)) / x.std(0, correction=0)).numpy()
    rows, classes = np.divmod(np.arange(4 * len(x)), 4)
    reference = LogisticRegression(C=1 / (len(x) * strength), tol=1e-10, max_iter=5000)
    reference.fit(standard[rows], classes, sample_weight=(weights * shares).flatten().numpy())

    weight = probe.weight - probe.weight.mean(dim=0)  # a shift of all classes changes no score
    np.testing.assert_allclose(weight, reference.coef_, atol=1e-3)
    bias = probe.bias - probe.bias.mean()
    np.testing.assert_allclose(bias, reference.intercept_ - reference.intercept_.mean(), atol=1e-3)
    chosen = reference.decision_function(standard).argmax(axis=1)
    assert (probe(x.float()).argmax(dim=1).numpy() == chosen).mean() > 0.99


def test_pixels_of_cells_by_hand():
    labels = np.array([[0, 1, 1, 2, 255], [0, 255, 1, 1, 2], [2, 2, 0, 0, 0]], np.uint8)
    # Rows 0 and 1 belong to the upper cells, columns 0 to 2 to the left ones.
    assert cell_pixels(labels, (2, 2), 3).tolist() == [[2, 3, 0], [0, 1, 2], [1, 0, 2], [2, 0, 0]]
    assert cell_pixels(labels, (1, 1), 3).tolist() == [[5, 4, 4]]


def test_iou_is_scikit_learns():
    rng = np.random.default_rng(1)
    truth, found = rng.integers(0, 3, (2, 8, 9)).astype(np.uint8)
    truth[0] = 255
    confusion = count_pixels(torch.from_numpy(found).long(), truth, 5)  # 3 and 4 are nowhere
    mean, each = mean_iou(confusion)
    expected = jaccard_score(truth[1:].ravel(), found[1:].ravel(), average=None)
    np.testing.assert_allclose(each[:3], expected)
    assert each[3:].isnan().all()
    assert mean == pytest.approx(expected.mean())


TEST_PIXELS = torch.tensor([5.0, 4, 1, 0]).double()


def test_iou_of_a_constant_by_hand():
    train = torch.tensor([3.0, 9, 1, 0]).double()
    # Class 1 everywhere: 4 of 10 pixels are right; one class is in no test image.
    assert chance_miou(train, TEST_PIXELS) == pytest.approx(0.4 / 3)


def test_a_constant_class_that_no_test_image_shows_is_never_right():
    assert chance_miou(torch.tensor([0.0, 0, 0, 2]), TEST_PIXELS) == 0


COLOURS = nn.AvgPool2d(8)  # its map is the image, 8 x 8 px a cell
NOTHING = nn.Sequential(COLOURS, nn.Threshold(float("inf"), 0.0))


def model_of(backbone):
    return FeatureBackbone(backbone, image_px=32, mean=(127.0,) * 3, std=(50.0,) * 3)


def write_halves(root):
    """Write images with a dark and a light half, which their masks show."""
    for i in range(20):
        split = "train" if i < 12 else "val"
        light = slice(16, 32) if i % 2 else slice(0, 16)
        labels = np.zeros((32, 32), np.uint8)
        labels[:, light] = 1
        for folder, pixels in (("images", np.stack([250 * labels] * 3, -1)), ("masks", labels)):
            path = root / folder / split / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return root


def test_perfect_features_score_one(tmp_path):
    found = mmssprl.probe(model_of(COLOURS), write_halves(tmp_path), **CPU).dense
    assert (found.mIoU, found.chance_mIoU) == (1.0, 0.25)
    assert found.per_class == {"class 0": 1.0, "class 1": 1.0}
    assert found.strength == 1  # the strongest of equals
    assert (found.num_train, found.num_test, found.num_cells) == (12, 8, 16)


def test_constant_features_score_as_chance(tmp_path):
    found = mmssprl.probe(model_of(NOTHING), write_halves(tmp_path), **CPU).dense
    assert found.mIoU == found.chance_mIoU == 0.25


@pytest.mark.parametrize(
    ("scores", "chosen", "num_tried"),
    [
        ([0.5, 0.4, 0.3], 1.0, 3),
        ([0.34, 0.34, 0.34, 0.33, 0.5, 0.4, 0.3], 1e-3, 7),  # scores of background only, with a dip
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 1e-5, 7),
    ],
)
def test_penalties_from_1_on_are_tried_until_two_are_behind(
    scores, chosen, num_tried, monkeypatch, tmp_path
):
    values = iter([*scores, 0.0])
    monkeypatch.setattr(logistic_regression, "mean_iou", lambda confusion: (next(values), None))
    found = mmssprl.probe(model_of(COLOURS), write_halves(tmp_path), **CPU).dense
    assert found.strength == chosen
    assert [*map(float, found.held_out_mIoU)] == [1, 0.3, 0.1, 0.01, 1e-3, 1e-4, 1e-5][:num_tried]


class Levels(nn.Module):
    """Its map encodes the grey level of an image and shares no feature between levels."""

    def forward(self, images):
        levels = (5 * F.avg_pool2d(images[:, :1], 8) + 12.7).round()
        return (levels == torch.arange(20).view(-1, 1, 1)).float()


def test_the_penalty_is_chosen_by_images_that_were_not_fitted(tmp_path):
    root = write_halves(tmp_path)
    for i in range(20):
        split = "train" if i < 12 else "val"
        for folder, value in (("images", 10 * i), ("masks", i // 2 % 2)):
            Image.new("L", (32, 32), value).save(root / folder / split / f"{i}.png")
    found = mmssprl.probe(model_of(Levels()), root, **CPU).dense
    # Cells of one image in both folds would be known by heart.
    assert max(found.held_out_mIoU.values()) < 0.5


def test_the_command_reports_scores_of_regions(tmp_path, config, capsys):
    root = write_coco(tmp_path / "coco")
    table = tmp_path / "table.csv"
    (root / "train" / "pictures" / "cam 0" / "Shot-00.v1.PNG").write_text("no image")
    argv = ["probe", "random", str(root), "--config", str(config), "--out", str(table)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "1 images of train cannot be read" in printed
    head, _, row = (line.split() for line in printed.splitlines() if line.startswith("|"))
    assert head[-8:-1] == ["|", "mIoU", "%", "|", "chance", "mIoU", "%"]
    [kept] = csv.DictReader(table.read_text().splitlines())
    assert f"{100 * float(kept['mIoU']):.2f}" == row[-4]
    assert {"IoU background", "IoU square", "IoU disc"} <= kept.keys()


def test_images_without_masks_have_no_miou(coco):
    assert mmssprl.probe(model_of(COLOURS), coco, **CPU).dense is None


def test_a_network_without_a_map_has_no_miou(tmp_path, capsys):
    root = write_masks(tmp_path / "masks", num_train=12)
    vectors = nn.Sequential(COLOURS, nn.Flatten())
    assert mmssprl.probe(model_of(vectors), root, **CPU).dense is None
    line = "no mIoU: weights must be of a backbone that gives a feature map, but this one gives"
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{line} a vector of 48 features; use a network without pooling" in printed
