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
        ({}, {"method": "distill"}, "left out for distill, whose teacher takes only 8-bit RGB"),
        ({}, {"teacher": "w", "weights": "w"}, "swav-small, whose teacher takes only 8-bit RGB"),
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


def test_a_run_on_four_channels_is_trained_and_used(tmp_path, monkeypatch, capsys):
    stub_pace(monkeypatch)
    for place in ("probing.probe_file", "reporting.summary"):  # features of noise are worth nothing
        monkeypatch.setattr(f"mmssprl.{place}.propose", lambda path, _: Proposal(str(path), True))
    images = tmp_path / "images"
    run = tmp_path / "run"
    for i, name in enumerate("ab"):  # of each 5 train the probe, which takes no fewer
        write(images / name, 6, seed=i)
        write(tmp_path / "gray" / name, 6, seed=i, channels=1, dtype="uint8")
    words = ["pretrain", str(images), "--work-dir", str(run), "--probe", str(images)]
    new = "--channels 4 --backbone resnet18 --method byol --image-px 32 --batch-size 6 --epochs 1"
    assert main([*words, *new.split(), "--num-workers", "1"]) == 0

    weights = run / "byol_resnet18_backbone.pth"
    printed = capsys.readouterr().out
    assert "Probe after epoch 1" in printed
    for text in (printed, (run / "report.html").read_text()):
        assert ("mmssprl probe" in text, "mmssprl finetune" in text) == (True, False)

    rows = mmssprl.embed(weights, images)
    model = mmssprl.load_backbone(weights)
    array = tifffile.imread(images / rows.names[3])
    by_hand = model(mmssprl.image_transform(model)(array)[None])[0].detach().numpy()
    np.testing.assert_allclose(rows.features[3], by_hand, atol=1e-4)
    assert mmssprl.probe(weights, images).num_train == 10
    assert main(["export", str(weights), "--to", "safetensors"]) == 0
    views = ["visualize", "views", str(run / "byol_resnet18.py"), f"{images}/a/000.tif"]
    assert main([*views, str(tmp_path / "views.png")]) == 0
    with pytest.raises(ValueError, match="weights must belong to a backbone for RGB"):
        mmssprl.finetune(weights, tmp_path / "gray", task="classify")


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
    cfg = Config.fromfile(tmp_path / "run/swav-small_resnet18.py")
    found = cfg.model.data_preprocessor
    expected = arrays.mean((0, 1, 2)) if kept is None else kept * np.array(own["mean"])
    np.testing.assert_allclose(found.mean, expected, rtol=1e-5)
    assert ("of w.json" in " ".join(said)) is (kept is not None)
