import shutil
from pathlib import Path

import torch
from helpers.features.probe_folders import CONFIG, write_image
from helpers.package.pages import blocks_of
from mmengine.config import Config
from PIL import Image

from mmssprl.cli import main
from mmssprl.features import read_embeddings
from mmssprl.weights import load_backbone

PAGE = Path(__file__).parents[3] / "docs" / "embeddings.md"


def test_what_the_page_does(tmp_path, monkeypatch):
    """In a folder as after a pre-training, with two photographs that are the same."""
    for i in range(8):
        write_image(tmp_path / "photos" / f"{i}.jpg", ("red",) if i % 2 else ("green",), i)
    shutil.copy(tmp_path / "photos" / "3.jpg", tmp_path / "photos" / "copy_of_3.jpg")
    run = tmp_path / "work_dirs" / "search"
    run.mkdir(parents=True)
    cfg = Config.fromstring(CONFIG, ".py")
    cfg.model.backbone = {"type": "ResNet", "depth": 18}
    cfg.dump(run / "ssprl_resnet18.py")
    torch.save(load_backbone("random", cfg).state_dict(), run / "ssprl_resnet18_backbone.pth")
    monkeypatch.chdir(tmp_path)
    found: dict = {}
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(PAGE), "exec"), found)
            continue
        for words in block.commands():
            if words[3] != "pretrain":  # whose weights are there
                assert main([*words[3:], "--device", "cpu"]) == 0
    assert len(read_embeddings("photos.npz")) == 9
    assert len(read_embeddings("cells.npz")) == 9 * 14
    assert Image.open("rows.png").width > 100
    assert len(Path("duplicates.csv").read_text().splitlines()) == 2
    assert len(found["middle"]) == 9
    assert [Path(name).name for name in found["superfluous"]] == ["copy_of_3.jpg"]
    # The network of torchvision is the same.
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(found["network"](images), found["model"](images))
