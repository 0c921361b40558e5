import runpy
import sys
from pathlib import Path

import numpy as np
import torch
from helpers.package.checkout import ROOT
from PIL import Image
from torchvision.models import resnet18


def test_train_then_find_similar_images(tmp_path, monkeypatch, capsys):
    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(script, run_name="__main__")
        return capsys.readouterr().out.splitlines()

    photos = tmp_path / "photos"
    photos.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (7, 12, 16, 3), dtype=np.uint8)
    pixels[1] = pixels[0] ^ 1  # alike
    for i, image in enumerate(pixels):
        Image.fromarray(image).resize((160, 120)).save(photos / f"{i:02}.JPG")
    text = (ROOT / "examples/train_on_a_folder.py").read_text()
    for many, few in (("range(10)", "range(1)"), ("batch_size=32", "batch_size=4")):
        assert text.count(many) == 1
        text = text.replace(many, few)
    (tmp_path / "one_epoch.py").write_text(text)
    weights = tmp_path / "backbone.pth"
    lines = run(str(tmp_path / "one_epoch.py"), photos, weights)
    losses = [float(word) for word in lines[-1].split()[2:]]
    assert len(losses) == 5  # scales 0, 1, cross 1, 2, cross 2
    assert all(0 < loss < 10 for loss in losses)
    names = set(torch.load(weights, weights_only=True))
    assert names == {name for name in resnet18().state_dict() if not name.startswith("fc.")}

    similar = str(ROOT / "examples/find_similar_images.py")
    found = run(similar, weights, photos, photos / "00.JPG")
    assert len(found) == 5
    cosine, path = found[0].split()
    assert Path(path) == photos / "01.JPG"
    assert float(cosine) > 0.99
