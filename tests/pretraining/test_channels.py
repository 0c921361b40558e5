import io
from contextlib import redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile
import torch
from helpers.pretraining.paces import stub_pace
from mmengine.config import Config

import mmssprl
from mmssprl.cli import main
from mmssprl.probing.probe_file import Proposal
from mmssprl.weights import build_backbone, write_description


def write(folder, num=8, channels=4, dtype="uint16", seed=0, constant=()):
    """TIFFs whose channels have ranges of their own; returns their values (N, H, W, C)."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = np.random.default_rng(seed).random((num, 48, 40, channels))
    arrays *= np.array([250, 200, 90, 140])[:channels]
    arrays[..., constant] = 7
    for i, array in enumerate(arrays.astype(dtype)):
        options = {"photometric": "minisblack", "planarconfig": "contig"} if channels > 1 else {}
        tifffile.imwrite(folder / f"{seed}{i:02}.tif", array.squeeze(), **options)
    return arrays.astype(dtype)


@pytest.mark.parametrize(("num", "dtype"), [(4, "uint16"), (1, "uint8"), (3, "uint16")])
def test_the_config_has_what_was_measured(num, dtype, tmp_path, monkeypatch, on_cpu):
    stub_pace(monkeypatch)
    monkeypatch.setattr("mmssprl.runs.start.train_config", lambda *args, **options: None)
    arrays = write(tmp_path / "images", channels=num, dtype=dtype)
    lines = []
    options = {"channels": num, "backbone": "resnet18", "method": "byol", "log": lines.append}
    mmssprl.pretrain(tmp_path / "images", tmp_path / "run", **options)
    cfg = Config.fromfile(tmp_path / "run/byol_resnet18.py")
    own = cfg.model.data_preprocessor
    pixels = {"channels": num, "dtype": dtype}
    assert own.pixels == cfg.train_dataloader.dataset.pixels == pixels
    np.testing.assert_allclose(own.mean, arrays.mean((0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(own.std, arrays.std((0, 1, 2)), rtol=1e-5)
    assert (own.hue > 0) == (own.grayscale_prob > 0) == (num == 3)
    assert build_backbone(cfg).conv1.weight.shape[1] == num
    assert any(f"mean {own.mean[0]:.4g}" in line for line in lines)


@pytest.mark.parametrize(
    ("images", "options", "words"),
    [
        ({"channels": 3, "seed": 1}, {}, r"but \S*\.tif has (3|4) chan.* and \S*\.tif has (4|3)"),
        ({"dtype": "uint8", "seed": 1}, {}, "4 channels of uint8"),
        ({}, {"channels": 5}, r"5 channels of one type, but \S*\.tif has 4 channels of uint16"),
        ({}, {"method": "insloc"}, "channels must be left out for insloc"),
        ({}, {"method": "distill"}, "left out for distill: its teacher takes only 8-bit RGB"),
        ({}, {"teacher": "w", "weights": "w"}, "swav: its teacher takes only 8-bit RGB"),
        ({}, {"weights": "supervised"}, "ResNets of 3 channels, but .* resnet18 of 4"),
        ({"constant": [1]}, {}, "channel 2 of 4 is constant in all 8 images"),
    ],
)
def test_images_that_cannot_be_trained_on_are_refused_in_one_line(
    images, options, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    stub_pace(monkeypatch)
    for more in ({}, images):
        write(tmp_path / "images", **more)
    asked = {"channels": 4, "backbone": "resnet18", "dry_run": True, **options}
    with pytest.raises(ValueError, match=words) as error:
        mmssprl.pretrain("images", "run", log=lambda _: None, **asked)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on four channels, probed by the folders of its images, and what it printed."""
    folder = tmp_path_factory.mktemp("four_channels")
    images = folder / "images"
    for i, name in enumerate("ab"):  # of each 5 train the probe, which takes no fewer
        write(images / name, 6, seed=i)
    words = ["pretrain", str(images), "--work-dir", str(folder / "run"), "--probe", str(images)]
    new = "--channels 4 --backbone resnet18 --method byol --image-px 32 --batch-size 6 --epochs 1"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as console:
        stub_pace(patch)
        for place in ("probing.probe_file", "reporting.summary"):  # features of noise are worthless
            patch.setattr(f"mmssprl.{place}.propose", lambda path, _: Proposal(str(path), True))
        assert main([*words, *new.split(), "--num-workers", "1"]) == 0
    return SimpleNamespace(
        images=images,
        folder=folder / "run",
        weights=folder / "run" / "byol_resnet18_backbone.pth",
        printed=console.getvalue(),
    )


class TestRunOnFourChannels:
    def test_is_probed(self, run):
        assert "Probe after epoch 1" in run.printed
        assert mmssprl.probe(run.weights, run.images).num_train == 10

    def test_proposes_no_fine_tuning(self, run):
        for text in (run.printed, (run.folder / "report.html").read_text()):
            assert ("mmssprl probe" in text, "mmssprl finetune" in text) == (True, False)

    def test_is_not_fine_tuned(self, run, tmp_path):
        for i, name in enumerate("ab"):
            write(tmp_path / "gray" / name, 6, seed=i, channels=1, dtype="uint8")
        with pytest.raises(ValueError, match="weights must belong to a backbone for RGB"):
            mmssprl.finetune(run.weights, tmp_path / "gray", task="classify")

    def test_has_the_features_of_its_transform(self, run):
        rows = mmssprl.embed(run.weights, run.images)
        model = mmssprl.load_backbone(run.weights)
        array = tifffile.imread(run.images / rows.names[3])
        by_hand = model(mmssprl.image_transform(model)(array)[None])[0].detach().numpy()
        np.testing.assert_allclose(rows.features[3], by_hand, atol=1e-4)

    def test_is_exported(self, run):
        assert main(["export", str(run.weights), "--to", "safetensors"]) == 0

    def test_shows_its_views(self, run, tmp_path):
        config = str(run.folder / "byol_resnet18.py")
        image = str(run.images / "a" / "000.tif")
        assert main(["visualize", "views", config, image, str(tmp_path / "views.png")]) == 0


def described(path, *, num, dtype):
    """Weights of a ResNet-18 for channels, with a description; returns the numbers in it."""
    backbone = {"type": "ResNet", "depth": 18, "in_channels": num}
    own = {"mean": [7.0 + i for i in range(num)], "std": [3.0 + i for i in range(num)]}
    preprocessor = {**own, "pixels": {"channels": num, "dtype": dtype}}
    cfg = Config({"model": {"backbone": backbone, "data_preprocessor": preprocessor}})
    torch.save(build_backbone(cfg).state_dict(), path)
    write_description(path, cfg)
    return own


@pytest.mark.parametrize(
    ("num", "dtype", "of_weights", "kept"),
    [
        (4, "uint16", "uint16", 1.0),
        (3, "uint16", "uint8", 65535 / 255),  # colours of another depth
        (4, "uint16", "uint8", None),  # another unit: measured
    ],
)
def test_a_continued_run_keeps_the_numbers_of_its_weights(
    num, dtype, of_weights, kept, tmp_path, monkeypatch, on_cpu
):
    stub_pace(monkeypatch)
    monkeypatch.setattr("mmssprl.runs.start.train_config", lambda *args, **options: None)
    arrays = write(tmp_path / "images", channels=num, dtype=dtype)
    own = described(tmp_path / "w.pth", num=num, dtype=of_weights)
    options = {"channels": num, "backbone": "resnet18", "weights": tmp_path / "w.pth"}
    said = []
    mmssprl.pretrain(tmp_path / "images", tmp_path / "run", **options, log=said.append)
    cfg = Config.fromfile(tmp_path / "run/swav_resnet18.py")
    found = cfg.model.data_preprocessor
    expected = arrays.mean((0, 1, 2)) if kept is None else kept * np.array(own["mean"])
    np.testing.assert_allclose(found.mean, expected, rtol=1e-5)
    assert ("of w.json" in " ".join(said)) is (kept is not None)
    # Values up to 250 of 65,535; the others are 5 to 24 times as wide as the weights'.
    warned = "that the weights were trained with, mean" in " ".join(" ".join(said).split())
    assert warned is (kept == 65535 / 255)
